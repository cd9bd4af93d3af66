#pragma once
/// @file
/// A list of marks that takes fewer bytes than a bitmap if few values are marked. It holds one byte
/// per 256 values, the number of marks among them. The positions of the marks follow, one byte
/// each.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/core/bits.hpp>
#include <optional>
#include <span>

namespace hcomp::detail::sparse {

inline constexpr std::size_t list_values = 256;
inline constexpr std::size_t list_words = list_values / 64;

constexpr std::size_t lists_of(std::size_t values) {
  return (values + list_values - 1) / list_values;
}
constexpr std::size_t mark_list_bytes(std::size_t values, std::size_t marked) {
  return lists_of(values) + marked;
}
/// Bytes of a bitmap.
constexpr std::size_t mark_map_bytes(std::size_t values) {
  return index_words(values) * sizeof(std::uint64_t);
}

/// Whether a list of these marks is shorter and representable: a count of 256 does not fit into a
/// byte.
inline bool worth_listing(std::span<std::uint64_t const> marks, std::size_t values,
                          std::size_t marked) {
  if (mark_list_bytes(values, marked) >= mark_map_bytes(values)) return false;
  for (std::size_t w = 0; w + list_words <= marks.size(); w += list_words) {
    std::uint64_t all = ~std::uint64_t{0};
    for (std::size_t i = 0; i < list_words; ++i) all &= marks[w + i];
    if (all == ~std::uint64_t{0}) return false;
  }
  return true;
}

/// @param out  mark_list_bytes bytes
inline void write_mark_list(std::span<std::uint64_t const> marks, std::size_t values,
                            std::byte* out) {
  std::byte* place = out + lists_of(values);
  for (std::size_t g = 0; g < lists_of(values); ++g) {
    std::byte* const first = place;
    std::size_t const end = std::min(marks.size(), (g + 1) * list_words);
    for (std::size_t w = g * list_words; w < end; ++w)
      for (std::uint64_t word = marks[w]; word != 0; word &= word - 1)
        *place++ = static_cast<std::byte>(w % list_words * 64 +
                                          static_cast<std::size_t>(lowest_one(word)));
    out[g] = static_cast<std::byte>(place - first);
  }
}

/// Returns the number of bytes of `in` that the list takes, or none if it is not a list of `values`
/// values.
/// @param marks  index_words(values) words; unspecified if the result is none
inline std::optional<std::size_t> read_mark_list(std::span<std::byte const> in, std::size_t values,
                                                 std::uint64_t* marks) {
  std::fill_n(marks, index_words(values), std::uint64_t{0});
  std::size_t at = lists_of(values);
  if (in.size() < at) return {};
  for (std::size_t g = 0; g < lists_of(values); ++g) {
    auto const count = static_cast<std::size_t>(in[g]);
    if (in.size() - at < count) return {};
    std::size_t next = 0;  // the smallest position that may follow
    for (std::size_t i = 0; i < count; ++i) {
      auto const place = static_cast<std::size_t>(in[at + i]);
      if (place < next || g * list_values + place >= values) return {};
      next = place + 1;
      marks[g * list_words + place / 64] |= std::uint64_t{1} << place % 64;
    }
    at += count;
  }
  return at;
}

}  // namespace hcomp::detail::sparse
