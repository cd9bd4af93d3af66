// max_simd: avx2 baseline
/// @file
/// error_bounded_fallback: results that are rounded once, reported errors, blocks by vectors, and
/// the format. variable_rate_laws_test.cpp tests what all variable-rate codecs have in common.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/error_bounded/fallback.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <support/encoded_vectors.hpp>
#include <support/error_bounded.hpp>
#include <type_traits>
#include <vector>

using hcomp::error_bounded_fallback;
using hcomp::error_bounded_options;
using hcomp::testing::decoded;
using hcomp::testing::encoded;
using hcomp::testing::merged;

namespace {

using floats = std::vector<float>;
using bytes = hcomp::testing::encoded_bytes;

constexpr float infinity = std::numeric_limits<float>::infinity();

constexpr std::size_t sizes[] = {0, 1, 31, 32, 33, 1000, 1023, 1024, 1025, 3000};

}  // namespace

TEST_CASE("error_bounded_fallback: sums of integers are exact, and rounded once") {
  error_bounded_fallback const codec({.bound = 1e-3, .ranks = 4});
  double const step = codec.step();
  for (std::size_t const n : sizes) {
    CAPTURE(n);
    std::vector<floats> x(4, floats(n));
    for (std::size_t r = 0; r < 4; ++r)
      for (std::size_t i = 0; i < n; ++i) {
        // 24 bits from the step on: sums of 26 bits and more are no floats
        std::uint64_t const random = hcomp::mix(r * 10'000 + i);
        auto const whole = static_cast<double>(random % (1 << 24)) - (1 << 23);
        x[r][i] = static_cast<float>(std::ldexp(whole * step, static_cast<int>(random >> 60)));
      }
    bytes sum = encoded(codec, x[0]);
    for (std::size_t r = 1; r < 4; ++r) sum = merged(codec, sum, encoded(codec, x[r]));
    auto const y = decoded(codec, sum, n);
    double most = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double exact = 0;
      for (auto const& mine : x) exact += static_cast<double>(mine[i]);
      CHECK(y[i] == static_cast<float>(exact));
      most = std::fmax(most, std::fabs(static_cast<double>(y[i]) - exact));
    }
    CHECK(codec.error_of(sum) >= most);
    CHECK(codec.error_of(sum) <= most * 1.001);
  }
}

TEST_CASE("error_bounded_fallback: its share of the bound leaves room for the rounding to float") {
  for (double const bound : {1e-4, 1e-3, 0.7, 1.0, 1.999, 3e-20, 5e20})
    for (std::uint32_t const ranks : {1u, 2u, 7u, 1024u}) {
      CAPTURE(bound);
      CAPTURE(ranks);
      error_bounded_fallback const codec({.bound = bound, .ranks = ranks});
      double const h = std::exp2(std::floor(std::log2(bound))), d = ranks * codec.step() / 2;
      CHECK(d < 2 * h - bound);
      CHECK(d <= std::fmax(bound - h, bound * 0x1p-20));
      CHECK(codec.step() == std::exp2(std::floor(std::log2(codec.step()))));
    }
}

TEST_CASE("error_bounded_fallback: a sum that overflows has an infinite error") {
  error_bounded_fallback const codec({.bound = 1e-3, .ranks = 2});
  floats x(100, 1.0f), y(100, 2.0f);
  x[3] = x[6] = infinity;
  y[4] = y[6] = -infinity;
  x[5] = hcomp::same_bits<float>(0xffc12345u);
  x[7] = 3e38f, y[7] = 3e38f;  // rounded to infinity
  auto const a = encoded(codec, x);
  CHECK(codec.error_of(a) == 0);
  CHECK(codec.error_of(merged(codec, a, encoded(codec, y))) == static_cast<double>(infinity));
}

TEST_CASE("error_bounded_fallback: forms that no block has, and sums no ranks have, are refused") {
  error_bounded_fallback const codec({.bound = 1e-3, .ranks = 2});
  auto const one = encoded(codec, floats(20, 1e3f));
  REQUIRE(one.size() == 56 + 4 + 1 + 68);  // 20 integers of 27 bits
  auto const refused = [&](bytes const& code) {
    try {
      codec.check(code, 20);
    } catch (hcomp::wire_error const&) {
      return true;
    }
    return false;
  };
  CHECK_FALSE(refused(one));
  for (int const mode : {0, 25, 28, 64, 64 + 8 * 3 + 7, 129, 255}) {
    auto wrong = one;
    wrong[60] = static_cast<std::byte>(mode);
    CHECK(refused(wrong));
  }
  floats large(20, 1.0f);
  large[3] = 1e38f;
  auto doubles = encoded(codec, large);
  REQUIRE(doubles.size() == 56 + 4 + 1 + 4 + 20 * 8);
  CHECK_FALSE(refused(doubles));
  doubles[63] |= std::byte{16};  // value 20 of 0 to 19
  CHECK(refused(doubles));

  auto most = encoded(codec, floats(20, 1.0f));
  auto wide = encoded(codec, large);  // a place for integers of 63 bits, which no rank has
  std::vector<std::int64_t> const integers(32, (std::int64_t{1} << 62) - 1);
  wide[60] = std::byte{63};
  wide.resize(56 + 4 + 1 + 158);
  hcomp::store(wide.data() + 24, 0, std::uint64_t{wide.size()});
  hcomp::detail::pack_integers(integers.data(), 63, 20, wide.data() + 61);
  CHECK_FALSE(refused(wide));
  bytes out(codec.capacity(20));
  CHECK_THROWS_WITH_AS(codec.merge(wide, wide, out),
                       "error_bounded: a sum of more steps than 2 ranks can have",
                       hcomp::wire_error);
  auto const two = merged(codec, most, most);
  CHECK_THROWS_WITH_AS(codec.merge(two, most, out),
                       "error_bounded: sums of 2 and 1 ranks; the bound is divided by 2",
                       hcomp::wire_error);
  CHECK_THROWS_AS(codec.fitted(3).merge(most, most, out), hcomp::wire_error);
  CHECK_THROWS_AS(error_bounded_fallback({.bound = -1}), std::invalid_argument);
}

TEST_CASE("error_bounded_fallback: blocks with few values that are not 0 have these alone") {
  error_bounded_fallback const codec({.bound = 1e-3});
  auto const bytes_of = [&](std::size_t not_zero, float value) {
    floats x(1024);
    for (std::size_t i = 0; i < not_zero; ++i) x[32 * 5 + 3 * i] = i % 2 == 0 ? value : -value;
    auto const code = encoded(codec, x);
    floats y(1024);
    codec.decode(code, y);
    for (std::size_t i = 0; i < 1024; ++i)
      CHECK(std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i])) <= 1e-3);
    // what is not 0 stays where it is
    for (std::size_t i = 0; i < 1024; ++i) CHECK((x[i] == 0) == (y[i] == 0));
    return code.size() - 56 - 4 - 32;  // the payload
  };
  CHECK(bytes_of(0, 1) == 0);
  CHECK(bytes_of(1, 0.1f) == 4 + 2);
  CHECK(bytes_of(8, 0.1f) == 4 + 8 * 2);
  CHECK(bytes_of(9, 0.1f) == 4 * 13);  // 32 integers of 13 bits
  CHECK(bytes_of(8, 1e6f) == 4 + 8 * 5);
  CHECK(bytes_of(1, 0.0015f) == 4 + 1);
}

#if defined(__x86_64__)
namespace {

using namespace hcomp::detail::error_bounded;

/// Integers of either sign, `not_zero` of a block and the others by chance; at most 2^highest.
template <class T>
std::vector<T> of_block(hcomp::detail::error_bounded::fallback_grid<T> const& grid, int highest,
                        std::size_t not_zero, std::uint64_t seed) {
  std::vector<T> x(block_values);
  for (std::size_t k = 0; k < not_zero; ++k) {
    std::uint64_t const random = hcomp::mix(seed * 100 + k);
    double const size = std::ldexp(bounded_values::draw(seed, k), highest) * grid.step;
    x[random % block_values] = static_cast<T>(random % 64 < 32 ? size : -size);
  }
  return x;
}
/// A block as any group sums it: its bytes, behind the mode, and what is noted.
template <class T> struct summed_block {
  fallback_mode mode{};
  bytes payload{};  ///< and 64 bytes
  fallback_findings found{};
  std::vector<T> values = std::vector<T>(block_values);

  summed_block(fallback_grid<T> const& grid, fallback_block<T> v, fallback_block<T> const* other,
               fallback_findings so_far)
      : found(so_far) {
    if (other) v.add(grid, *other, found);
    v.note_rounding(grid, found);
    mode = v.best_mode(block_values);
    payload.assign(mode.payload_bytes(block_values) + 64, std::byte{0x55});
    v.put(mode, block_values, payload.data());
    for (std::size_t i = 0; i < block_values; ++i) values[i] = v.value(grid, i);
  }
  fallback_payload as_payload() const { return {payload.data(), mode}; }
};
template <class T> std::vector<fallback_kernels<T>> all_kernels() {
  std::vector<fallback_kernels<T>> all;
  if (hcomp::best_simd_level() != hcomp::simd_level::baseline)
    all.push_back({sum_blocks_avx2<T>, get_blocks_avx2<T>});
  if (hcomp::detail::puts_bytes_in_order())
    all.push_back({sum_blocks_avx512<T>, get_blocks_avx512<T>});
  if (all.size() < 2) MESSAGE("skipped: ", all.size(), " of 2 kinds of vectors may be taken here");
  return all;
}
template <class T>
void check_sum(fallback_kernels<T> const& kernels, fallback_summands<T> const& from,
               summed_block<T> const& expected) {
  bytes out(expected.payload.size());
  std::byte mode{};
  fallback_sums to{&mode, out.data()};
  REQUIRE(kernels.sum(from, 1, to) == 1);
  CHECK(static_cast<std::uint8_t>(mode) == expected.mode.byte);
  CHECK(to.modes == &mode + 1);
  CHECK(to.payload == out.data() + out.size() - 64);
  CHECK(std::equal(out.begin(), out.end() - 64, expected.payload.begin()));
  CHECK(to.found.error == expected.found.error);
  CHECK(to.found.rounding == expected.found.rounding);
  CHECK(to.found.largest == expected.found.largest);
  std::vector<T> values(block_values);
  auto const payload = expected.as_payload();
  bool const is_fast = payload.is_fast();  // sums may have a bit too much
  CHECK(kernels.get(from.grid, &payload, 1, values.data()) == (is_fast ? 1 : 0));
  if (is_fast) CHECK(values == expected.values);
}

}  // namespace

TEST_CASE_TEMPLATE("error_bounded_fallback: blocks by vectors are the same", T, float, double) {
  fallback_grid<T> const grid({.bound = 1e-3, .ranks = 4});
  for (auto const& kernels : all_kernels<T>())
    for (int highest = 0; highest < 45; ++highest)
      for (std::size_t const not_zero : {0, 1, 2, 5, 8, 9, 40, 200}) {
        CAPTURE(highest);
        CAPTURE(not_zero);
        auto const seed = static_cast<std::uint64_t>(highest) * 1000 + not_zero;
        auto const x = of_block(grid, highest, not_zero, seed);
        auto const y = of_block(grid, highest / 2, not_zero, seed + 500);
        fallback_block<T> a, b;
        fallback_findings findings_a, of_b;
        a.set(grid, x.data(), findings_a);
        b.set(grid, y.data(), of_b);
        summed_block<T> const first(grid, a, nullptr, findings_a), second(grid, b, nullptr, of_b);
        auto const of_first = first.as_payload(), of_second = second.as_payload();
        check_sum(kernels, {grid, x.data(), nullptr, nullptr}, first);
        check_sum(kernels, {grid, x.data(), nullptr, &of_second}, {grid, a, &b, findings_a});
        check_sum(kernels, {grid, nullptr, &of_first, &of_second}, {grid, a, &b, {}});
      }
}

TEST_CASE_TEMPLATE("error_bounded_fallback: vectors have room for all integers of so many bits", T,
                   float, double) {
  fallback_grid<T> const grid({.bound = 1e-3, .ranks = 4});
  // the longest of either sign, and those next to them
  auto const of_bits = [](int bits) {
    fallback_block<T> v;
    std::int64_t const most = (std::int64_t{1} << (bits - 1)) - 1;
    std::int64_t const ends[] = {most, -most - 1, most - 1, -most, 0, -1};
    for (std::size_t i = 0; i < block_values; ++i) v.q[i] = ends[i % 7 % 6];
    return v;
  };
  constexpr int widths[] = {2, 8, 15, 16, 17, 24, 25, 26, 30, 31, 32, 33, 46, 47, 48};
  for (auto const& kernels : all_kernels<T>())
    for (int const bits : widths)
      for (int const others : widths) {
        CAPTURE(bits);
        CAPTURE(others);
        auto const a = of_bits(bits), b = of_bits(others);
        summed_block<T> const first(grid, a, nullptr, {}), second(grid, b, nullptr, {});
        auto const of_first = first.as_payload(), of_second = second.as_payload();
        check_sum(kernels, {grid, nullptr, &of_first, &of_second}, {grid, a, &b, {}});
        if (bits > 46) continue;
        for (T const share : {T(1), T(0.75)}) {
          auto x = first.values;
          for (T& one : x) one *= share;
          fallback_block<T> rounded;
          fallback_findings found;
          rounded.set(grid, x.data(), found);
          check_sum(kernels, {grid, x.data(), nullptr, &of_second}, {grid, rounded, &b, found});
        }
      }
}

TEST_CASE_TEMPLATE("error_bounded_fallback: sums by vectors are one behind the other", T, float,
                   double) {
  fallback_grid<T> const grid({.bound = 1e-3, .ranks = 4});
  for (auto const& kernels : all_kernels<T>())
    for (std::size_t const blocks : {1, 2, 3, 7, 32}) {
      CAPTURE(blocks);
      std::vector<T> x, values;
      std::vector<summed_block<T>> others;
      std::vector<fallback_payload> of_encoded, of_sums;
      bytes modes, payload;
      fallback_findings found;
      std::uint64_t largest = 0;
      for (std::size_t k = 0; k < blocks; ++k) {
        std::size_t const not_zero = hcomp::mix(k) % 3 == 0 ? 200 : hcomp::mix(k) % 4;
        auto const own = of_block(grid, static_cast<int>(k * 11 % 45), not_zero, k),
                   other = of_block(grid, static_cast<int>(k * 7 % 45), not_zero, k + 500);
        fallback_block<T> a, b;
        fallback_findings of_b;
        a.set(grid, own.data(), found);
        b.set(grid, other.data(), of_b);
        others.emplace_back(grid, b, nullptr, of_b);
        of_encoded.push_back(others.back().as_payload());
        summed_block<T> const sum(grid, a, &b, found);
        found = sum.found;
        a.add(grid, b, of_b);
        for (std::size_t i = 0; i < block_values; ++i)
          largest = std::max(largest, a.number(i).steps());
        x.insert(x.end(), own.begin(), own.end());
        values.insert(values.end(), sum.values.begin(), sum.values.end());
        modes.push_back(static_cast<std::byte>(sum.mode.byte));
        payload.insert(payload.end(), sum.payload.begin(), sum.payload.end() - 64);
      }
      bytes out(payload.size() + 64), out_modes(blocks);
      fallback_sums to{out_modes.data(), out.data()};
      REQUIRE(kernels.sum({grid, x.data(), nullptr, of_encoded.data()}, blocks, to) == blocks);
      CHECK(to.payload == out.data() + payload.size());
      CHECK(out_modes == modes);
      CHECK(std::equal(payload.begin(), payload.end(), out.begin()));
      CHECK(to.found.error == found.error);
      CHECK(to.found.rounding == found.rounding);
      CHECK(to.found.largest == found.largest);
      CHECK(to.largest == largest);
      std::byte const* at = out.data();
      for (std::byte const mode : modes) {
        of_sums.push_back({at, {static_cast<std::uint8_t>(mode)}});
        at += of_sums.back().mode.payload_bytes(block_values);
      }
      std::vector<T> came(values.size());
      CHECK(kernels.get(grid, of_sums.data(), blocks, came.data()) == blocks);
      CHECK(came == values);
    }
}

TEST_CASE_TEMPLATE("error_bounded_fallback: vectors add codes that are mostly zeros", T, float,
                   double) {
  fallback_grid<T> const grid({.bound = 1e-3, .ranks = 4});
  for (auto const& kernels : all_kernels<T>())
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::size_t const blocks = seed < 32 ? seed + 1 : 32;
      // one of them may be for others
      std::size_t const wide = seed % 3 == 0 ? hcomp::mix(seed) % blocks : blocks;
      CAPTURE(seed);
      CAPTURE(wide);
      std::vector<summed_block<T>> mine, others;
      std::vector<fallback_block<T>> of_mine, of_others;
      for (std::size_t k = 0; k < blocks; ++k) {
        std::uint64_t const draw = hcomp::mix(1000 * seed + k);
        int const highest = static_cast<int>(draw / 64 % 30);
        auto a = of_block(grid, highest, draw % 2 == 0 ? 3 : 0, draw),
             b = of_block(grid, highest, draw % 4 < 2 ? 40 : 0, draw + 1);
        if (draw % 8 == 4)  // nothing is left of the sum
          for (std::size_t i = 0; i < block_values; ++i) b[i] = -a[i];
        fallback_findings any;
        for (bool const is_mine : {true, false}) {
          fallback_block<T> v;
          v.set(grid, (is_mine ? a : b).data(), any);
          (is_mine ? of_mine : of_others).push_back(v);
          (is_mine ? mine : others).emplace_back(grid, v, nullptr, fallback_findings{});
        }
      }
      for (bool const are_two : {true, false}) {
        std::vector<fallback_payload> a, b;
        bytes modes(blocks, std::byte{0x55}), payload;
        fallback_findings found;
        for (std::size_t k = 0; k < blocks; ++k) {
          a.push_back(mine[k].as_payload());
          b.push_back(others[k].as_payload());
          if (k == wide) (seed % 2 && are_two ? b : a)[k].mode = {most_vector_bits + 1};
          if (k >= wide) continue;
          summed_block<T> const sum(grid, of_mine[k], are_two ? &of_others[k] : nullptr, found);
          found = sum.found;
          modes[k] = static_cast<std::byte>(sum.mode.byte);
          payload.insert(payload.end(), sum.payload.begin(), sum.payload.end() - 64);
        }
        bytes out(payload.size() + 64), out_modes(blocks, std::byte{0x55});
        fallback_sums to{out_modes.data(), out.data()};
        REQUIRE(kernels.sum({grid, nullptr, a.data(), are_two ? b.data() : nullptr}, blocks, to) ==
                wide);
        REQUIRE(out_modes == modes);
        REQUIRE(to.modes == out_modes.data() + wide);
        REQUIRE(to.payload == out.data() + payload.size());
        REQUIRE(std::equal(payload.begin(), payload.end(), out.begin()));
        REQUIRE(to.found.rounding == found.rounding);
        REQUIRE(to.found.largest == found.largest);
      }
    }
}

TEST_CASE_TEMPLATE("error_bounded_fallback: vectors leave what they cannot do to others", T, float,
                   double) {
  if (hcomp::best_simd_level() == hcomp::simd_level::baseline) return;
  fallback_grid<T> const grid({.bound = 1e-3, .ranks = 4});
  for (T const value : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                        static_cast<T>(grid.most_by_vectors() * grid.step)}) {
    std::vector<T> x(3 * block_values);  // the second block has it
    x[block_values + 16] = static_cast<T>(0.3 * grid.step);
    x[block_values + 17] = value;
    bytes const in(64);
    fallback_payload const of_encoded[] = {
        {in.data(), {}}, {in.data(), {most_vector_bits + 1}}, {in.data(), {}}};
    for (auto const sum : {best_fallback_kernels<T>().sum, sum_blocks_avx2<T>})
      for (std::size_t const blocks : {1, 2, 3}) {
        bytes out(3 * (block_values + 8) * sizeof(std::int64_t));
        std::byte modes[3];
        fallback_sums to{modes, out.data()};
        CHECK(sum({grid, x.data(), nullptr, nullptr}, blocks, to) == 1);
        CHECK(to.modes == modes + 1);
        CHECK(to.found.error == 0);
        std::vector<T> const zeros(x.size());
        CHECK(sum({grid, zeros.data(), nullptr, of_encoded}, blocks, to) == 1);
      }
  }
}

TEST_CASE_TEMPLATE(
    "error_bounded_fallback: blocks behind those that vectors leave are in their places", T, float,
    double) {
  using codec_type = std::conditional_t<std::is_same_v<T, float>, hcomp::error_bounded_fallback<T>,
                                        hcomp::error_bounded<T>>;
  codec_type const codec({.bound = 1e-3, .ranks = 2});
  fallback_grid<T> const grid({.bound = 1e-3, .ranks = 2});
  std::size_t const n = 2 * 1024 + 70;
  auto const too_large = static_cast<T>(4 * grid.most_by_vectors() * grid.step);
  for (std::size_t const block : {0, 1, 5, 31, 32, 63}) {
    CAPTURE(block);
    std::vector<T> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(bounded_values::laplace(block, i));
    x[block * block_values + 3] = too_large;
    auto const code = encoded(codec, x);
    auto const is_near = [&](std::vector<T> const& y, double times) {
      for (std::size_t i = 0; i < n; ++i)
        if (!(std::fabs(double(y[i]) - times * double(x[i])) <= times * 1e-3)) return false;
      return true;
    };
    std::vector<T> y(n);
    codec.decode(code, y);
    CHECK(is_near(y, 1));
    auto added = x;
    codec.decode_add(code, added);
    CHECK(is_near(added, 2));
    codec.decode(merged(codec, code, code), y);
    CHECK(is_near(y, 2));
  }
}
#endif

TEST_CASE("error_bounded_fallback: the format is this") {
  error_bounded_fallback const codec({.bound = 1e-3, .ranks = 4});
  auto const vector = [](std::uint64_t seed) {
    floats x(2500);
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto const small = static_cast<float>(hcomp::mix(seed + i) % 2001) * 0x1p-10f - 1;
      float const scales[] = {0, 1, 0x1p10f, 0x1p20f, 0x1p40f, 0x1p99f};
      x[i] = small * scales[hcomp::mix(i / 64 + seed) % 6];
    }
    return x;
  };
  auto const a = encoded(codec, vector(1)), sum = merged(codec, a, encoded(codec, vector(3)));
  auto const fingerprint = [](bytes const& of) {
    return hcomp::fingerprint(hcomp::serial_group{}, of.data(), of.size());
  };
  CHECK(fingerprint(a) == 846143825360796067u);
  CHECK(fingerprint(sum) == 297904372919351451u);
}
