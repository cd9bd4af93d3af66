#pragma once
/// @file
/// Concurrent access of workers and groups to one array: ranges of items per worker, prefix counts,
/// and atomic additions.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp::detail {

/// A group that shares memory with concurrent groups: its additions are atomic even with a single
/// worker.
template <class Group> struct beside_others : Group {
  HCOMP_HD explicit beside_others(Group group) : Group(group) {}
};

template <class Group> inline constexpr bool adds_alone = Group::workers == 1;
template <class Group> inline constexpr bool adds_alone<beside_others<Group>> = false;

/// Atomic *at += value; returns the previous value. Integers only: a float result would depend on
/// the order.
template <class Group, class T>
  requires std::is_unsigned_v<T> HCOMP_HD T fetch_add(Group, T* at, T value) {
    if constexpr (adds_alone<Group>) {
      T const old = *at;
      *at = old + value;
      return old;
    } else {
#if defined(__CUDA_ARCH__)
      using word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned int>;
      return static_cast<T>(atomicAdd(reinterpret_cast<word*>(at), static_cast<word>(value)));
#else
      return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#endif
    }
  }

/// Atomic *at |= bits.
template <class Group, class T>
requires std::is_unsigned_v<T> HCOMP_HD void add_bits(Group, T* at, std::type_identity_t<T> bits) {
  if constexpr (adds_alone<Group>) {
    *at |= bits;
  } else {
#if defined(__CUDA_ARCH__)
    using word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned int>;
    atomicOr(reinterpret_cast<word*>(at), static_cast<word>(bits));
#else
    __atomic_fetch_or(at, bits, __ATOMIC_RELAXED);
#endif
  }
}

/// Atomic *at = max(*at, value).
template <class Group> HCOMP_HD void raise_to(Group, std::uint32_t* at, std::uint32_t value) {
  if constexpr (adds_alone<Group>) {
    *at = *at < value ? value : *at;
  } else {
#if defined(__CUDA_ARCH__)
    atomicMax(at, value);
#else
    std::uint32_t old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED)) {
    }
#endif
  }
}

/// Consecutive items of one worker.
struct item_range {
  std::size_t first, end;
};

template <class Group> HCOMP_HD item_range own_items(Group group, std::size_t items) {
  auto const worker = static_cast<std::size_t>(group.worker());
  constexpr auto workers = static_cast<std::size_t>(Group::workers);
  return {items * worker / workers, items * (worker + 1) / workers};
}

/// Counts of the workers before this one, and of all workers.
struct worker_counts {
  std::uint64_t before, all;
};

/// @param shared  one word per worker, shared by all workers; reusable after the group's next sync
template <class Group>
HCOMP_HD worker_counts count_together(Group group, std::uint64_t mine, std::uint64_t* shared) {
  if constexpr (Group::workers == 1) {
    return {0, mine};
  } else {
    shared[group.worker()] = mine;
    group.sync();
    worker_counts counts{0, 0};
    for (int worker = 0; worker < Group::workers; ++worker) {
      if (worker == group.worker()) counts.before = counts.all;
      counts.all += shared[worker];
    }
    return counts;
  }
}

}  // namespace hcomp::detail
