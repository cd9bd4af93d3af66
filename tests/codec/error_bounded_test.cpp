/// @file
/// error_bounded: the bound of the result, exact integer sums, values that stay floats, sizes, and
/// the format. variable_rate_laws_test.cpp tests what all variable-rate codecs have in common.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/encoded_vectors.hpp>
#include <support/error_bounded.hpp>
#include <vector>

using hcomp::error_bounded;
using hcomp::error_bounded_options;
using hcomp::simd_level;
using hcomp::testing::encoded;
using hcomp::testing::merged;

namespace {

using floats = std::vector<float>;
using bytes = hcomp::testing::encoded_bytes;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// A copy: it has no room behind it that could be read unnoticed.
floats decoded(error_bounded<> const& codec, bytes const& in) {
  floats y(codec.peek(in).values, 77.0f);
  codec.decode(in, y);
  return y;
}
bytes summed(error_bounded<> const& codec, std::vector<floats> const& ranks) {
  bytes sum = encoded(codec, ranks[0]);
  for (std::size_t r = 1; r < ranks.size(); ++r) sum = merged(codec, sum, encoded(codec, ranks[r]));
  return sum;
}
bool same(floats const& a, floats const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}
/// In double, whose roundings are below 2^-29 of the bound for all that becomes integers.
double exact_sum(std::vector<floats> const& ranks, std::size_t i) {
  double sum = 0;
  for (auto const& x : ranks) sum += static_cast<double>(x[i]);
  return sum;
}
/// Of what is finite.
double magnitude_sum(std::vector<floats> const& ranks, std::size_t i) {
  double sum = 0;
  for (auto const& x : ranks)
    if (std::isfinite(x[i])) sum += std::fabs(static_cast<double>(x[i]));
  return sum;
}
double largest_error(std::vector<floats> const& ranks, floats const& y) {
  double largest = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    largest = std::fmax(largest, std::fabs(static_cast<double>(y[i]) - exact_sum(ranks, i)));
  return largest;
}

/// Up to 2^-0.001 of what becomes an integer, as many of each power of two; a seventh are zeros.
floats of_all_sizes(error_bounded<> const& codec, std::size_t n, std::uint64_t seed) {
  floats x(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const random = hcomp::mix(seed * 1'000'003 + i);
    double const power = codec.options().magnitude_bits * bounded_values::draw(seed, i) * 1.3;
    double const size = std::exp2(power - 0.3 * codec.options().magnitude_bits - 0.001);
    x[i] = static_cast<float>((random & 1 ? -1 : 1) * codec.step() * size);
    if (random % 7 == 0) x[i] = random & 1 ? -0.0f : 0.0f;
  }
  return x;
}
/// Halfway between two multiples, so that all ranks are off by half a step to the same side, and so
/// large that the rounding to float counts as well.
floats halfway(error_bounded<> const& codec, std::size_t n) {
  floats x(n);
  double const highest = std::exp2(codec.options().magnitude_bits);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<float>((highest - 2.5 - 2 * static_cast<double>(i % 400)) * codec.step());
  return x;
}

constexpr std::size_t sizes[] = {0, 1, 3, 7, 31, 32, 33, 64, 1000, 4095, 4096, 4097, 8300};

template <class F> void at_every_level(F const& f) {
  for (auto const level : {simd_level::baseline, simd_level::avx2, simd_level::avx512}) {
    if (level > hcomp::best_simd_level()) continue;
    CAPTURE(static_cast<int>(level));
    f(level);
  }
}

}  // namespace

TEST_CASE("error_bounded: the sum of 1 to 16 ranks is within the bound, the last rounding too") {
  for (std::uint32_t ranks = 1; ranks <= 16; ++ranks)
    for (std::size_t const n : sizes) {
      CAPTURE(ranks);
      CAPTURE(n);
      double const bound = std::pow(10.0, -12.0 + static_cast<double>((ranks * 7 + n) % 20));
      int const bits[] = {10, 14, 18, 22};
      error_bounded const codec(
          {.bound = bound, .ranks = ranks, .magnitude_bits = bits[(ranks + n) % 4]});
      std::vector<floats> x;
      for (std::uint32_t r = 0; r < ranks; ++r) x.push_back(of_all_sizes(codec, n, 40 * r + 1));
      auto const sum = summed(codec, x);
      CHECK(codec.peek(sum).float_additions == 0);
      CHECK(codec.peek(sum).weight == ranks);
      CHECK(largest_error(x, decoded(codec, sum)) <= bound);
    }
}

TEST_CASE("error_bounded: the bound holds where all roundings go the same way, but not with less") {
  for (int const bits : {10, 14, 18, 20, 22})
    for (std::uint32_t const ranks : {1u, 2u, 7u, 16u, 64u}) {
      CAPTURE(bits);
      CAPTURE(ranks);
      error_bounded const codec({.bound = 1e-3, .ranks = ranks, .magnitude_bits = bits});
      std::vector<floats> const x(ranks, halfway(codec, 400));
      double const error = largest_error(x, decoded(codec, summed(codec, x)));
      CHECK(error <= 1e-3);
      double const share = std::ldexp(1.0, bits - 23);  // of the rounding to float
      CHECK(error > 0.95e-3 * (1 - share));
      CHECK(codec.step() > 2e-3 / ranks * (1 - share) * (1 - 0x1p-27));
    }
}

TEST_CASE("error_bounded: merging is encoding the sum where values are multiples of the step") {
  error_bounded const codec({.bound = 1e-3, .ranks = 2});
  floats a(5000), b(5000), both(5000);
  for (std::size_t i = 0; i < 5000; ++i) {
    auto const p = static_cast<int>(hcomp::mix(i) % 2001) - 1000, q = static_cast<int>(i % 60) - 9;
    a[i] = static_cast<float>(p * codec.step());
    b[i] = static_cast<float>(q * codec.step());
    both[i] = static_cast<float>((p + q) * codec.step());
  }
  auto const sum = merged(codec, encoded(codec, a), encoded(codec, b)),
             at_once = encoded(codec, both);
  std::size_t const header = sizeof(hcomp::detail::error_bounded::header);
  CHECK(bytes(sum.begin() + header, sum.end()) == bytes(at_once.begin() + header, at_once.end()));
}

TEST_CASE("error_bounded: every level makes the same bytes of all widths") {
  error_bounded_options const options{.bound = 1e-3, .ranks = 64, .magnitude_bits = 22};
  error_bounded const plain(options, simd_level::baseline);
  // blocks of 2^0 to 2^22 steps, and such differences with a large value in front
  floats x(32 * 46 + 9);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const size = std::exp2(static_cast<double>(i / 64 % 23)) * plain.step();
    double const other = i / 32 % 2 == 0 ? 0 : 0x1p21 * plain.step();
    double const value = (2 * bounded_values::draw(1, i) - 1) * size;
    x[i] = static_cast<float>(std::fabs(value) < other ? (value + other) / 2 : value * 0.999);
  }
  auto const code = encoded(plain, x);
  at_every_level([&](simd_level level) {
    error_bounded const codec(options, level);
    CHECK(encoded(codec, x) == code);
    auto sum = code, expected = code;
    for (int recursive_doubling = 0; recursive_doubling < 6;
         ++recursive_doubling) {  // up to 28 bits
      sum = merged(codec, sum, sum);
      expected = merged(plain, expected, expected);
      CHECK(sum == expected);
      CHECK(same(decoded(codec, sum), decoded(plain, sum)));
    }
    CHECK(largest_error(std::vector<floats>(64, x), decoded(codec, sum)) <= 1e-3);
  });
}

TEST_CASE("error_bounded: what is no integer stays a float and leaves its neighbours alone") {
  double const bound = 1e-3;
  for (std::uint32_t const ranks : {1u, 2u, 5u, 16u}) {
    CAPTURE(ranks);
    error_bounded const codec({.bound = bound, .ranks = ranks});
    float const specials[] = {hcomp::same_bits<float>(0x7fe12345u),
                              hcomp::same_bits<float>(0xffc00001u),
                              not_a_number,
                              infinity,
                              -infinity,
                              1e30f,
                              -1e30f,
                              3.4e38f,
                              1e6f,
                              -1e6f,
                              1e-40f,
                              -1e-45f,
                              1e4f,
                              77777.77f,
                              -0.0f,
                              1e10f,
                              -1e10f,
                              300.5f,
                              1.2e-38f};
    std::vector<floats> x;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      x.push_back(of_all_sizes(codec, 3000, r + 1));
      for (std::size_t i = 0; i < 3000; ++i)
        if (hcomp::mix(i + 5) % 4 == 0 && hcomp::mix(i * 16 + r) % 3 == 0)
          x[r][i] = specials[hcomp::mix(i * 64 + r) % std::size(specials)];
    }
    auto const sum = summed(codec, x);
    auto const y = decoded(codec, sum);
    std::size_t too_far = 0, wrong_class = 0, beyond_bound = 0;
    bool any = false;
    for (std::size_t i = 0; i < 3000; ++i) {
      bool has_floats = false;
      for (auto const& of_rank : x)
        has_floats |=
            !(std::fabs(static_cast<double>(of_rank[i])) <= codec.step() * ((1 << 18) - 1));
      any |= has_floats;
      double const exact = exact_sum(x, i), sizes_of_all = magnitude_sum(x, i);
      double const off = std::fabs(static_cast<double>(y[i]) - exact);
      if (!std::isfinite(static_cast<float>(sizes_of_all))) continue;  // it may overflow
      if (!std::isfinite(exact)) {
        wrong_class += std::isnan(exact) ? !std::isnan(y[i]) : y[i] != static_cast<float>(exact);
        continue;
      }
      // every addition rounds once, and once more if it leaves an integer
      too_far += off > 2 * bound + ranks * 0x1.001p-24 * sizes_of_all;
      beyond_bound += !has_floats && off > bound;
      if (ranks == 1) too_far += has_floats && y[i] != x[0][i];
    }
    CHECK(any);
    CHECK(too_far == 0);
    CHECK(wrong_class == 0);
    CHECK(beyond_bound == 0);
    CHECK((codec.peek(sum).float_additions > 0) == (ranks > 1));
    if (ranks == 2)
      CHECK(merged(codec, encoded(codec, x[0]), encoded(codec, x[1])) ==
            merged(codec, encoded(codec, x[1]), encoded(codec, x[0])));
  }
}

TEST_CASE("error_bounded: at every level, the same values are the largest that are integers") {
  at_every_level([](simd_level level) {
    error_bounded const codec({.bound = 1e-3, .magnitude_bits = 10}, level);
    for (float const sign : {1.0f, -1.0f}) {
      auto const changed = [&](double steps) {
        floats x(32, 0.0f);
        x[7] = sign * static_cast<float>(steps * codec.step());
        return decoded(codec, encoded(codec, x))[7] != x[7];
      };
      CHECK(changed(1022.7));
      CHECK(changed(1023.4));
      CHECK_FALSE(changed(1023.6));
      CHECK_FALSE(changed(1e4));
    }
  });
}

TEST_CASE("error_bounded: 1e6 at a bound of 1e-6 is summed as floats are") {
  error_bounded const codec({.bound = 1e-6, .ranks = 4});
  std::vector<floats> x;
  for (std::uint64_t r = 0; r < 4; ++r) x.push_back(data::uniform(100, 0.9e6, 1.1e6, {.seed = r}));
  auto const sum = summed(codec, x);
  auto const y = decoded(codec, sum);
  CHECK(codec.peek(sum).float_additions == 300);
  for (std::size_t i = 0; i < 100; ++i) CHECK(y[i] == ((x[0][i] + x[1][i]) + x[2][i]) + x[3][i]);
}

TEST_CASE("error_bounded: floats that cancel leave an integer, and the next sums are exact again") {
  error_bounded const codec({.bound = 1e-2, .ranks = 4});
  auto const of = [&](float value) { return encoded(codec, floats(40, value)); };
  auto const zero = merged(codec, of(1e20f), of(-1e20f));
  auto const sum = merged(codec, merged(codec, zero, of(1.25f)), of(2.5f));
  for (float const value : decoded(codec, sum))
    CHECK(std::fabs(static_cast<double>(value) - 3.75) <= 1e-2);
  CHECK(sum.size() < 200);  // no longer 32 bits each
  CHECK(codec.peek(sum).float_additions == 40);
}

TEST_CASE("error_bounded: a code says how far it is off, at most the bound") {
  error_bounded const codec({.bound = 1e-3, .ranks = 3});
  std::vector<floats> x;
  for (std::uint64_t r = 0; r < 3; ++r) x.push_back(data::uniform(900, -1, 1, {.seed = r}));
  auto const sum = summed(codec, x);
  auto const info = codec.peek(sum);
  CHECK(info.values == 900);
  CHECK(info.bytes == sum.size());
  CHECK(info.options == codec.options());
  CHECK(largest_error(x, decoded(codec, sum)) <= info.error);
  CHECK(info.error <= 1e-3);
  CHECK(info.error > 0.9e-3);  // of 900 values, some are nearly halfway
  CHECK(codec.peek(encoded(codec, floats(900, 0.0f))).error == 0);
  // floats are exact while nothing is added to them; integers beside them may be rounded to float
  CHECK(codec.peek(encoded(codec, floats(900, 1e20f))).error < 0.02 * codec.step() * 3);
  floats few(900, 0.0f);
  few[5] = 1e20f;
  few[6] = static_cast<float>(0.4 * codec.step());  // becomes 0
  CHECK(codec.peek(encoded(codec, few)).error >= 0.4 * codec.step());
}

TEST_CASE("error_bounded: zeros take a byte per 32 values") {
  error_bounded const codec({.bound = 4e-30, .ranks = 4});
  auto const zeros = encoded(codec, floats(8192, 0.0f));
  CHECK(zeros.size() == 56 + 2 * (4 + 4 + 128));
  CHECK(merged(codec, zeros, zeros).size() == zeros.size());
}

TEST_CASE("error_bounded: vectors are as small as ZCCL makes them, or smaller") {
  for (auto const& input : {bounded_values::gradient(65536, 1), bounded_values::smooth(65536, 1),
                            bounded_values::sparse(65536, 1)}) {
    CAPTURE(input.name);
    error_bounded const codec({.bound = input.bound});
    double const ratio = 4.0 * static_cast<double>(input.x.size()) /
                         static_cast<double>(encoded(codec, input.x).size());
    double const of_fz_light = bounded_values::ratio_of_fz_light(input.x, input.bound);
    CAPTURE(ratio);
    CAPTURE(of_fz_light);
    CHECK(of_fz_light == doctest::Approx(input.least_ratio).epsilon(0.1));
    CHECK(ratio >= std::fmax(of_fz_light, input.least_ratio));
  }
}

TEST_CASE("error_bounded: what cannot be is refused, and says why") {
  auto const refused = [](error_bounded_options const& options) {
    CAPTURE(options.bound);
    CHECK_THROWS_AS(error_bounded{options}, std::invalid_argument);
  };
  for (double const bound : {0.0, -1.0, 1e-31, 1e31, std::nan(""), HUGE_VAL})
    refused({.bound = bound});
  refused({.ranks = 0});
  refused({.ranks = 1025});
  refused({.magnitude_bits = 9});
  refused({.magnitude_bits = 23});
  CHECK_THROWS_WITH_AS(
      error_bounded({.bound = 0.5, .ranks = 2000}),
      "error_bounded: bound 0.5, ranks 2000, magnitude bits 18; the bound divided by the ranks is "
      "2^-100 to 2^100, the magnitude bits 10 to 22, the ranks 1 to 2^(28 - magnitude bits)",
      std::invalid_argument);

  error_bounded const codec({.bound = 0.5, .ranks = 2});
  floats const x(100, 1.0f);
  bytes out(codec.capacity(100));
  auto const one = encoded(codec, x), two = merged(codec, one, one);
  CHECK_THROWS_WITH_AS(codec.merge(two, one, out),
                       "error_bounded: sums of 2 and 1 ranks; the bound is divided by 2",
                       hcomp::wire_error);
  CHECK_THROWS_AS(codec.decode_add_encode(two, x, out), hcomp::wire_error);
  CHECK_THROWS_AS(codec.fitted(3).merge(one, one, out), hcomp::wire_error);
  CHECK(codec.fitted(3).options() == error_bounded_options{.bound = 0.5, .ranks = 3});
}

TEST_CASE("error_bounded: sums that its ranks cannot have are refused, not wrapped around") {
  error_bounded const codec({.bound = 1e-3, .ranks = 8});
  for (float const other : {0.0f, 1e30f}) {  // integers alone, and beside a float
    floats x(32, static_cast<float>(200'000 * codec.step()));
    x[5] = other;
    auto sum = encoded(codec, x);
    for (int recursive_doubling = 0; recursive_doubling < 2; ++recursive_doubling)
      sum = merged(codec, sum, sum);
    hcomp::store(sum.data() + 40, 0, std::uint32_t{1});  // of 4 ranks, it says of 1,
    hcomp::store(sum.data() + 44, 0, std::uint32_t{0});  // without an error
    bytes out(codec.capacity(32));
    CHECK_THROWS_WITH_AS(codec.merge(sum, sum, out),
                         "error_bounded: a sum of more than 524286 steps, the most that 2 "
                         "ranks can have",
                         hcomp::wire_error);
  }
}

TEST_CASE("error_bounded: forms that no block has are refused") {
  error_bounded const codec({.bound = 1e-3});
  auto few = encoded(codec, {0.009f, 0, 0});
  REQUIRE(few.size() == 56 + 4 + 4 + 1 + 5);
  REQUIRE(few[64] == std::byte{2 << 6 | 1});  // one of them is not 0
  hcomp::store(few.data() + 65, 0, std::uint32_t{4});
  codec.check(few, 3);
  hcomp::store(few.data() + 65, 0, std::uint32_t{8});  // a fourth
  CHECK_THROWS_AS(codec.check(few, 3), hcomp::wire_error);

  auto const plain = encoded(codec, floats(20, 0.009f));
  REQUIRE(plain.size() == 56 + 4 + 4 + 1 + 16);
  REQUIRE(plain[64] == std::byte{4});  // bits of two's complement
  codec.check(plain, 20);
  for (std::size_t const plane : {0, 3}) {  // of a 21st, which a sum would have no room for
    auto wrong = plain;
    wrong[65 + 4 * plane + 2] |= std::byte{16};
    CHECK_THROWS_AS(codec.check(wrong, 20), hcomp::wire_error);
  }

  auto many = encoded(codec, floats(32, 1e20f));
  REQUIRE(many.size() == 56 + 4 + 4 + 1 + 128);
  for (int const mode : {31, 64 + 31, 128 + 3, 192 + 1}) {
    auto wrong = many;
    wrong[64] = static_cast<std::byte>(mode);
    if (mode < 128) wrong.resize(wrong.size() - 4);  // of 31 bits
    hcomp::store(wrong.data() + 24, 0, static_cast<std::uint64_t>(wrong.size()));
    if (mode == 128 + 3) hcomp::store(wrong.data() + 65, 0, std::uint32_t{0});
    if (mode == 128 + 3) wrong.resize(69), hcomp::store(wrong.data() + 24, 0, std::uint64_t{69});
    CHECK_THROWS_AS(codec.check(wrong, 32), hcomp::wire_error);
  }
}

TEST_CASE("error_bounded: a chunk longer than any can be is refused, though its code is not") {
  // All values of all blocks of the first chunk as those that are not 0, of 4 bytes each: a word more
  // than without their word. The second chunk is of zeros.
  constexpr std::size_t blocks = 4096 / 32, front = 4 + blocks, payload = 4 + 32 * 4;
  error_bounded const codec({.bound = 1e-3});
  auto const zeros = encoded(codec, floats(2 * 4096, 0.0f));
  constexpr std::size_t first = 56 + 2 * 4;
  REQUIRE(zeros.size() == first + 2 * front);
  auto const with = [&](std::size_t full) {  // blocks
    bytes code(zeros.begin(), zeros.begin() + first + front);
    for (std::size_t block = 0; block < full; ++block) {
      code[first + 4 + block] = std::byte{2 << 6 | 4};
      code.insert(code.end(), payload, std::byte{});
      for (std::size_t i = 0; i < 4; ++i) code[code.size() - payload + i] = std::byte{0xff};
    }
    hcomp::store(code.data() + 56, 1, static_cast<std::uint32_t>(code.size()));
    code.insert(code.end(), zeros.end() - front, zeros.end());
    hcomp::store(code.data() + 24, 0, static_cast<std::uint64_t>(code.size()));
    return code;
  };
  codec.check(with(blocks - 4), 2 * 4096);  // 124 * 132 bytes are less than 128 * 128
  CHECK_THROWS_AS(codec.check(with(blocks - 3), 2 * 4096), hcomp::wire_error);
  CHECK_THROWS_AS(codec.check(with(blocks), 2 * 4096), hcomp::wire_error);
}

TEST_CASE("error_bounded: headers of too many values or too large an error are refused") {
  error_bounded const codec({.bound = 1e-3, .ranks = 4});
  auto const refused = [&](std::size_t at, auto value) {
    auto wrong = encoded(codec, {});
    std::memcpy(wrong.data() + at, &value, sizeof(value));
    try {
      codec.peek(wrong);
    } catch (hcomp::wire_error const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused(16, std::uint64_t{0}).empty());
  // so many that their chunks, rounded up, wrap around to none
  for (std::uint64_t const values : {0 - std::uint64_t{1}, 0 - std::uint64_t{40}})
    CHECK(refused(16, values) ==
          "error_bounded: " + std::to_string(values) + " values in 0 chunks of 4096");
  CHECK(refused(44, std::uint32_t{2049}).empty());
  CHECK(refused(44, std::uint32_t{2050}) ==
        "error_bounded: an error of 2050/4096 steps of 1 ranks, which have up to 2049 each");
}

TEST_CASE("error_bounded: the format is this") {
  error_bounded const codec({.bound = 1e-3, .ranks = 4});
  // by additions and multiplications alone, which are the same everywhere
  auto const vector = [](std::uint64_t seed) {
    floats x(5000);
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::uint64_t const block = (i / 64 + seed) % 5, random = hcomp::mix(seed + i);
      auto const small = static_cast<float>(random % 2001) * 0x1p-10f - 1;
      if (block == 1) x[i] = random % 20 == 0 ? small : 0;
      if (block == 2) x[i] = static_cast<float>(i % 1000) * 0x1p-9f + small * 0x1p-10f;
      if (block == 3) x[i] = small;
      if (block == 4) x[i] = random % 9 == 0 ? 0x1p99f * small : small;
    }
    return x;
  };
  auto const a = encoded(codec, vector(1)), sum = merged(codec, a, encoded(codec, vector(3)));
  // every form is there
  std::size_t forms[5] = {};
  auto const* const modes = a.data() + 56 + 2 * 4 + 4;
  for (std::size_t i = 0; i < 128; ++i)
    ++forms[modes[i] == std::byte{0} ? 4 : static_cast<std::size_t>(modes[i]) >> 6];
  for (std::size_t const count : forms) CHECK(count > 5);
  auto const fingerprint = [](bytes const& of) {
    return hcomp::fingerprint(hcomp::serial_group{}, of.data(), of.size());
  };
  CHECK(fingerprint(a) == 6032161263771595920u);
  CHECK(fingerprint(sum) == 15633309572774384913u);
}
