#pragma once
/// @file
/// Sparse vectors, and their all-reduces over ranks in one process.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <support/data.hpp>
#include <type_traits>
#include <vector>

namespace sparse {

using vectors = std::vector<std::vector<float>>;

/// Values in -1 .. 1. A share of `density` is not zero; the rest are zeros of both signs.
inline std::vector<float> values(std::size_t n, double density, data::source from) {
  std::vector<float> x(n);
  auto const limit = static_cast<std::uint64_t>(density * 0x1p53);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const draw = hcomp::mix(hcomp::mix(from.seed) + i * 0x9e3779b97f4a7c15u);
    if (draw >> 11 < limit)
      x[i] = static_cast<float>(static_cast<std::int32_t>(hcomp::mix(draw)) | 1) * 0x1p-31f;
    else if (draw & 1)
      x[i] = -0.0f;
  }
  return x;
}

/// The vectors of all ranks.
inline vectors ranks_of(std::size_t ranks, std::size_t n, double density, std::uint64_t seed = 1) {
  vectors x;
  for (std::size_t r = 0; r < ranks; ++r)
    x.push_back(values(n, density, {.seed = seed * 1000 + r}));
  return x;
}

/// The codec's result for all ranks' vectors, which is equal on each rank. Lanes are added in the
/// order of the ranks.
template <hcomp::IndexedNativeSum C>
std::vector<float> sum(C& codec, vectors const& x, std::uint64_t key = 1) {
  std::vector<std::uint64_t> all(hcomp::sparse_index::words(x[0].size()));
  for (auto const& mine : x) {
    auto const words = codec.mark(mine);
    for (std::size_t w = 0; w < all.size(); ++w) all[w] |= words[w];
  }
  std::copy(all.begin(), all.end(), codec.mark(x[0]).begin());
  codec.unite(key);
  std::vector<typename C::lane_type> lanes(codec.lanes(x[0].size())), total(lanes.size());
  for (auto const& mine : x) {
    auto const words = codec.mark(mine);  // the state after unite remains valid
    std::copy(all.begin(), all.end(), words.begin());
    codec.encode_lanes(mine, lanes, key);
    for (std::size_t i = 0; i < lanes.size(); ++i) total[i] += lanes[i];
  }
  auto result = x.back();  // every value must be overwritten
  codec.decode_lanes(total, result, key);
  return result;
}

/// The sum in floats, in the order of the ranks.
inline std::vector<float> plain_sum(vectors const& x) {
  std::vector<float> total(x[0].size());
  for (auto const& mine : x)
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += mine[i];
  return total;
}

/// The sum in fixed point by definition: every value is rounded to a multiple of a power of two,
/// and the integers are added. The power is the largest one with which no sum overflows `Lane`'s
/// signed type.
template <class Lane> std::vector<float> fixed_sum(vectors const& x) {
  using number = std::make_signed_t<Lane>;
  float largest = 0;
  for (auto const& mine : x)
    for (float const v : mine) largest = std::max(largest, std::fabs(v));
  int up = largest < std::numeric_limits<float>::min() ? 126 : -std::ilogb(largest) - 1;
  auto const most = static_cast<double>(
      static_cast<std::uint64_t>(std::numeric_limits<number>::max()) / x.size());
  for (double limit = 2; limit <= most; limit *= 2) ++up;
  if (static_cast<std::uint64_t>(std::ldexp(1.0, std::ilogb(most))) * x.size() >
      static_cast<std::uint64_t>(std::numeric_limits<number>::max()))
    --up;  // `most` was rounded up
  std::vector<float> total(x[0].size());
  for (std::size_t i = 0; i < total.size(); ++i) {
    number sum = 0;
    for (auto const& mine : x)
      sum += static_cast<number>(std::round(std::ldexp(static_cast<double>(mine[i]), up)));
    total[i] = static_cast<float>(std::ldexp(static_cast<double>(sum), -up));
  }
  return total;
}

}  // namespace sparse
