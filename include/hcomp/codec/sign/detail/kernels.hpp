#pragma once
/// @file
/// Packing, merging, splitting and unpacking of sign bits: one definition for all groups. Bit j of
/// word w belongs to value 64 w + j. The fast paths of simd_group are in simd.hpp.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/core/bernoulli.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

namespace hcomp::detail::sign {

/// Key of the mask that merges two blocks of signs. Where the mask is set, the bit of the block
/// with the lower lowest rank survives.
///
/// A sum is unbiased if all merges of a bit draw independently. The merges differ in total weight,
/// but the draws see only 32 bits hashed from it and from the ranks. Two merges share their draws
/// with probability 2^-32; among the P - 1 merges of one bit, some two share them with probability
/// P^2 / 2^33.
///
/// This does not depend on the key, so a collision repeats at every step. With equal weights, rings
/// of up to 256 ranks have no collision (tested).
HCOMP_HD inline mask_key merge_key(std::uint64_t key, std::uint32_t lower_rank,
                                   std::uint32_t upper_rank, std::uint32_t lower_weight,
                                   std::uint32_t total_weight) {
  std::uint64_t const ranks = std::uint64_t{lower_rank} << 32 | upper_rank;
  return {key, static_cast<std::uint32_t>(mix(mix(ranks) + total_weight)), lower_weight,
          total_weight};
}

/// Signs of values [64 w, 64 w + count) as bits; clears `finite` at NaN or infinity.
template <class Source>
HCOMP_HD std::uint64_t word_of_signs(Source const& x, int w, int count, bool& finite) {
  std::uint64_t bits = 0;
  for (int j = 0; j < count; ++j) {
    auto const value = x[static_cast<std::size_t>(w * 64 + j)];
    bits |= static_cast<std::uint64_t>(value >= 0) << j;
    finite &= is_finite(value);
  }
  return bits;
}

/// Calls put(h, bits) for all 32-bit halves h of the words of signs. Returns whether this worker
/// met NaN or infinity. Calls x.note for every value if the source has this function.
template <HasWarps Group, class Source, class Put>
HCOMP_HD bool vote_on_signs(Group group, Source const& x, int n, Put const& put) {
  using number = decltype(x[0] + 0.0f);
  using bits = std::conditional_t<sizeof(number) == 8, std::uint64_t, std::uint32_t>;
  bits largest = 0;  // maximum magnitude: cheaper than a finite test per value
  auto const look = [&](int i) { return static_cast<number>(x[static_cast<std::size_t>(i)]); };
  auto const is_positive = [&](int i, number value) {
    bits const magnitude = same_bits<bits>(value) & (~bits{0} >> 1);
    largest = magnitude > largest ? magnitude : largest;
    if constexpr (requires { x.note(std::size_t{}, value); })
      x.note(static_cast<std::size_t>(i), value);
    return value >= 0;
  };
  vote_on(group, n, look, is_positive, put);
  return !is_finite(same_bits<number>(largest));
}

/// Packs n signs into `out`. Returns whether this worker met NaN or infinity.
template <class Group, class Source>
HCOMP_HD bool pack_signs(Group group, Source const& x, int n, std::byte* out) {
  if constexpr (HasWarps<Group>)
    return vote_on_signs(group, x, n, [&](int h, std::uint32_t bits) {
      store_aligned(out, static_cast<std::size_t>(h), bits);
    });
  bool finite = true;
  for (int w = group.worker(); w * 64 < n; w += Group::workers)
    store_aligned(out, static_cast<std::size_t>(w),
                  word_of_signs(x, w, n - w * 64 < 64 ? n - w * 64 : 64, finite));
  return !finite;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// Replaces `acc` by the merged word: a set mask bit selects the bit of the lower-ranked block, a
/// clear one that of the other block. Only differing bits need a draw.
[[gnu::always_inline]] HCOMP_HD inline void merge_sign_word(std::byte* acc, std::byte const* in,
                                                            std::uint64_t place, bool acc_is_lower,
                                                            mask_key const& key) {
  auto const mine = load_word(acc), other = load_word(in);
  std::uint64_t const differ = mine ^ other;
  std::uint64_t from_lower;
  bernoulli_mask(from_lower, differ, place, key);
  store_word(acc, 0, mine ^ (acc_is_lower ? differ & ~from_lower : from_lower));
}

/// As merge_sign_word, for two words at a distance of `Apart` words, which share their draws'
/// computation.
template <int Apart>
[[gnu::always_inline]] HCOMP_HD inline void merge_two_words(std::byte* acc, std::byte const* in,
                                                            std::uint64_t place, bool acc_is_lower,
                                                            mask_key const& key) {
  std::uint64_t mine[2], differ[2], places[2], from_lower[2];
  HCOMP_UNROLL
  for (unsigned k = 0; k < 2; ++k) {
    mine[k] = load_word(acc, k * Apart);
    differ[k] = mine[k] ^ load_word(in, k * Apart);
    places[k] = place + k * Apart;
  }
  bernoulli_mask_each(from_lower, differ, places, key);
  HCOMP_UNROLL
  for (unsigned k = 0; k < 2; ++k)
    store_word(acc, k * Apart,
               mine[k] ^ (acc_is_lower ? differ[k] & ~from_lower[k] : from_lower[k]));
}

/// `lower` keeps the bits that the mask selects; `upper` receives the remaining bits.
[[gnu::always_inline]] HCOMP_HD inline void split_owner_word(std::byte* lower, std::byte* upper,
                                                             std::uint64_t place,
                                                             mask_key const& key) {
  auto const all = load_word(lower);
  std::uint64_t taken;
  bernoulli_mask(taken, all, place, key);
  store_word(lower, 0, taken);
  store_word(upper, 0, all & ~taken);
}

#pragma GCC diagnostic pop

template <class Group>
HCOMP_HD void merge_signs(Group group, std::byte* acc, std::byte const* in, int count,
                          std::uint64_t first_word, bool acc_is_lower, mask_key const& key) {
  int w = group.worker();
  if constexpr (HasWarps<Group>)
    for (; w + Group::workers < count; w += 2 * Group::workers)
      merge_two_words<Group::workers>(acc + w * 8, in + w * 8,
                                      first_word + static_cast<unsigned>(w), acc_is_lower, key);
  for (; w < count; w += Group::workers)
    merge_sign_word(acc + w * 8, in + w * 8, first_word + static_cast<unsigned>(w), acc_is_lower,
                    key);
}

template <class Group>
HCOMP_HD void split_owners(Group group, std::byte* lower, std::byte* upper, int count,
                           std::uint64_t first_word, mask_key const& key) {
  for (int w = group.worker(); w < count; w += Group::workers)
    split_owner_word(lower + w * 8, upper + w * 8, first_word + static_cast<unsigned>(w), key);
}

/// Sets x = +size where the bit is 1, -size where it is 0.
template <class Group, class Out>
HCOMP_HD void unpack_signs(Group group, std::byte const* in, int n, Out size, Out* x) {
  Out const other = static_cast<Out>(-size);
  if constexpr (HasWarps<Group>) {
    for_bits(
        group, in, n, [&](std::uint32_t bit) { return bit ? size : other; },
        [&](int i, Out value) { x[i] = value; });
  } else {
    Out const worth[2] = {other, size};  // a branch would be mispredicted
    for (int i = group.worker(); i < n; i += Group::workers)
      x[i] =
          worth[load_aligned<std::uint64_t>(in, static_cast<std::size_t>(i / 64)) >> (i % 64) & 1];
  }
  group.sync();
}

}  // namespace hcomp::detail::sign
