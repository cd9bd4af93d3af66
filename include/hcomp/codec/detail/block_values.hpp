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
      auto const count = static_cast<unsigned>(n);
      if (is_whole(chunk, n)) {
        for_each_loaded(
            group, all / in_run,
            [&](unsigned i, unsigned k) { return run::at(chunk + in_run * i + k * step); },
            [&](unsigned i, unsigned k, run const& some) {
              T* const to = room_of(in_run * i) + k * room_step;
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
      auto const worker = static_cast<unsigned>(group.worker()), count = static_cast<unsigned>(n);
      if (is_whole(chunk, n)) {
        T const* from = room_of(in_run * worker);
        T* to = chunk + in_run * worker;
        HCOMP_UNROLL_ON_DEVICE
        for (unsigned i = worker; i < all / in_run; i += Group::workers) {
          run some;
          HCOMP_UNROLL_ON_DEVICE
          for (unsigned e = 0; e < in_run; ++e) some.values[e] = from[e];
          put_at_once(some, to);
          from += room_step;
          to += step;
        }
      } else {
        for (unsigned i = worker; i < count; i += Group::workers) chunk[i] = *room_of(i);
      }
    } else {
      std::size_t const k = begin + static_cast<std::size_t>(group.worker());
      if (k < blocks_of<Values>(n))
        write_block(own_values_, values_of_block<Values>(k, n), chunk + k * Values);
    }
  }

 private:
  // Of workers that share memory: values that are moved at once, and how far apart those are, and
  // their rooms, that a worker moves one after the other.
  using run = adjacent<T, 16 / sizeof(T)>;
  static constexpr unsigned all = MostBlocks * Values, in_run = 16 / sizeof(T);
  static constexpr std::size_t step = in_run * Group::workers, room_step = step / Values * stride;
  static_assert(!is_shared || step % Values == 0);

  HCOMP_HD static bool is_whole(T const* chunk, std::size_t n) {
    return n == all && is_multiple_of(16, chunk);
  }
  HCOMP_HD T* room_of(unsigned i) const { return all_ + i / Values * stride + i % Values; }

  T* all_ = nullptr;
  T* own_ = nullptr;
  T own_values_[is_shared ? 1 : Values];
};

}  // namespace hcomp::detail
