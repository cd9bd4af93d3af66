#pragma once
/// @file
/// Single-pass prefix sum over the blocks of a launch: decoupled look-back.

#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>
#include <hcomp/gpu/warp_group.hpp>

namespace hcomp::gpu::detail {

/// Loads a word that other blocks access concurrently. Relaxed order is enough, because the word
/// alone carries the whole message.
__device__ inline std::uint64_t load_relaxed(std::uint64_t const* from) {
  std::uint64_t word;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
}
__device__ inline void store_relaxed(std::uint64_t* to, std::uint64_t word) {
  asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

/// Flags in the upper two bits of a block's word: its own value, or the prefix sum through the
/// block. The word is 0 until the block publishes one of them.
inline constexpr std::uint64_t own_value = std::uint64_t{1} << 62, sum_through = own_value << 1;

/// Publishes the value of block i early, before the block calls look_back. Called by one thread.
__device__ inline void announce(std::uint64_t* sums, std::size_t i, std::uint64_t value) {
  store_relaxed(sums + i, (i == 0 ? sum_through : own_value) | value);
}
/// Returns the sum of the values of blocks 0 to i - 1. Called by all lanes of one warp of block i.
///
/// The block publishes its own value. It then reads the words of earlier blocks, 32 at a time,
/// until it finds a prefix sum, and publishes its own prefix sum.
/// @param sums   one word per block of the launch, in device memory, 0 before the launch
/// @param value  value of block i, below 2^62
/// Source: D. Merrill and M. Garland, Single-pass parallel prefix scan with decoupled look-back,
/// NVIDIA NVR-2016-002.
__device__ inline std::uint64_t look_back(std::uint64_t* sums, std::size_t i, std::uint64_t value) {
  warp_group const warp;
  auto const lane = static_cast<std::size_t>(warp.worker());
  if (lane == 0) announce(sums, i, value);
  if (i == 0) return 0;
  std::uint64_t mine = 0;
  bool is_found = false;
  for (std::size_t next = i; !is_found; next -= warp_group::workers) {
    // lanes before the first block contribute an empty prefix sum
    std::uint64_t seen = sum_through;
    if (lane < next) do {
        seen = load_relaxed(sums + (next - 1 - lane));
      } while (seen < own_value);
    std::uint32_t const sums_through = warp.vote(seen >= sum_through);
    is_found = sums_through != 0;
    bool const counts = !is_found || static_cast<int>(lane) < __ffs(static_cast<int>(sums_through));
    if (counts) mine += seen & (own_value - 1);
  }
  std::uint64_t const before = warp.sum(mine);
  if (lane == 0) store_relaxed(sums + i, sum_through | (before + value));
  return before;
}

}  // namespace hcomp::gpu::detail
