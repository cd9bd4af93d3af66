#include "bits_text.hpp"

#include <fmt/core.h>

namespace perf {

std::string bits_text(std::string const& codec, double bits, hcomp::report const& stats) {
  auto text = fmt::format("{} sent {:.1f} bits per value and hop", codec, bits);
  if (stats.error > 0) text += fmt::format(", values are off by up to {:.2g}", stats.error);
  if (stats.is_beyond_bound())
    text += fmt::format(", more than the bound of {:.2g}: floats are further apart", stats.bound);
  return text;
}

}  // namespace perf
