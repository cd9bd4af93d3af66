#include "bits_text.hpp"

#include <fmt/core.h>

namespace perf {

std::string bits_text(std::string const& codec, double bits, double error) {
  auto const text = fmt::format("{} sent {:.1f} bits per value and hop", codec, bits);
  return error > 0 ? text + fmt::format(", coding changed values by up to {:.2g}", error) : text;
}

}  // namespace perf
