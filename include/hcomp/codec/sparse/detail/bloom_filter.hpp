#pragma once
/// @file
/// A Bloom filter for the marks of an index, which processes 64 neighbours at a time.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/random.hpp>

namespace hcomp::detail::sparse {

/// Neighbours share their hashes, as in lhc::cell_layout. Each hash maps word w of an index,
/// rotated, to one word of the filter, so a lookup of 64 values takes one word per hash. Rotations
/// are random like positions: a bit of the filter meets different values of different words. It
/// meets the same number of values as with one hash per value.
struct bloom_filter {
  static constexpr int most_hashes = 30;
  static constexpr std::uint32_t most_words = 1u << 26;  ///< positions are drawn from 32 bits

  std::uint32_t words = 1;
  int hashes = 1;

  /// The smallest filter for `expected` marks that marks at most a fraction `rate` of the other
  /// values by mistake. Limited to most_words.
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

  /// Adds word w of an index to the filter.
  HCOMP_HD void add(std::uint64_t* filter, std::size_t w, std::uint64_t marks) const {
    for_each_place(w, [&](std::uint32_t at, int turn) {
      filter[at] |= marks << turn | marks >> ((64 - turn) % 64);
      return true;
    });
  }
  /// Returns all added marks of word w, and possibly false positives.
  HCOMP_HD std::uint64_t find(std::uint64_t const* filter, std::size_t w) const {
    std::uint64_t marks = ~std::uint64_t{0};
    for_each_place(w, [&](std::uint32_t at, int turn) {
      marks &= filter[at] >> turn | filter[at] << ((64 - turn) % 64);
      return marks != 0;
    });
    return marks;
  }

 private:
  /// Calls f(filter word, rotation) for each hash until f returns false.
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
