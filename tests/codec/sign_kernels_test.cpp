/// @file
/// The fast paths of codec/sign/detail/simd.hpp against the plain code of kernels.hpp, which is
/// tested against the definition.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sign/detail/kernels.hpp>
#include <hcomp/codec/sign/detail/sampling_lots.hpp>
#include <hcomp/codec/sign/detail/simd.hpp>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <vector>

using hcomp::mask_key;
using hcomp::serial_group;
using hcomp::simd_level;
namespace detail = hcomp::detail;

namespace {

/// All levels of this processor.
std::vector<simd_level> levels() {
  std::vector<simd_level> some{simd_level::baseline};
  for (simd_level const level : {simd_level::avx2, simd_level::avx512})
    if (level <= hcomp::best_simd_level()) some.push_back(level);
  return some;
}

/// Numbers of words around every width and tile that a fast path may have.
std::vector<int> word_counts() {
  std::vector<int> counts;
  for (int n = 0; n <= 40; ++n) counts.push_back(n);
  for (int const n : {63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513, 600})
    counts.push_back(n);
  return counts;
}

std::vector<mask_key> keys() {
  return {{1, 2, 1, 2}, {1, 2, 1, 3},   {5, 9, 2, 3},     {5, 9, 3, 4},        {5, 9, 5, 8},
          {6, 7, 3, 7}, {6, 7, 1, 100}, {6, 7, 255, 256}, {8, 8, ~0u - 1, ~0u}};
}

/// Words at an odd address, between guards.
struct some_words {
  laws::guarded memory;

  explicit some_words(std::vector<std::uint64_t> const& words) : memory(words.size() * 8, 1) {
    if (!words.empty()) std::memcpy(memory.data(), words.data(), words.size() * 8);
  }
  std::byte* data() { return memory.data(); }
};

}  // namespace

TEST_CASE("merge_signs: takes the lower-ranked block's bits where the mask is 1") {
  for (mask_key const& key : keys())
    for (bool const acc_is_lower : {false, true}) {
      constexpr std::size_t count = 100;
      auto const a = data::words(count, {.seed = 1}), b = data::words(count, {.seed = 2});
      some_words acc(a), in(b);
      detail::sign::merge_signs(serial_group{}, acc.data(), in.data(), count, 77, acc_is_lower,
                                key);
      for (std::size_t w = 0; w < count; ++w) {
        std::uint64_t mask = 0;
        hcomp::bernoulli_mask(mask, ~std::uint64_t{0}, 77 + w, key);
        std::uint64_t const lower = acc_is_lower ? a[w] : b[w], upper = acc_is_lower ? b[w] : a[w];
        REQUIRE(hcomp::load<std::uint64_t>(acc.data(), w) == ((lower & mask) | (upper & ~mask)));
      }
    }
}

TEST_CASE("merge_signs: every SIMD level gives the bits of the plain code") {
  for (simd_level const level : levels())
    for (mask_key const& key : keys())
      for (int const count : word_counts()) {
        CAPTURE(name_of(level));
        CAPTURE(key.share);
        CAPTURE(key.whole);
        CAPTURE(count);
        auto const n = static_cast<std::size_t>(count);
        auto const a = data::words(n, {.seed = 3}), b = data::words(n, {.seed = 4});
        bool const acc_is_lower = count % 2 == 0;
        // The second place crosses 2^32 words within a vector.
        for (std::uint64_t const first : {std::uint64_t{512}, std::uint64_t{0xfffffffd}}) {
          some_words expected(a), acc(a), in(b);
          detail::sign::merge_signs(serial_group{}, expected.data(), in.data(), count, first,
                                    acc_is_lower, key);
          detail::sign::merge_signs(acc.data(), in.data(), count, first, acc_is_lower, key, level);
          REQUIRE(acc.memory.bytes() == expected.memory.bytes());
          REQUIRE(acc.memory.untouched_outside());
          REQUIRE(in.memory.untouched_outside());
        }
      }
}

TEST_CASE("merge_signs: equal, opposite and nearly equal words are merged as by the plain code") {
  for (simd_level const level : levels())
    for (mask_key const& key : keys()) {
      constexpr int count = 300;
      auto const a = data::words(count, {.seed = 5});
      for (int kind = 0; kind < 4; ++kind) {
        CAPTURE(name_of(level));
        CAPTURE(kind);
        auto b = a;  // kind 0: the blocks agree
        if (kind == 1)
          for (auto& word : b) word = ~word;
        if (kind == 2)
          for (std::size_t w = 0; w < count; w += 17) b[w] ^= std::uint64_t{1} << w % 64;
        if (kind == 3) b[count - 1] ^= 1;
        some_words expected(a), acc(a), in(b);
        detail::sign::merge_signs(serial_group{}, expected.data(), in.data(), count, 9, true, key);
        detail::sign::merge_signs(acc.data(), in.data(), count, 9, true, key, level);
        REQUIRE(acc.memory.bytes() == expected.memory.bytes());
      }
    }
}

TEST_CASE("split_owners: every SIMD level gives the bits of the plain code, each bit to one side") {
  for (simd_level const level : levels())
    for (mask_key const& key : keys())
      for (int const count : word_counts()) {
        CAPTURE(name_of(level));
        CAPTURE(key.share);
        CAPTURE(key.whole);
        CAPTURE(count);
        auto const n = static_cast<std::size_t>(count);
        for (bool const full : {true, false}) {
          auto const all =
              full ? std::vector<std::uint64_t>(n, ~std::uint64_t{0}) : data::words(n, {.seed = 6});
          std::vector<std::uint64_t> const nothing(n, 0x1234);
          for (std::uint64_t const first : {std::uint64_t{512}, std::uint64_t{0xfffffffd}}) {
            some_words lower(all), upper(nothing), expected_lower(all), expected_upper(nothing);
            detail::sign::split_owners(serial_group{}, expected_lower.data(), expected_upper.data(),
                                       count, first, key);
            detail::sign::split_owners(lower.data(), upper.data(), count, first, key, level);
            REQUIRE(lower.memory.bytes() == expected_lower.memory.bytes());
            REQUIRE(upper.memory.bytes() == expected_upper.memory.bytes());
            REQUIRE(lower.memory.untouched_outside());
            REQUIRE(upper.memory.untouched_outside());
            bool split = true;
            for (std::size_t w = 0; w < n; ++w) {
              auto const a = hcomp::load<std::uint64_t>(lower.data(), w);
              auto const b = hcomp::load<std::uint64_t>(upper.data(), w);
              split &= (a & b) == 0 && (a | b) == all[w];
            }
            REQUIRE(split);
          }
        }
      }
}

TEST_CASE("pack_floats: every SIMD level gives the bits and the warning of the plain code") {
  auto const special = data::finite_specials<float>();
  for (simd_level const level : levels())
    for (int n = 0; n <= 200; ++n)
      for (bool const compensated : {false, true}) {
        CAPTURE(name_of(level));
        CAPTURE(n);
        CAPTURE(compensated);
        auto const count = static_cast<std::size_t>(n);
        auto x = data::uniform(count, -1, 1, {.seed = 7});
        for (std::size_t i = 0; i < count; i += 3) x[i] = special[i % special.size()];
        auto const c = data::uniform(count, -1, 1, {.seed = 8});
        std::size_t const bytes = (count + 63) / 64 * 8;
        laws::guarded expected(bytes, 1), out(bytes, 1);
        bool const plain =
            compensated ? detail::sign::pack_signs(serial_group{},
                                                   hcomp::compensated<float>{x.data(), c.data()}, n,
                                                   expected.data())
                        : detail::sign::pack_signs(serial_group{}, x.data(), n, expected.data());
        REQUIRE_FALSE(plain);
        for (int i = 0; i < n; ++i) {
          float const value = x[static_cast<std::size_t>(i)] +
                              (compensated ? c[static_cast<std::size_t>(i)] : 0.0f);
          bool const bit =
              hcomp::load<std::uint64_t>(expected.data(), static_cast<std::size_t>(i / 64)) >>
                  i % 64 &
              1;
          REQUIRE(bit == (value >= 0));
        }
        REQUIRE_FALSE(detail::sign::pack_floats(x.data(), compensated ? c.data() : nullptr, n,
                                                out.data(), level));
        REQUIRE(out.bytes() == expected.bytes());
        REQUIRE(out.untouched_outside());
      }
}

TEST_CASE("pack_floats: detects a single NaN or infinity in any lane, in values or in the sum") {
  for (simd_level const level : levels())
    for (int const n : {64, 100, 256})
      for (int at = 0; at < n; ++at)
        for (float const value : data::nonfinite_specials<float>()) {
          CAPTURE(name_of(level));
          CAPTURE(n);
          CAPTURE(at);
          CAPTURE(value);
          auto const count = static_cast<std::size_t>(n);
          std::vector<float> x(count, 1.0f), c(count, -1.0f);
          std::vector<std::byte> out((count + 63) / 64 * 8), expected(out.size());
          x[static_cast<std::size_t>(at)] = value;
          detail::sign::pack_signs(serial_group{}, x.data(), n, expected.data());
          REQUIRE(detail::sign::pack_floats(x.data(), nullptr, n, out.data(), level));
          REQUIRE(out == expected);
          REQUIRE(detail::sign::pack_floats(c.data(), x.data(), n, out.data(), level));
          // A sum that overflows though both summands are finite.
          x[static_cast<std::size_t>(at)] = 3e38f;
          c[static_cast<std::size_t>(at)] = 3e38f;
          REQUIRE(detail::sign::pack_floats(c.data(), x.data(), n, out.data(), level));
          REQUIRE_FALSE(detail::sign::pack_floats(x.data(), nullptr, n, out.data(), level));
        }
}

TEST_CASE(
    "unpack_signs: every SIMD level gives plus or minus the magnitude, for n values and no more") {
  auto const words = data::words(10, {.seed = 9});
  for (simd_level const level : levels())
    for (int n = 0; n <= 200; ++n)
      for (float const size : {1.0f, 0.003f, -2.0f, 0.0f, INFINITY}) {
        CAPTURE(name_of(level));
        CAPTURE(n);
        CAPTURE(size);
        some_words in(words);
        laws::guarded out(static_cast<std::size_t>(n) * 4, 4),
            expected(static_cast<std::size_t>(n) * 4, 4);
        auto* const x = reinterpret_cast<float*>(out.data());
        detail::sign::unpack_signs(in.data(), n, size, x, level);
        detail::sign::unpack_signs(serial_group{}, in.data(), n, size,
                                   reinterpret_cast<float*>(expected.data()));
        REQUIRE(out.bytes() == expected.bytes());
        REQUIRE(out.untouched_outside());
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
          REQUIRE(x[i] == (words[i / 64] >> i % 64 & 1 ? size : -size));
      }
}

TEST_CASE("sign::merge_key: around a ring of equal weights no mask is used twice") {
  for (std::uint32_t ranks = 2; ranks <= 256; ++ranks)
    for (std::uint32_t start = 0; start < ranks; ++start) {
      std::vector<std::uint32_t> numbers;
      std::uint32_t lowest = start;
      for (std::uint32_t weight = 1; weight < ranks; ++weight) {
        std::uint32_t const next = (start + weight) % ranks;
        std::uint32_t const lower = std::min(lowest, next), upper = std::max(lowest, next);
        numbers.push_back(
            detail::sign::merge_key(1, lower, upper, lower == next ? 1 : weight, weight + 1)
                .number);
        lowest = lower;
      }
      std::sort(numbers.begin(), numbers.end());
      CAPTURE(ranks);
      CAPTURE(start);
      REQUIRE(std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end());
    }
}

TEST_CASE(
    "sign::merge_key: share and whole are the weights, and the number depends on ranks and whole") {
  auto const key = detail::sign::merge_key(1, 2, 3, 4, 9);
  CHECK(key.philox == 1);
  CHECK(key.share == 4);
  CHECK(key.whole == 9);
  CHECK(detail::sign::merge_key(1, 2, 3, 5, 9).number ==
        key.number);  // the ranks distinguish merges
  CHECK(detail::sign::merge_key(1, 1, 3, 4, 9).number != key.number);
  CHECK(detail::sign::merge_key(1, 2, 4, 4, 9).number != key.number);
  CHECK(detail::sign::merge_key(1, 2, 3, 4, 8).number != key.number);
}

TEST_CASE("draw_owners: every SIMD level gives the owners of the plain code") {
  std::vector<std::uint32_t> unequal;
  for (std::uint32_t r = 0; r < 77; ++r) unequal.push_back(r % 5 * 100 + 1);
  auto const cells = detail::sampling::cells_of(unequal);
  for (simd_level const level : levels())
    for (auto const& lots :
         {detail::sampling::lots{nullptr, 11}, detail::sampling::lots{nullptr, 1024},
          detail::sampling::lots_of(cells, unequal.size())})
      for (std::uint64_t const first :
           {std::uint64_t{0}, std::uint64_t{0xfffffffd}, std::uint64_t{1} << 33}) {
        CAPTURE(name_of(level));
        CAPTURE(lots.ranks);
        constexpr int count = 7;
        std::vector<std::uint16_t> expected(count * 64), owners(count * 64 + 1, 0x5a5a);
        detail::sampling::draw_owners(serial_group{}, lots, first, count, 99, expected.data());
        detail::sampling::draw_owners(lots, first, count, 99, owners.data(), level);
        REQUIRE(owners.back() == 0x5a5a);
        owners.pop_back();
        REQUIRE(owners == expected);
      }
}
