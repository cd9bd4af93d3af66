#pragma once
/// @file
/// Sums over the blocks of a launch while they run: decoupled look-back.

#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>
#include <hcomp/gpu/warp_group.hpp>

namespace hcomp::gpu::detail {

/// A word that other blocks read and write meanwhile. All that is said is in the word, so its order
/// among other accesses does not matter.
__device__ inline std::uint64_t load_relaxed(std::uint64_t const* from) {
  std::uint64_t word;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
}
__device__ inline void store_relaxed(std::uint64_t* to, std::uint64_t word) {
  asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

/// The sum of the values of blocks 0 to i - 1, for all lanes of one warp of block i.
///
/// A block says its own value, then adds up those of the blocks before it, 32 at a time, back to
/// one that knows the sum up to itself, and says that of its own.
/// @param sums   a word for each block: 0, or in the upper two bits which of the two it is
/// @param value  below 2^62
/// Source: D. Merrill and M. Garland, Single-pass parallel prefix scan with decoupled look-back,
/// NVIDIA NVR-2016-002.
__device__ inline std::uint64_t look_back(std::uint64_t* sums, std::size_t i, std::uint64_t value) {
  constexpr std::uint64_t own = std::uint64_t{1} << 62, whole = own << 1, number = own - 1;
  warp_group const warp;
  auto const lane = static_cast<std::size_t>(warp.worker());
  if (lane == 0) store_relaxed(sums + i, (i == 0 ? whole : own) | value);
  if (i == 0) return 0;
  std::uint64_t before = 0;
  for (std::size_t next = i;; next -= warp_group::workers) {
    std::uint64_t seen = whole;  // before the first block there is nothing
    if (lane < next) {
      do seen = load_relaxed(sums + (next - 1 - lane));
      while (seen < own);
    }
    std::uint32_t const wholes = warp.vote(seen >= whole);
    bool const counts = wholes == 0 || static_cast<int>(lane) < __ffs(static_cast<int>(wholes));
    before += warp.sum(counts ? seen & number : 0);
    if (wholes != 0) break;
  }
  if (lane == 0) store_relaxed(sums + i, whole | (before + value));
  return before;
}

}  // namespace hcomp::gpu::detail
