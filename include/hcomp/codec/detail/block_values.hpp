#pragma once
/// @file
/// Blocks of values: how many there are, and their values by one worker, 16 bytes at a time where
/// they lie on a multiple of 16, which devices load and store at once.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>

namespace hcomp::detail {

/// Blocks of so many values that `values` are.
template <std::size_t Values> HCOMP_HD constexpr std::size_t blocks_of(std::size_t values) {
  return (values + Values - 1) / Values;
}
/// Values of a block among `values`.
template <std::size_t Values>
HCOMP_HD constexpr std::size_t values_of_block(std::size_t block, std::size_t values) {
  std::size_t const left = values - block * Values;
  return left < Values ? left : Values;
}

template <class T> inline constexpr std::size_t values_at_once = 16 / sizeof(T);

/// block[j] = x[j]; behind n values, zeros
template <class T, std::size_t Values>
HCOMP_HD void read_block(T const* x, std::size_t n, T (&block)[Values]) {
  auto const* const from = reinterpret_cast<std::byte const*>(x);
  if (n == Values && reinterpret_cast<std::uintptr_t>(x) % 16 == 0)
    for (std::size_t j = 0; j < Values; j += values_at_once<T>)
      memcpy(block + j, __builtin_assume_aligned(from + sizeof(T) * j, 16), 16);
  else
    for (std::size_t j = 0; j < Values; ++j) block[j] = j < n ? x[j] : T{0};
}
/// out[j] = block[j], n of them
template <class T, std::size_t Values>
HCOMP_HD void write_block(T const (&block)[Values], std::size_t n, T* out) {
  auto* const to = reinterpret_cast<std::byte*>(out);
  if (n == Values && reinterpret_cast<std::uintptr_t>(out) % 16 == 0)
    for (std::size_t j = 0; j < Values; j += values_at_once<T>)
      memcpy(__builtin_assume_aligned(to + sizeof(T) * j, 16), block + j, 16);
  else
    for (std::size_t j = 0; j < n; ++j) out[j] = block[j];
}

// ---- By workers that share memory, a block each: neighbours there and in x are neighbours, too

/// Of so many blocks. From one to the next it is an odd number of values, so that all workers reach
/// other banks.
template <class T, std::size_t Values> constexpr std::size_t values_room_bytes(std::size_t blocks) {
  return blocks * (Values + 1) * sizeof(T);
}

/// block[j] = x[j] of the worker's block; behind n values, zeros. For all workers.
/// @param first, count  of the values of all workers' blocks
/// @param n             of its own; 0: it has none, and block stays as it is
/// @param room          shared, for all blocks; or null for one worker
template <class Group, class T, std::size_t Values>
HCOMP_HD void bring_values(Group group, T const* x, std::size_t first, std::size_t count,
                           std::size_t n, [[maybe_unused]] T* room, T (&block)[Values]) {
  if constexpr (!SharesMemory<Group>) {
    read_block(x + first + static_cast<std::size_t>(group.worker()) * Values, n, block);
  } else {
    constexpr std::size_t at_once = 8, stride = Values + 1;
    auto const worker = static_cast<std::size_t>(group.worker());
    for (std::size_t turn = 0; turn * Group::workers < count; turn += at_once) {
      T seen[at_once] = {};
      HCOMP_UNROLL
      for (std::size_t k = 0; k < at_once; ++k) {
        std::size_t const i = (turn + k) * Group::workers + worker;
        if (i < count) seen[k] = x[first + i];
      }
      HCOMP_UNROLL
      for (std::size_t k = 0; k < at_once; ++k) {
        std::size_t const i = (turn + k) * Group::workers + worker;
        if (i < count) room[i / Values * stride + i % Values] = seen[k];
      }
    }
    group.sync();
    if (n > 0) {
      HCOMP_UNROLL_ON_DEVICE
      for (std::size_t j = 0; j < Values; ++j) block[j] = j < n ? room[worker * stride + j] : T{0};
    }
    group.sync();  // before somebody writes the next ones
  }
}
/// And back.
template <class Group, class T, std::size_t Values>
HCOMP_HD void take_values(Group group, T const (&block)[Values], std::size_t first,
                          std::size_t count, std::size_t n, [[maybe_unused]] T* room, T* x) {
  if constexpr (!SharesMemory<Group>) {
    write_block(block, n, x + first + static_cast<std::size_t>(group.worker()) * Values);
  } else {
    constexpr std::size_t stride = Values + 1;
    auto const worker = static_cast<std::size_t>(group.worker());
    if (n > 0) {
      HCOMP_UNROLL_ON_DEVICE
      for (std::size_t j = 0; j < Values; ++j)
        if (j < n) room[worker * stride + j] = block[j];
    }
    group.sync();
    for (std::size_t i = worker; i < count; i += Group::workers)
      x[first + i] = room[i / Values * stride + i % Values];
    group.sync();
  }
}

// ---- A block of each worker

/// The block that a worker has in hand: in memory of its own; or in memory that workers share if these
/// are as many as a chunk has blocks, so that neighbours read and write neighbouring values.
template <class Group, class T, std::size_t Values, std::size_t MostBlocks> class own_block {
  /// An odd number, so that all workers reach other banks.
  static constexpr std::size_t stride = Values + 1;

 public:
  static constexpr bool is_shared = SharesMemory<Group> && Group::workers >= MostBlocks;
  static constexpr std::size_t room_bytes = (MostBlocks * stride * sizeof(T) + 15) / 16 * 16;

  /// @param room  shared, for all blocks
  HCOMP_HD own_block(Group group, [[maybe_unused]] std::byte* room) {
    if constexpr (is_shared) {
      all_ = reinterpret_cast<T*>(room);
      own_ = all_ + static_cast<std::size_t>(group.worker()) * stride;
    }
  }
  HCOMP_HD T* x() {
    if constexpr (is_shared)
      return own_;
    else
      return own_values_;
  }
  /// The worker's block of the n values of a chunk; behind these, zeros. For all workers.
  /// @param begin  block of the first worker
  HCOMP_HD void bring(Group group, T const* chunk, std::size_t n, std::size_t begin) {
    if constexpr (is_shared) {
      using run = adjacent<T, 16 / sizeof(T)>;
      constexpr unsigned all = MostBlocks * Values, in_run = 16 / sizeof(T);
      auto const count = static_cast<unsigned>(n);
      auto const room_of = [&](unsigned i) { return all_ + i / Values * stride + i % Values; };
      if (count == all && is_multiple_of(16, chunk)) {
        for_each_loaded(
            group, all / in_run,
            [&](unsigned i, unsigned k) {
              return run::at(chunk + in_run * (i + k * Group::workers));
            },
            [&](unsigned i, unsigned k, run const& some) {
              T* const to = room_of(in_run * (i + k * Group::workers));
              HCOMP_UNROLL_ON_DEVICE
              for (unsigned e = 0; e < in_run; ++e) to[e] = some.values[e];
            });
      } else {
        for_each_loaded(
            group, all,
            [&](unsigned i, unsigned k) {
              unsigned const at = i + k * Group::workers;
              return at < count ? chunk[at] : T{0};
            },
            [&](unsigned i, unsigned k, T value) { *room_of(i + k * Group::workers) = value; });
      }
      group.sync();
    } else {
      std::size_t const k = begin + static_cast<std::size_t>(group.worker());
      if (k < blocks_of<Values>(n))
        read_block(chunk + k * Values, values_of_block<Values>(k, n), own_values_);
    }
  }
  HCOMP_HD T& operator[](std::size_t j) { return x()[j]; }
  /// What was kept, to its place. For all workers.
  HCOMP_HD void send(Group group, T* chunk, std::size_t n, std::size_t begin) {
    if constexpr (is_shared) {
      group.sync();
      auto const count = static_cast<unsigned>(n);
      for (auto i = static_cast<unsigned>(group.worker()); i < count; i += Group::workers)
        chunk[i] = all_[i / Values * stride + i % Values];
    } else {
      std::size_t const k = begin + static_cast<std::size_t>(group.worker());
      if (k < blocks_of<Values>(n))
        write_block(own_values_, values_of_block<Values>(k, n), chunk + k * Values);
    }
  }

 private:
  T* all_ = nullptr;
  T* own_ = nullptr;
  T own_values_[is_shared ? 1 : Values];
};

}  // namespace hcomp::detail
