#include <cstdlib>
#include <hcomp/codec_library.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <stdexcept>

#include "settings.hpp"

namespace hcomp::drop_in {

std::string const& add_codecs_from_environment() {
  static std::string const names = [] {  // if it throws, the next call retries
    char const* const paths = std::getenv("HCOMP_CODECS");
    if (!paths) return std::string();
    try {
      auto const found = codec_library::from(paths);
      found.add_to(registered_codecs<float>(), registered_codecs<double>());
      return found.names();
    } catch (std::invalid_argument const& why) {
      throw std::invalid_argument(std::string("HCOMP_CODECS: ") + why.what());
    }
  }();
  return names;
}

}  // namespace hcomp::drop_in
