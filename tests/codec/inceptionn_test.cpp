/// @file
/// INCEPTIONN's encoding of values and its format: errors, sizes, error messages. Numbers for E =
/// 10, 8 and 6, marked C1 to C4, are from a model of the paper's codec. variable_rate_laws_test.cpp
/// tests what all variable-rate codecs have in common.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/inceptionn.hpp>
#include <tuple>
#include <vector>

using hcomp::inceptionn_options;
using hcomp::inceptionn_variant;
using hcomp::simd_level;
using inceptionn::all_settings;
using inceptionn::at_every_level;
using inceptionn::bits_of;
using inceptionn::floats;
using inceptionn::same;

namespace {

constexpr auto nearest = hcomp::inceptionn_rounding::nearest;

/// 304 fractions, both signs, of exponents 60 to 130, as floats store them.
floats swept() {
  floats x;
  for (std::uint32_t exponent = 60; exponent <= 130; ++exponent)
    for (std::uint32_t i = 0; i < 304; ++i) {
      std::uint32_t const fraction = i < 24    ? 1u << i >> 1
                                     : i < 48  ? 0x7fffffu - (1u << (i - 24) >> 1)
                                     : i < 176 ? (i - 48) << 16
                                               : static_cast<std::uint32_t>(hcomp::mix(i)) >> 9;
      for (std::uint32_t const sign : {0u, 0x80000000u})
        x.push_back(hcomp::same_bits<float>(sign | exponent << 23 | fraction));
    }
  return x;
}

/// What the definition says of one value that is not prescaled, in powers of two.
struct expectation {
  unsigned tag;
  double error;  ///< less than this is allowed
};
expectation expected(inceptionn_options const& o, double x) {
  int const half = o.bound_exponent / 2;
  double const magnitude = std::fabs(x);
  auto const coarser = o.variant == inceptionn_variant::grace ? 2.0 : 1.0;
  auto const unit8 =
      o.variant == inceptionn_variant::within_bound ? std::ldexp(1.0, -half - 7) : 0x1p-7 * coarser;
  if (magnitude < std::ldexp(1.0, -o.bound_exponent))
    return {0, std::ldexp(1.0, -o.bound_exponent)};
  if (magnitude >= 1) return {3, 0x1p-1000};  // exact
  auto const [tag, unit, most] = magnitude < std::ldexp(1.0, -half)
                                     ? std::tuple(1u, unit8, 127)
                                     : std::tuple(2u, 0x1p-15 * coarser, 32767);
  // half a unit may be reached; beyond the largest multiple there is no other to round to
  bool const halved = o.rounding == nearest && magnitude < (most + 0.5) * unit;
  return {tag, halved ? unit / 2 * 1.0000001 : unit};
}

floats round_trip(hcomp::inceptionn const& codec, floats const& x) {
  floats y(x.size(), 77.0f);
  codec.decode(inceptionn::encoded(codec, x), y);
  return y;
}

}  // namespace

TEST_CASE(
    "inceptionn: tags are by size, errors within the unit, signs kept, twice is once") {  // C1
  auto const x = swept();
  for (auto const& options : all_settings({1, 5, 6, 8, 10, 14})) {
    CAPTURE(hcomp::detail::inceptionn::text_of(options));
    hcomp::inceptionn const codec(options);
    auto const rule = hcomp::detail::inceptionn::rule_of(options);
    auto const y = round_trip(codec, x);
    CHECK(same(round_trip(codec, y), y));
    bool const shrinks =
        options.rounding != nearest && options.variant != inceptionn_variant::grace;
    std::size_t wrong_tags = 0, too_far = 0, flipped = 0, grown = 0, beyond_bound = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto const [tag, error] = expected(options, x[i]);
      double const made = std::fabs(static_cast<double>(y[i]) - static_cast<double>(x[i]));
      wrong_tags += hcomp::detail::inceptionn::tag_of(rule, bits_of(x[i])) != tag;
      too_far += made >= error;
      beyond_bound += made >= std::ldexp(1.0, -options.bound_exponent);
      flipped += y[i] * x[i] < 0;
      grown += shrinks && std::fabs(y[i]) > std::fabs(x[i]);
    }
    CHECK(wrong_tags == 0);
    CHECK(too_far == 0);
    CHECK(flipped == 0);
    CHECK(grown == 0);
    if (options.variant == inceptionn_variant::within_bound) CHECK(beyond_bound == 0);
  }
}

TEST_CASE("inceptionn: what others than within_bound promise is not the bound") {  // C1
  floats const x(64, 0x1.fp-8f);
  for (int const exponent : {10, 8}) {
    double const bound = std::ldexp(1.0, -exponent);
    auto const error = [&](inceptionn_variant variant) {
      hcomp::inceptionn const codec({.bound_exponent = exponent, .variant = variant});
      return std::fabs(static_cast<double>(round_trip(codec, x)[5]) - 0x1.fp-8);
    };
    CHECK(error(inceptionn_variant::within_bound) < bound);
    CHECK(error(inceptionn_variant::as_drawn) == 0x1.fp-8);
    CHECK(error(inceptionn_variant::as_drawn) > bound);
  }
}

TEST_CASE("inceptionn: the ends of the classes") {  // C4, 2
  for (int exponent = 1; exponent <= 14; ++exponent) {
    CAPTURE(exponent);
    auto const rule = hcomp::detail::inceptionn::rule_of({.bound_exponent = exponent});
    auto const tag = [&](float value) {
      return hcomp::detail::inceptionn::tag_of(rule, bits_of(value));
    };
    float const lowest = std::ldexp(1.0f, -exponent);
    float const middle = std::ldexp(1.0f, -(exponent / 2));
    CHECK(tag(lowest) == 1);
    CHECK(tag(std::nextafter(lowest, 0.0f)) == 0);
    CHECK(tag(middle) == (exponent > 1 ? 2 : 3));
    CHECK(tag(std::nextafter(middle, 0.0f)) == 1);
    CHECK(tag(1.0f) == 3);
    if (exponent == 1) continue;
    CHECK(tag(0x1.fffffep-1f) == 2);
    CHECK(hcomp::detail::inceptionn::payload_of(rule, bits_of(0x1.fffffep-1f), 2) == 0x7fff);
  }
}

TEST_CASE(
    "inceptionn: zeros and denormals become 0; NaN, infinity and large values keep their bits") {
  floats small{0.0f, -0.0f}, large;  // C4, 3
  for (std::uint32_t const bits : {1u, 0x007fffffu, 0x00400000u})
    for (std::uint32_t const sign : {0u, 0x80000000u})
      small.push_back(hcomp::same_bits<float>(sign | bits));
  for (std::uint32_t const bits :
       {0x7f800000u, 0x7fc00000u, 0x7f800001u, 0x7fabcdefu, 0x7f7fffffu, 0x3f800000u, 0x3f800001u})
    for (std::uint32_t const sign : {0u, 0x80000000u})
      large.push_back(hcomp::same_bits<float>(sign | bits));
  for (auto const& options : all_settings({1, 10, 14})) {
    at_every_level([&](simd_level level) {
      for (std::size_t const lanes : {1, 40}) {
        floats x, expected;
        for (std::size_t i = 0; i < lanes; ++i) {
          x.insert(x.end(), small.begin(), small.end());
          x.insert(x.end(), large.begin(), large.end());
          expected.resize(expected.size() + small.size(), 0.0f);
          expected.insert(expected.end(), large.begin(), large.end());
        }
        CHECK(same(round_trip(hcomp::inceptionn(options, level), x), expected));
      }
    });
  }
}

TEST_CASE("inceptionn: shares and sizes are those of a normal distribution") {  // C2
  std::size_t const n = 200'000;
  for (double const sigma : {1e-3, 1e-2, 1e-1}) {
    auto const x = inceptionn::normal(n, sigma, {.seed = 11});
    for (int const exponent : {10, 8, 6}) {
      CAPTURE(sigma);
      CAPTURE(exponent);
      inceptionn_options const options{.bound_exponent = exponent};
      hcomp::inceptionn const codec(options);
      auto const rule = hcomp::detail::inceptionn::rule_of(options);
      auto const beyond = [&](int power) {
        return std::erfc(std::ldexp(1.0, -power) / (sigma * std::sqrt(2.0)));
      };
      double const tails[] = {1, beyond(exponent), beyond(exponent / 2), beyond(0), 0};
      double count[4] = {};
      for (float const value : x) ++count[hcomp::detail::inceptionn::tag_of(rule, bits_of(value))];
      for (int tag = 0; tag < 4; ++tag)  // four standard deviations are 0.0045 at most
        CHECK(std::fabs(count[tag] / static_cast<double>(n) - (tails[tag] - tails[tag + 1])) <
              0.005);
      double const bits =
          2 + 8 * (tails[1] - tails[2]) + 16 * (tails[2] - tails[3]) + 32 * tails[3];
      auto const code = inceptionn::encoded(codec, x);
      auto const frame = 32.0 + 4 * std::ceil(static_cast<double>(n) / 1024);
      CHECK((static_cast<double>(code.size()) - frame) * 8 / static_cast<double>(n) ==
            doctest::Approx(bits).epsilon(0.02));
      auto const y = round_trip(codec, x);
      double largest = 0;
      for (std::size_t i = 0; i < n; ++i)
        largest = std::fmax(largest, std::fabs(static_cast<double>(y[i]) - x[i]));
      CHECK(largest < std::ldexp(1.0, -exponent));
    }
  }
}

TEST_CASE("inceptionn: truncation shrinks values, rounding only those in the dead zone") {  // C2
  double const sigma = 1e-2;
  auto const x = inceptionn::normal(200'000, sigma, {.seed = 12});
  auto const shrink = [&](inceptionn_options const& options) {
    auto const y = round_trip(hcomp::inceptionn(options), x);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      sum += std::fabs(static_cast<double>(y[i])) - std::fabs(static_cast<double>(x[i]));
    return sum / static_cast<double>(x.size()) / sigma;
  };
  // the means of 200,000 errors below 0.1 sigma have a standard deviation below 0.0003
  CHECK(std::fabs(shrink({}) - -0.015) < 0.0015);
  CHECK(std::fabs(shrink({.rounding = nearest}) - -0.0038) < 0.0015);
  // errors up to 0.78 sigma: 0.002
  CHECK(std::fabs(shrink({.variant = inceptionn_variant::as_drawn}) - -0.349) < 0.008);
}

TEST_CASE("inceptionn: errors of normal values are those of the model, with every variant") {  // C2
  std::size_t const n = 200'000;
  struct {
    double sigma;
    int exponent;
    double within_bound, as_drawn, grace;  ///< root mean square / sigma; 0: not known
  } const known[] = {{1e-3, 10, 0.439, 1.000, 3.66}, {1e-2, 10, 0.021, 0.414, 0},
                     {1e-2, 8, 0.125, 0.414, 0},     {1e-2, 6, 0.718, 0.728, 0},
                     {1e-1, 8, 0.004, 0.031, 0},     {1e-1, 6, 0.032, 0.048, 0}};
  for (auto const& one : known) {
    CAPTURE(one.sigma);
    CAPTURE(one.exponent);
    auto const x = inceptionn::normal(n, one.sigma, {.seed = 19});
    auto const error = [&](inceptionn_variant variant) {
      auto const y =
          round_trip(hcomp::inceptionn({.bound_exponent = one.exponent, .variant = variant}), x);
      double squares = 0;
      for (std::size_t i = 0; i < n; ++i) {
        double const here = static_cast<double>(y[i]) - static_cast<double>(x[i]);
        squares += here * here;
      }
      return std::sqrt(squares / static_cast<double>(n)) / one.sigma;
    };
    // known to three digits; of 200,000 squares the mean's root has a standard deviation below 0.3
    // %
    auto const near = [](double found, double wanted) {
      return std::fabs(found - wanted) < 0.0006 + 0.012 * wanted;
    };
    CHECK(near(error(inceptionn_variant::within_bound), one.within_bound));
    CHECK(near(error(inceptionn_variant::as_drawn), one.as_drawn));
    if (one.grace > 0) CHECK(near(error(inceptionn_variant::grace), one.grace));
  }
}

TEST_CASE("inceptionn: a prescale is the same as scaled values, bit for bit") {  // C4, 7
  auto const x = inceptionn::mixed(3000, {.seed = 13});
  for (auto options : all_settings({10})) {
    auto const y = round_trip(hcomp::inceptionn(options), x);
    for (int const power : {-64, -3, 1, 12, 64}) {
      CAPTURE(power);
      options.prescale = power;
      floats scaled(x), expected(y);
      for (float& value : scaled) value = std::ldexp(value, -power);
      for (float& value : expected) value = std::ldexp(value, -power);
      at_every_level([&](simd_level level) {
        CHECK(same(round_trip(hcomp::inceptionn(options, level), scaled), expected));
      });
    }
  }
}

TEST_CASE("inceptionn: chunks that would grow are stored as floats, as a receiver has them") {
  for (auto const& options : all_settings({10})) {
    hcomp::inceptionn const codec(options);
    for (std::size_t const small : {0, 64, 127, 128, 129, 200}) {  // 128 of 1024 have no payload
      CAPTURE(small);
      floats x(1024 + 5, 3.14f);
      for (std::size_t i = 0; i < small; ++i) x[i * 5] = i % 3 == 0 ? 0.003f : 0.0f;
      auto const code = inceptionn::encoded(codec, x);
      CHECK(code.size() <= hcomp::inceptionn::capacity(x.size()));
      CHECK(static_cast<double>(code.size()) < 1.02 * static_cast<double>(4 * x.size()));
      floats expected(x);
      for (std::size_t i = 0; i < small; ++i)  // alone they are encoded for sure
        expected[i * 5] = round_trip(codec, floats(64, x[i * 5]))[0];
      CHECK(same(round_trip(codec, x), expected));
    }
  }
}

TEST_CASE("inceptionn: the header states the bytes, values and options") {
  auto const x = inceptionn::mixed(3000, {.seed = 16});
  hcomp::inceptionn const codec;
  auto encoded = inceptionn::encoded(codec, x);
  auto const bytes = encoded.size();
  encoded.resize(bytes + 64, std::byte{0x5a});
  CHECK(hcomp::inceptionn::peek(encoded).bytes == bytes);
  CHECK(hcomp::inceptionn::peek(encoded).values == x.size());
  CHECK(hcomp::inceptionn::peek(encoded).options == codec.options());
}

TEST_CASE("inceptionn: a code is these bytes") {
  floats const x{0.0f,           0x1p-10f,        -0x1.8p-10f, 0x1p-5f,    -0.75f,     1.0f,
                 0x1.fffffep-1f, 0x1.fffffep-11f, 0.1f,        0x1.2p-10f, -0x1.6p-10f};
  std::vector<int> const bytes{
      'I',  'N',  1,    0, 0, 10,   0, 0,  // version, variant, rounding, bound exponent, prescale
      11,   0,    0,    0, 0, 0,    0, 0,  // values
      55,   0,    0,    0, 0, 0,    0, 0,  // bytes
      1,    0,    0,    0, 0, 0,    0, 0,  // chunks
      36,   0,    0,    0,                 // where the chunk begins
      0x94, 0x2e, 0x16,                    // tags
      4,    0x86, 0,    4, 0, 0xe0, 0, 0, 0x80, 0x3f, 0xff, 0x7f, 0xcc, 0x0c, 4, 0x85};
  at_every_level([&](simd_level level) {
    CHECK(inceptionn::encoded(hcomp::inceptionn({}, level), x) == inceptionn::as_bytes(bytes));
  });
}

TEST_CASE("inceptionn: impossible settings and rooms are refused with their values") {
  CHECK_THROWS_WITH_AS(
      hcomp::inceptionn({.bound_exponent = 15}),
      "inceptionn: variant 0, rounding 0, bound exponent 15, prescale 0; there are "
      "0 to 2, 0 to 1, 1 to 14, -64 to 64",
      std::invalid_argument);
  CHECK_THROWS_AS(hcomp::inceptionn({.bound_exponent = 0}), std::invalid_argument);
  CHECK_THROWS_AS(hcomp::inceptionn({.prescale = 65}), std::invalid_argument);
  CHECK_THROWS_AS(hcomp::inceptionn({.prescale = -65}), std::invalid_argument);
  CHECK_THROWS_AS(hcomp::inceptionn({.variant = static_cast<inceptionn_variant>(3)}),
                  std::invalid_argument);
  floats const x(1025);
  std::vector<std::byte> out(hcomp::inceptionn::capacity(x.size()) - 1);
  CHECK_THROWS_WITH_AS(hcomp::inceptionn().encode(x, out),
                       "inceptionn::encode: 4139 bytes for 1025 values; it takes 4140",
                       std::invalid_argument);
}

TEST_CASE("inceptionn: other settings, lengths and damage are told apart") {
  hcomp::inceptionn const codec;
  auto const x = inceptionn::mixed(2000, {.seed = 17});
  auto const code = inceptionn::encoded(codec, x);
  floats y(2000, 5.0f);
  auto const refused = [&](std::vector<std::byte> const& bytes) {
    std::string text;
    try {
      codec.decode(bytes, y);
    } catch (hcomp::wire_error const& error) {
      text = error.what();
    }
    CHECK(same(y, floats(2000, 5.0f)) == !text.empty());
    return text;
  };
  auto const changed = [&](std::size_t place, int value) {
    auto copy = code;
    copy[place] = static_cast<std::byte>(value);
    return refused(copy);
  };
  auto const first = [&](std::size_t bytes) {
    return refused({code.begin(), code.begin() + static_cast<std::ptrdiff_t>(bytes)});
  };
  auto const size = std::to_string(code.size());
  CHECK(first(0) == "inceptionn: 0 bytes, the header has 32");
  CHECK(first(31) == "inceptionn: 31 bytes, the header has 32");
  CHECK(first(code.size() - 1) ==
        "inceptionn: " + std::to_string(code.size() - 1) + " of its " + size + " bytes");
  CHECK(changed(1, 'X').starts_with("inceptionn: begins with 22601, version 1;"));
  CHECK(changed(2, 9).starts_with("inceptionn: begins with 20041, version 9;"));
  CHECK(changed(5, 99).starts_with("inceptionn: variant 0, rounding 0, bound exponent 99,"));
  CHECK(changed(5, 8) ==
        "inceptionn: variant 0, rounding 0, bound exponent 8, prescale 0; here it is variant "
        "0, rounding 0, bound exponent 10, prescale 0");
  CHECK(changed(7, 1) == "inceptionn: reserved fields must be 0, but are 1 and 0");
  CHECK(changed(8, 2000 % 256 - 1) == "inceptionn: 1999 values, 2000 were expected");
  CHECK(changed(9, 0) == "inceptionn: 208 values in 2 chunks of 1024");
  CHECK(changed(32, 41).starts_with("inceptionn: chunk 0 of 1024 values, bytes 41 to"));
  CHECK(changed(40, 0xff).starts_with("inceptionn: chunk 0 of 1024 values, bytes 40 to"));
  auto shorter = code;
  hcomp::store(shorter.data(), 2, std::uint64_t{code.size() - 1});
  CHECK(refused(shorter).starts_with("inceptionn: chunk 1 of 976 values, bytes"));
}

TEST_CASE("inceptionn: what adds up and is no code all the same is refused") {
  hcomp::inceptionn const codec;
  auto const refused = [&](std::vector<std::byte> bytes, std::size_t n) {
    hcomp::store(bytes.data(), 2, std::uint64_t{bytes.size()});
    try {
      codec.check(std::vector<std::byte>(bytes.begin(), bytes.end()), n);
    } catch (hcomp::wire_error const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  std::string const otherwise = ": its tags or neighbours say otherwise";
  auto five = inceptionn::encoded(codec, floats(5));
  CHECK(refused(five, 5).empty());
  five[37] = std::byte{4};  // a sixth value, and its byte
  five.push_back(std::byte{1});
  CHECK(refused(five, 5) == "inceptionn: chunk 0 of 5 values, bytes 36 to 39 of 39" + otherwise);
  // tags of the second chunk would lie behind the code
  auto three = inceptionn::encoded(codec, floats(2049));
  CHECK(refused(three, 2049).empty());
  three.resize(44 + 256 + 1);
  CHECK(refused(three, 2049) ==
        "inceptionn: chunk 1 of 1024 values, bytes 300 to 556 of 301" + otherwise);
}
