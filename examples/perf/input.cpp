#include "input.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace perf {

double input::typical() const {
  std::vector<float> x(std::min<std::size_t>(values(), 1 << 16));
  read(0, 0, x);
  double sum = 0;
  for (float const v : x) sum += std::abs(v);
  return sum > 0 ? sum / static_cast<double>(x.size()) : 1;
}

void generated::read(int rank, std::size_t first, std::span<float> out) const {
  auto const key = hcomp::philox_key({seed_, static_cast<std::uint64_t>(rank), 0});
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint64_t const place = first + i;
    auto const draw = hcomp::philox4x32(
        {static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0}, key);
    // Box-Muller transform: u is uniform in (0, 1]
    float const u = (static_cast<float>(draw[0] >> 8) + 1) * 0x1p-24f;
    float const angle = static_cast<float>(draw[1] >> 8) * 0x1p-24f * 2 * std::numbers::pi_v<float>;
    bool const is_nonzero = draw[2] * 0x1p-32 < density_;
    out[i] = is_nonzero ? std::sqrt(-2 * std::log(u)) * std::cos(angle) : 0;
  }
}

npy_file::npy_file(std::string const& file, int ranks) : matrix_(file) {
  if (matrix_.rows() < static_cast<std::size_t>(ranks))
    throw std::runtime_error(
        fmt::format("{} has vectors of {} ranks, {} ranks run", file, matrix_.rows(), ranks));
}

}  // namespace perf
