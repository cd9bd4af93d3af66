#pragma once
/// @file
/// A Bloom filter of the marks of an index, 64 neighbours at a time.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/random.hpp>

namespace hcomp::detail::sparse {

/// Neighbours share their hashes, as in lhc::cell_layout: word w of an index is put, turned, into
/// one word of the filter per hash. So a look-up takes one word per hash for 64 values. Turns are
/// drawn like places: a bit of the filter meets other values of other words, and as many of them as
/// if each were hashed by itself.
struct bloom_filter {
  static constexpr int most_hashes = 30;
  static constexpr std::uint32_t most_words = 1u << 26;  ///< places are drawn of 32 bits

  std::uint32_t words = 1;
  int hashes = 1;

  /// As small as can be for `expected` marks, if a share `rate` of the others may be marked with
  /// them. No larger than most_words.
  static bloom_filter for_rate(std::size_t expected, double rate) {
    int hashes = static_cast<int>(std::lround(-std::log2(rate)));
    hashes = hashes < 1 ? 1 : hashes > most_hashes ? most_hashes : hashes;
    double const bits = -hashes * static_cast<double>(expected) /
                        std::log1p(-std::pow(rate, 1.0 / static_cast<double>(hashes)));
    double const count = std::ceil(bits / 64);
    return {count < 1            ? 1
            : count > most_words ? most_words
                                 : static_cast<std::uint32_t>(count),
            hashes};
  }

  /// Puts word w of an index into the filter.
  HCOMP_HD void add(std::uint64_t* filter, std::size_t w, std::uint64_t marks) const {
    for_each_place(w, [&](std::uint32_t at, int turn) {
      filter[at] |= marks << turn | marks >> ((64 - turn) % 64);
      return true;
    });
  }
  /// All marks of word w that were put in, and maybe others.
  HCOMP_HD std::uint64_t find(std::uint64_t const* filter, std::size_t w) const {
    std::uint64_t marks = ~std::uint64_t{0};
    for_each_place(w, [&](std::uint32_t at, int turn) {
      marks &= filter[at] >> turn | filter[at] << ((64 - turn) % 64);
      return marks != 0;
    });
    return marks;
  }

 private:
  /// f(word of the filter, turn) for each hash, until it says false.
  template <class F> HCOMP_HD void for_each_place(std::size_t w, F const& f) const {
    std::uint64_t const bits = std::uint64_t{words} * 64;
    std::uint64_t draw = 0;
    for (int hash = 0; hash < hashes; ++hash) {
      draw = hash % 2 == 1
                 ? draw >> 32
                 : mix((w * 16 + static_cast<std::size_t>(hash) / 2 + 1) * 0x9e3779b97f4a7c15u);
      std::uint64_t const place = (draw & 0xffffffffu) * bits >> 32;
      if (!f(static_cast<std::uint32_t>(place / 64), static_cast<int>(place % 64))) return;
    }
  }
};

}  // namespace hcomp::detail::sparse
