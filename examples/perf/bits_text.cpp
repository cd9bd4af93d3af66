#include "bits_text.hpp"

#include <fmt/core.h>

namespace perf {

std::string bits_text(std::string const& codec, double bits, hcomp::report const& figures) {
  auto text = fmt::format("{} sent {:.1f} bits per value and hop", codec, bits);
  if (figures.error > 0) text += fmt::format(", values are off by up to {:.2g}", figures.error);
  if (figures.is_beyond_bound())
    text += fmt::format(", more than the bound of {:.2g}: floats are further apart", figures.bound);
  return text;
}

}  // namespace perf
