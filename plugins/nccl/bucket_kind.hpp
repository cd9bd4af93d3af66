#pragma once
/// @file
/// What a bucket is made for.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <c/device_plan.hpp>
#include <c/settings.hpp>

namespace hcomp::drop_in {

/// Where the next vector in a piece of memory begins: at the next multiple of 64.
constexpr std::size_t multiple_of_64(std::size_t n) { return (n + 63) / 64 * 64; }

/// Calls that a bucket reduces together. Equal on all ranks.
struct bucket_kind {
  collective_kind kind;
  value_type type;
  std::string codec;
  std::vector<std::size_t> counts;  ///< of the results
  bool is_hierarchical = false;
  std::uint64_t capture = 0;  ///< CUDA graph that uses it; 0: none

  friend auto operator<=>(bucket_kind const&, bucket_kind const&) = default;
};

}  // namespace hcomp::drop_in
