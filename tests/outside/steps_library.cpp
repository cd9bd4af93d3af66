/// @file
/// The codec as a shared library, for programs that do not know it.

#include <hcomp/codec_library.hpp>

#include "steps.hpp"

char const* hcomp_codecs_made_for() { return hcomp::codec_library::version(); }
void hcomp_codecs(hcomp::codec_library& all) {
  all.add(outside::steps_row<float>());
  all.add(outside::steps_row<double>());
}
