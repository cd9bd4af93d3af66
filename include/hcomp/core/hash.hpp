#pragma once
/// @file
/// A 64-bit fingerprint of bytes: to notice damage and drift, not to resist an adversary.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>

namespace hcomp {

/// Sum of a mix of every 8-byte word with its place: any worker may take any word, so a group
/// shares the work and the result does not depend on how many workers it has. On devices `bytes`
/// must be a multiple of four.
template <class Group>
HCOMP_HD std::uint64_t fingerprint(Group group, std::byte const* bytes, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = static_cast<std::size_t>(group.worker()); i * 8 < count;
       i += Group::workers) {
    std::uint64_t word = 0;
    if (count - i * 8 >= 8)
      word = load_aligned<std::uint64_t>(bytes, i);
    else
      memcpy(&word, bytes + i * 8, count - i * 8);
    sum += mix(word + (i + 1) * 0x9e3779b97f4a7c15u);
  }
  return mix(group.sum(sum) + count);
}

}  // namespace hcomp
