#pragma once
/// @file
/// Blocks of values: their number, and access to their values by one worker. Access uses 16 bytes
/// at a time at multiples of 16, which devices load and store at once.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>

namespace hcomp::detail {

/// Number of blocks of `Values` values in `values` values.
template <std::size_t Values> HCOMP_HD constexpr std::size_t blocks_of(std::size_t values) {
  return (values + Values - 1) / Values;
}
/// Number of values in block `block` of `values` values.
template <std::size_t Values>
HCOMP_HD constexpr std::size_t values_of_block(std::size_t block, std::size_t values) {
  std::size_t const left = values - block * Values;
  return left < Values ? left : Values;
}

template <class T> inline constexpr std::size_t values_at_once = 16 / sizeof(T);

/// Sets block[j] = x[j] for j < n, and 0 behind n values.
template <class T, std::size_t Values>
HCOMP_HD void read_block(T const* x, std::size_t n, T (&block)[Values]) {
  auto const* const from = reinterpret_cast<std::byte const*>(x);
  if (n == Values && reinterpret_cast<std::uintptr_t>(x) % 16 == 0)
    for (std::size_t j = 0; j < Values; j += values_at_once<T>)
      memcpy(block + j, __builtin_assume_aligned(from + sizeof(T) * j, 16), 16);
  else
    for (std::size_t j = 0; j < Values; ++j) block[j] = j < n ? x[j] : T{0};
}
/// Sets out[j] = block[j] for j < n.
template <class T, std::size_t Values>
HCOMP_HD void write_block(T const (&block)[Values], std::size_t n, T* out) {
  auto* const to = reinterpret_cast<std::byte*>(out);
  if (n == Values && reinterpret_cast<std::uintptr_t>(out) % 16 == 0)
    for (std::size_t j = 0; j < Values; j += values_at_once<T>)
      memcpy(__builtin_assume_aligned(to + sizeof(T) * j, 16), block + j, 16);
  else
    for (std::size_t j = 0; j < n; ++j) out[j] = block[j];
}

// ---- One block per worker

/// The current block of a worker. It is in private memory, or in shared memory if the group has a
/// worker for each block of a chunk. Neighbouring workers then access neighbouring values.
template <class Group, class T, std::size_t Values, std::size_t MostBlocks> class own_block {
 public:
  /// Values that are moved at once.
  using run = adjacent<T, values_at_once<T>>;
  static constexpr unsigned in_run = values_at_once<T>, runs = Values / in_run;

  static constexpr bool is_shared = SharesMemory<Group> && Group::workers >= MostBlocks;
  static constexpr std::size_t area_bytes = MostBlocks * Values * sizeof(T);

  /// @param area  shared memory for all blocks, at a multiple of 16
  HCOMP_HD own_block(Group group, [[maybe_unused]] std::byte* area) {
    if constexpr (is_shared) {
      area_ = area;
      worker_ = worker_of(group);
    }
  }
  /// Loads the worker's block of a chunk of n values; values behind them are zero. All workers call
  /// it.
  /// @param begin  block of the first worker
  HCOMP_HD void bring(Group group, T const* chunk, std::size_t n, std::size_t begin) {
    if constexpr (is_shared) {
      auto const count = static_cast<unsigned>(n);
      if (is_whole(chunk, n)) {
        for_each_loaded(
            group, all / in_run,
            [&](unsigned i, unsigned k) { return run::at(chunk + in_run * (i + k * workers)); },
            [&](unsigned i, unsigned k, run const& some) {
              some.put(place_of(i / runs, i % runs) + k * workers * sizeof(run));
            });
      } else {
        for_each_loaded(
            group, all,
            [&](unsigned i, unsigned k) {
              unsigned const at = i + k * workers;
              return at < count ? chunk[at] : T{0};
            },
            [&](unsigned i, unsigned k, T value) { *value_at(i + k * workers) = value; });
      }
      group.sync();
    } else {
      std::size_t const k = begin + static_cast<std::size_t>(group.worker());
      if (k < blocks_of<Values>(n))
        read_block(chunk + k * Values, values_of_block<Values>(k, n), own_values_);
    }
  }
  /// The values from index in_run * r on.
  HCOMP_HD run get(unsigned r) const {
    if constexpr (is_shared)
      return run::at(place_of(worker_, r));
    else
      return run::at(own_values_ + in_run * r);
  }
  HCOMP_HD void put(unsigned r, run const& some) {
    if constexpr (is_shared)
      some.put(place_of(worker_, r));
    else
      some.put(own_values_ + in_run * r);
  }
  /// Value j.
  HCOMP_HD T operator[](std::size_t j) const {
    if constexpr (is_shared)
      return *value_at(worker_ * Values + static_cast<unsigned>(j));
    else
      return own_values_[j];
  }
  /// Stores the blocks to the chunk. All workers call it.
  HCOMP_HD void send(Group group, T* chunk, std::size_t n, std::size_t begin) {
    if constexpr (is_shared) {
      group.sync();
      auto const count = static_cast<unsigned>(n);
      if (is_whole(chunk, n)) {
        std::byte const* from = place_of(worker_ / runs, worker_ % runs);
        T* to = chunk + in_run * worker_;
        HCOMP_UNROLL_ON_DEVICE
        for (unsigned i = worker_; i < all / in_run; i += workers) {
          put_at_once(run::at(from), to);
          from += workers * sizeof(run);
          to += workers * in_run;
        }
      } else {
        for (unsigned i = worker_; i < count; i += workers) chunk[i] = *value_at(i);
      }
    } else {
      std::size_t const k = begin + static_cast<std::size_t>(group.worker());
      if (k < blocks_of<Values>(n))
        write_block(own_values_, values_of_block<Values>(k, n), chunk + k * Values);
    }
  }

 private:
  static constexpr unsigned all = MostBlocks * Values, workers = Group::workers;
  static_assert(!is_shared || workers % runs == 0);

  HCOMP_HD static bool is_whole(T const* chunk, std::size_t n) {
    return n == all && is_multiple_of(16, chunk);
  }
  /// Position of run r of a block. Neighbouring blocks have the same run in different banks, so all
  /// workers access theirs at once.
  HCOMP_HD std::byte* place_of(unsigned block, unsigned r) const {
    return area_ + (block * runs + (r ^ block % runs)) * sizeof(run);
  }
  HCOMP_HD T* value_at(unsigned i) const {
    return reinterpret_cast<T*>(place_of(i / Values, i % Values / in_run)) + i % in_run;
  }

  std::byte* area_ = nullptr;
  unsigned worker_ = 0;
  alignas(16) T own_values_[is_shared ? 1 : Values];
};

}  // namespace hcomp::detail
