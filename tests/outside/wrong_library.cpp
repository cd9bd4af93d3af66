/// @file
/// Shared libraries that a user may load by mistake: of another hcomp version, with a codec whose
/// name is taken, without codecs.

#include <hcomp/codec_library.hpp>
#include <stdexcept>

#include "steps.hpp"

#if defined(OTHER_VERSION)
char const* hcomp_codecs_made_for() { return "0.0.1, wire format 1, rows of 8 bytes"; }
void hcomp_codecs(hcomp::codec_library&) { throw std::logic_error("called all the same"); }
#elif defined(TAKEN_NAME)
char const* hcomp_codecs_made_for() { return hcomp::codec_library::version(); }
void hcomp_codecs(hcomp::codec_library& all) {
  all.add(outside::steps_row<float>());
  auto row = outside::steps_row<double>();
  row.also = {"sign"};
  all.add(row);
}
#elif defined(THROWS)
char const* hcomp_codecs_made_for() { return hcomp::codec_library::version(); }
void hcomp_codecs(hcomp::codec_library&) { throw std::runtime_error("it has no licence"); }
#endif
