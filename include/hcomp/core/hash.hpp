#pragma once
/// @file
/// A 64-bit fingerprint of bytes. Detects damage and divergence; not secure against an adversary.

#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>

namespace hcomp {

namespace detail {

HCOMP_HD constexpr std::uint64_t mixed_word(std::uint64_t word, std::uint64_t i) {
  return mix(word + (i + 1) * 0x9e3779b97f4a7c15u);
}

/// Completes a fingerprint of `count` bytes: adds the partial sums of all workers.
template <class Group>
HCOMP_HD std::uint64_t closed_fingerprint(Group group, std::uint64_t sum, std::size_t count) {
  return mix(group.sum(sum) + count);
}

}  // namespace detail

/// The sum over all 8-byte words of a mix of the word and its position. Any worker may process any
/// word, so the result does not depend on the number of workers. On devices `bytes` must be a
/// multiple of four.
template <class Group>
HCOMP_HD std::uint64_t fingerprint(Group group, std::byte const* bytes, std::size_t count) {
  std::uint64_t sum = 0;
  std::size_t const words = count / 8, worker = static_cast<std::size_t>(group.worker());
  for (std::size_t i = worker; i < words; i += Group::workers)
    sum += detail::mixed_word(load_word(bytes, i), i);
  if (count % 8 != 0 && worker == words % Group::workers) {
    std::uint64_t last = 0;
    for (std::size_t b = 8 * words; b < count; ++b)
      last |= static_cast<std::uint64_t>(bytes[b]) << 8 * (b % 8);
    sum += detail::mixed_word(last, words);
  }
  return detail::closed_fingerprint(group, sum, count);
}
/// The fingerprint of words in registers.
template <std::size_t Words>
HCOMP_HD std::uint64_t fingerprint(std::array<std::uint64_t, Words> const& words) {
  std::uint64_t sum = 0;
  HCOMP_UNROLL
  for (std::size_t i = 0; i < Words; ++i) sum += detail::mixed_word(words[i], i);
  return mix(sum + 8 * Words);
}

}  // namespace hcomp
