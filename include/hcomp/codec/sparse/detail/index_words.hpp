#pragma once
/// @file
/// A bitmap of the nonzero values of a vector: marking, counting, and packing of the marked values.
/// Bit j of word w belongs to value 64 w + j. The fast path of marking is in index_words_simd.hpp.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::sparse {

HCOMP_HD constexpr std::size_t index_words(std::size_t values) { return (values + 63) / 64; }

/// Words behind the index, with one bit per possible exponent of a float. The highest bit in the
/// union over all ranks is the largest exponent, so a bitwise OR computes a maximum.
inline constexpr std::size_t exponent_words = 4;
/// The exponent of infinity and NaN.
inline constexpr std::uint32_t nonfinite_exponent = 255;

/// Returns the marks of `count` values, and raises `largest` to the largest magnitude, as bits. -0
/// counts as zero, NaN does not.
HCOMP_HD inline std::uint64_t nonzero_word(float const* x, int count, std::uint32_t& largest) {
  std::uint64_t marks = 0;
  for (int j = 0; j < count; ++j) {
    std::uint32_t const magnitude = same_bits<std::uint32_t>(x[j]) & 0x7fffffffu;
    marks |= static_cast<std::uint64_t>(magnitude != 0) << j;
    largest = magnitude > largest ? magnitude : largest;
  }
  return marks;
}

/// Writes the marks of words first to end - 1; returns the largest exponent, as stored.
HCOMP_HD inline std::uint32_t mark_words(float const* x, std::size_t n, std::size_t first,
                                         std::size_t end, std::uint64_t* words) {
  std::uint32_t largest = 0;
  for (std::size_t w = first; w < end; ++w)
    words[w] =
        nonzero_word(x + w * 64, n - w * 64 < 64 ? static_cast<int>(n - w * 64) : 64, largest);
  return largest >> 23;
}

/// Returns the largest of the exponents, or -1 if there is none.
HCOMP_HD inline int largest_of(std::uint64_t const* exponents) {
  for (std::size_t i = exponent_words; i-- > 0;)
    if (exponents[i] != 0) return static_cast<int>(64 * i) + bit_length(exponents[i]) - 1;
  return -1;
}

/// Keeps only the highest of the exponents.
HCOMP_HD inline void keep_largest(std::uint64_t* exponents) {
  bool found = false;
  for (std::size_t i = exponent_words; i-- > 0;) {
    std::uint64_t word = found ? 0 : exponents[i];
    while ((word & (word - 1)) != 0) word &= word - 1;
    exponents[i] = word;
    found = found || word != 0;
  }
}

/// @param words  index_words(n) + exponent_words words
template <class Group>
HCOMP_HD void mark_nonzeros(Group group, float const* x, std::size_t n, std::uint64_t* words) {
  std::uint64_t* const exponents = words + index_words(n);
  if (group.worker() == 0)
    for (std::size_t i = 0; i < exponent_words; ++i) exponents[i] = 0;
  group.sync();
  auto const part = own_items(group, index_words(n));
  std::uint32_t const largest = mark_words(x, n, part.first, part.end, words);
  add_bits(group, exponents + largest / 64, std::uint64_t{1} << largest % 64);
  group.sync();
  if (group.worker() == 0) keep_largest(exponents);
  group.sync();
}

/// Sets marks_before[w] to the number of marks in the words before w; returns the total.
/// @param shared  one word per worker
template <class Group>
HCOMP_HD std::uint64_t count_marks(Group group, std::uint64_t const* words, std::size_t count,
                                   std::uint32_t* marks_before, std::uint64_t* shared) {
  auto const [first, end] = own_items(group, count);
  std::uint64_t mine = 0;
  for (std::size_t w = first; w < end; ++w) mine += static_cast<std::uint64_t>(ones(words[w]));
  auto const counts = count_together(group, mine, shared);
  auto before = static_cast<std::uint32_t>(counts.before);
  for (std::size_t w = first; w < end; ++w) {
    marks_before[w] = before;
    before += static_cast<std::uint32_t>(ones(words[w]));
  }
  group.sync();
  return counts.all;
}

/// Calls f(value, place) for every marked value: its index, and the number of marks before it.
template <class Group, class F>
HCOMP_HD void for_marked(Group group, std::uint64_t const* words, std::size_t count,
                         std::uint32_t const* marks_before, F const& f) {
  for (auto w = static_cast<std::size_t>(group.worker()); w < count; w += Group::workers) {
    std::size_t place = words[w] == 0 ? 0 : marks_before[w];
    for (std::uint64_t marks = words[w]; marks != 0; marks &= marks - 1)
      f(w * 64 + static_cast<std::size_t>(lowest_one(marks)), place++);
  }
}

/// Sets x[value] = get(place) where marked, 0 elsewhere.
template <class Group, class Get>
HCOMP_HD void unpack_marked(Group group, std::uint64_t const* words, std::size_t n,
                            std::uint32_t const* marks_before, float* x, Get const& get) {
  for (auto w = static_cast<std::size_t>(group.worker()); w < index_words(n); w += Group::workers) {
    float* const here = x + w * 64;
    memset(here, 0, (n - w * 64 < 64 ? n - w * 64 : 64) * sizeof(float));
    std::size_t place = words[w] == 0 ? 0 : marks_before[w];
    for (std::uint64_t marks = words[w]; marks != 0; marks &= marks - 1)
      here[lowest_one(marks)] = get(place++);
  }
  group.sync();
}

}  // namespace hcomp::detail::sparse
