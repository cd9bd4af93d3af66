#pragma once
/// @file
/// Packing, merging and unpacking sign bits: the plain versions, for any group, and the SIMD fast
/// paths of `simd_group`, which give the same bits. Word w, bit j is the value 64 w + j.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bernoulli.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

namespace hcomp::detail {

/// Words out: bit = (x >= 0). Returns whether this lane saw NaN or infinity.
template <class Group, class Source>
HCOMP_HD bool pack_signs(Group group, Source const& x, int n, std::byte* out) {
  bool finite = true;
  for (int w = group.lane(); w * 64 < n; w += Group::lanes) {
    int const count = n - w * 64 < 64 ? n - w * 64 : 64;
    std::uint64_t bits = 0;
    for (int j = 0; j < count; ++j) {
      auto const value = x[w * 64 + j];
      bits |= static_cast<std::uint64_t>(value >= 0) << j;
      finite &= is_finite(value);
    }
    store(out, static_cast<std::size_t>(w), bits);
  }
  return !finite;
}

/// acc = for every bit, that of the lower-ranked block where the mask says so, else the other's.
template <class Word>
[[gnu::always_inline]] HCOMP_HD inline void merge_word(std::byte* acc, std::byte const* in,
                                                       std::uint64_t place, bool acc_is_lower,
                                                       mask_key const& key) {
  Word mine, other, from_lower;
  memcpy(&mine, acc, sizeof(Word));
  memcpy(&other, in, sizeof(Word));
  Word const differ = mine ^ other;
  bernoulli_mask(from_lower, differ, place, key);
  mine ^= acc_is_lower ? differ & ~from_lower : from_lower;
  memcpy(acc, &mine, sizeof(Word));
}

template <class Group>
HCOMP_HD void merge_signs(Group group, std::byte* acc, std::byte const* in, int words,
                          std::uint64_t first_word, bool acc_is_lower, mask_key const& key) {
  for (int w = group.lane(); w < words; w += Group::lanes)
    merge_word<std::uint64_t>(acc + w * 8, in + w * 8, first_word + static_cast<unsigned>(w),
                              acc_is_lower, key);
}

/// x = +size where the bit is 1, -size where it is 0.
template <class Group, class T>
HCOMP_HD void unpack_signs(Group group, std::byte const* in, int n, T size, T* x) {
  T const minus = static_cast<T>(-size);
  for (int i = group.lane(); i < n; i += Group::lanes)
    x[i] = load<std::uint64_t>(in, static_cast<std::size_t>(i / 64)) >> (i % 64) & 1 ? size : minus;
  group.sync();
}

}  // namespace hcomp::detail
