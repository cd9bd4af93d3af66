#pragma once
/// @file
/// Device-friendly memory access: wide loads of adjacent values, and several loads before the first
/// use.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

template <class Group> HCOMP_HD unsigned worker_of(Group group) {
  return static_cast<unsigned>(group.worker());
}

/// Values that a device loads and stores in one instruction, if aligned to their total size.
template <class T, int Count> struct alignas(Count * sizeof(T)) adjacent {
  T values[Count];

  HCOMP_HD static adjacent at(void const* from) {
#if defined(__CUDA_ARCH__)  // nvcc splits memcpy into single bytes in loops, even if aligned
    return *static_cast<adjacent const*>(from);
#else
    adjacent some;
    memcpy(&some, from, sizeof(some));
    return some;
#endif
  }
  HCOMP_HD void put(void* to) const {
#if defined(__CUDA_ARCH__)
    *static_cast<adjacent*>(to) = *this;
#else
    memcpy(to, this, sizeof(*this));
#endif
  }
};

/// from.put(to), of 16 bytes in device memory. One store even inside loops, where nvcc would split
/// it into four.
template <class T, int Count> HCOMP_HD void put_at_once(adjacent<T, Count> const& from, T* to) {
  static_assert(sizeof(from) == 16);
#if defined(__CUDA_ARCH__)
  auto const words = same_bits<uint4>(from);
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
               : "memory");
#else
  from.put(to);
#endif
}

HCOMP_HD inline bool is_multiple_of(std::size_t bytes, void const* address) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

/// Makes later code load its values again. Saves registers, which are scarce on a device.
HCOMP_HD inline void forget_loaded() {
#if defined(__CUDA_ARCH__)
  __threadfence_block();
#endif
}

/// Prefetches memory that the workers will load soon.
template <class Group>
HCOMP_HD void fetch_soon([[maybe_unused]] Group group, [[maybe_unused]] void const* from,
                         [[maybe_unused]] unsigned bytes) {
#if defined(__CUDA_ARCH__)
  constexpr unsigned line = 128;
#pragma unroll 1  // a second iteration is rare
  for (unsigned at = line * worker_of(group); at < bytes; at += line * Group::workers)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(
        __cvta_generic_to_global(static_cast<char const*>(from) + at)));
#endif
}

/// Calls use(i, k, load(i, k)) for this worker's numbers i + k * Group::workers below `count`; k is
/// a constant. Hides memory latency: `AtOnce` loads come before the first use, as long as that many
/// remain. The compiler cannot reorder so itself, because `use` may write to memory that is loaded
/// next.
template <unsigned AtOnce = 8, class Group, class Load, class Use>
HCOMP_HD void for_each_loaded(Group group, unsigned count, Load const& load, Use const& use) {
  unsigned i = worker_of(group);
  for (; i + (AtOnce - 1) * Group::workers < count; i += AtOnce * Group::workers) {
    decltype(load(0u, 0u)) loaded[AtOnce];
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned k = 0; k < AtOnce; ++k) loaded[k] = load(i, k);
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned k = 0; k < AtOnce; ++k) use(i, k, loaded[k]);
  }
  for (; i < count; i += Group::workers) use(i, 0u, load(i, 0u));
}
/// Calls use(i, load(i)) for this worker's numbers below `count`. As for_each_loaded, for counts
/// that are often smaller than AtOnce: it also batches the remaining loads.
template <unsigned AtOnce = 8, class Group, class Count, class Load, class Use>
HCOMP_HD void for_some_loaded(Group group, Count count, Load const& load, Use const& use) {
  constexpr Count at_once = AtOnce;
  for (Count i = worker_of(group); i < count; i += at_once * Group::workers) {
    decltype(load(i)) loaded[at_once] = {};
    HCOMP_UNROLL
    for (Count k = 0; k < at_once; ++k)
      if (i + k * Group::workers < count) loaded[k] = load(i + k * Group::workers);
    HCOMP_UNROLL
    for (Count k = 0; k < at_once; ++k)
      if (i + k * Group::workers < count) use(i + k * Group::workers, loaded[k]);
  }
}

}  // namespace hcomp::detail
