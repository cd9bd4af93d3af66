#pragma once
/// @file
/// What every codec with encoded vectors of variable length promises, as functions of the codec:
/// `laws::variable_rate::size<C>()` and so on. support/laws.hpp has the laws of fixed-rate codecs.
///
/// A new codec is tested by all laws as soon as it is in `all_codecs`; it needs a `stated<C>`.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/error_bounded/fallback.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/codec/lossless_integers/lossless_integers.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <support/encoded_vectors.hpp>
#include <support/error_bounded.hpp>
#include <support/few_cases.hpp>
#include <support/inceptionn.hpp>
#include <support/integers.hpp>
#include <support/lossless.hpp>
#include <tuple>
#include <type_traits>
#include <vector>

namespace laws::variable_rate {

using hcomp::testing::decoded;
using hcomp::testing::encoded;
using hcomp::testing::encoded_bytes;
using hcomp::testing::merged;
using hcomp::testing::same_values;

using all_codecs =
    std::tuple<hcomp::error_bounded<float>, hcomp::error_bounded<double>,
               hcomp::error_bounded_fallback<float>, hcomp::inceptionn, hcomp::lossless<float>,
               hcomp::lossless<double>, hcomp::lossless_integers<std::int32_t>,
               hcomp::lossless_integers<std::int64_t>, hcomp::lossless_integers<std::uint32_t>,
               hcomp::lossless_integers<std::uint64_t>>;

template <class C> using vector_of = std::vector<typename C::value_type>;

// ---- What the codecs state

/// The documentation of codec C, in numbers:
///
///   settings()                codecs under test; 6 ranks where the codec limits ranks
///   kinds, mixed              number of kinds of vectors; a kind with blocks of all forms
///   vector(c, kind, n, seed)  a vector of that kind
///   order_free(c, n, rank)    vectors of up to 6 ranks; the order of adding changes no bit
///   longest(c, n)             a vector whose encoding has the most bytes
///   most_bytes(n)             largest size of an encoded vector of n values
///
///   bound(c)                  error of 1 + 2
///   is_lossless               values do not change
///   refused                   more than this of 4000 damaged encoded vectors are refused
template <class C> struct stated;

template <> struct stated<hcomp::error_bounded<float>> {
  using codec = hcomp::error_bounded<float>;
  static constexpr bool is_lossless = false;
  static constexpr int kinds = 4, mixed = 2;
  static constexpr std::size_t refused = 1500;

  static std::vector<codec> settings() {
    std::vector<codec> all;
    for (int const bits : {18, 10, 22})
      for (double const bound : {1e-3, 1e-20, 1e4})
        all.emplace_back(hcomp::error_bounded_options{bound, 6, bits});
    return all;
  }
  /// 0: blocks of integers in all forms; 1: beside floats; 2: forms in runs and alone, NaN and
  /// infinity among them; 3: floats alone
  static std::vector<float> vector(codec const& c, int kind, std::size_t n, std::uint64_t seed) {
    if (kind == 2) return bounded_values::all_forms(n, seed, c.step());
    // of a bound of 1e-3, in 18 bits
    double const scale = c.step() / codec({.bound = 1e-3, .ranks = 6}).step() *
                         std::exp2(c.options().magnitude_bits - 18);
    auto x = bounded_values::integer_forms(n, seed, kind == 1);
    for (float& value : x) value = static_cast<float>(static_cast<double>(value) * scale);
    if (kind == 3)
      for (std::size_t i = 0; i < n; ++i)
        x[i] = static_cast<float>(1e20 * bounded_values::laplace(seed, i));
    return x;
  }
  static std::vector<float> order_free(codec const& c, std::size_t n, int rank) {
    return vector(c, 0, n, static_cast<std::uint64_t>(rank));
  }
  static std::vector<float> longest(codec const&, std::size_t n) {
    return std::vector<float>(n, 1e30f);
  }
  static std::size_t most_bytes(std::size_t n) {
    return 56 + static_cast<std::size_t>(1.0085 * 4 * static_cast<double>(n)) + 9;
  }
  static double bound(codec const& c) { return c.bound(); }
};

/// 64-bit integers in blocks, and doubles.
template <class C> struct stated_fallback {
  using T = typename C::value_type;
  static constexpr bool is_lossless = false;
  static constexpr int kinds = 2, mixed = 1;
  static constexpr std::size_t refused = 1000;

  static std::vector<C> settings() {
    std::vector<C> all;
    for (double const bound : {1e-3, 1e-20, 1e4})
      all.emplace_back(hcomp::error_bounded_options{.bound = bound, .ranks = 6});
    return all;
  }
  /// 0: blocks of integers of all widths; 1: beside doubles, NaN and infinity
  static std::vector<T> vector(C const& c, int kind, std::size_t n, std::uint64_t seed) {
    std::vector<T> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      std::uint64_t const random = hcomp::mix(seed * 1000 + i);
      double const laplace = bounded_values::laplace(seed, i);
      auto const form = static_cast<double>(hcomp::mix(seed * 77 + i / 32) % 8);
      double const bits = static_cast<double>(hcomp::mix(seed + i / 32) % 58);
      double const size = std::exp2(kind == 0 ? bits * bounded_values::draw(seed, i) : 9 * form);
      if (kind == 0 && random % 5 > 0)
        x[i] = static_cast<T>(random % 2 == 0 ? size * c.step() : -size * c.step());
      if (kind == 1 && form > 0) x[i] = static_cast<T>(size * c.step() * laplace);
      if (kind == 1 && form == 7 && random % 40 == 1)
        x[i] = random % 80 == 1 ? -std::numeric_limits<T>::infinity()
                                : std::numeric_limits<T>::quiet_NaN();
    }
    return x;
  }
  /// With doubles that lose no bit, and infinity.
  static std::vector<T> order_free(C const& c, std::size_t n, int rank) {
    auto x = vector(c, 0, n, static_cast<std::uint64_t>(rank));
    auto const large = static_cast<T>(std::ldexp(c.step(), rank == 0 ? 101 : 99));
    for (std::size_t i = 0; i < n; i += 50)
      x[i] = i % 100 == 0 ? large : rank == 0 ? std::numeric_limits<T>::infinity() : T{1};
    return x;
  }
  static std::vector<T> longest(C const&, std::size_t n) {
    return std::vector<T>(n, std::numeric_limits<T>::max() / 2);
  }
  /// Doubles, and of a block of 32 its form and which of them are doubles.
  static std::size_t most_bytes(std::size_t n) {
    return 56 + (n + 1023) / 1024 * 4 + (n + 31) / 32 * 5 + 8 * n;
  }
  /// Steps of floats are so small that 1 + 2 is 3.
  static double bound(C const& c) { return sizeof(T) == 4 && c.step() < 1 ? 0 : c.options().bound; }
};
template <>
struct stated<hcomp::error_bounded<double>> : stated_fallback<hcomp::error_bounded<double>> {};
template <>
struct stated<hcomp::error_bounded_fallback<float>>
    : stated_fallback<hcomp::error_bounded_fallback<float>> {};

template <> struct stated<hcomp::inceptionn> {
  static constexpr bool is_lossless = false;
  static constexpr int kinds = 4, mixed = 0;
  static constexpr std::size_t refused = 400;  // payloads may hold anything

  static std::vector<hcomp::inceptionn> settings() {
    std::vector<hcomp::inceptionn> all;
    for (int const prescale : {0, 9})
      for (auto options : inceptionn::all_settings({10, 1, 7, 14})) {
        options.prescale = prescale;
        all.emplace_back(options);
      }
    all.insert(all.begin() + 1, hcomp::inceptionn({.prescale = -5}));
    return all;
  }
  /// 0: of all magnitudes, NaN and infinity too; the other kinds are normal, the last above 1
  static std::vector<float> vector(hcomp::inceptionn const&, int kind, std::size_t n,
                                   std::uint64_t seed) {
    double const sigmas[] = {0, 0.05, 1e-3, 1e5};
    return kind == 0 ? inceptionn::mixed(n, {.seed = seed})
                     : inceptionn::normal(n, sigmas[kind], {.seed = seed});
  }
  static std::vector<float> longest(hcomp::inceptionn const& c, std::size_t n) {
    return vector(c, 3, n, 1);
  }
  static std::size_t most_bytes(std::size_t n) { return 32 + 4 * n + (n + 1023) / 1024 * 4; }
  /// 1, 2 and 3 are exact unless they are scaled to less than 1.
  static double bound(hcomp::inceptionn const& c) {
    int const prescale = c.options().prescale;
    return prescale < 0 ? std::ldexp(1.0, -c.options().bound_exponent - prescale) : 0;
  }
};

/// Values that come back as they are, in blocks of 64.
template <class C> struct stated_lossless {
  static constexpr bool is_lossless = true;
  static constexpr std::size_t refused = 1500;

  static std::vector<C> settings() { return {C()}; }
  /// 1 % more than the values, the header, the table of one chunk, and the form of a block.
  static std::size_t most_bytes(std::size_t n) {
    std::size_t const form = std::floating_point<typename C::value_type> ? 2 : 1;
    return 24 + 4 + form +
           static_cast<std::size_t>(1.01 * static_cast<double>(n * sizeof(typename C::value_type)));
  }
  static double bound(C const&) { return 0; }
};
template <class T> struct stated<hcomp::lossless<T>> : stated_lossless<hcomp::lossless<T>> {
  using codec = hcomp::lossless<T>;
  static constexpr int kinds = hcomp::testing::kinds_of_values, mixed = 4;

  static std::vector<T> vector(codec const&, int kind, std::size_t n, std::uint64_t seed) {
    return hcomp::testing::values_of_kind<T>(kind, n, seed);
  }
  /// Multiples of 1/8.
  static std::vector<T> order_free(codec const&, std::size_t n, int rank) {
    std::vector<T> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      auto const random = hcomp::mix(static_cast<std::uint64_t>(rank) * 10'000 + i);
      x[i] = static_cast<T>(static_cast<int>(random % 2001) - 1000) / 8;
    }
    return x;
  }
  static std::vector<T> longest(codec const& c, std::size_t n) { return vector(c, 2, n, 1); }
};
template <class T>
struct stated<hcomp::lossless_integers<T>> : stated_lossless<hcomp::lossless_integers<T>> {
  using codec = hcomp::lossless_integers<T>;
  static constexpr int kinds = hcomp::testing::kinds_of_integers, mixed = 3;

  static std::vector<T> vector(codec const&, int kind, std::size_t n, std::uint64_t seed) {
    return hcomp::testing::integers_of_kind<T>(kind, n, seed);
  }
  static std::vector<T> order_free(codec const& c, std::size_t n, int rank) {
    return vector(c, 3, n, static_cast<std::uint64_t>(rank));
  }
  static std::vector<T> longest(codec const& c, std::size_t n) { return vector(c, 1, n, 1); }
};

// ---- What the laws share

/// About blocks of 8, 32 and 64 values, and chunks of 1024 and 4096.
constexpr std::size_t sizes[] = {0,    1,    2,    3,    7,    8,    9,    31,   32,
                                 33,   63,   64,   65,   128,  1000, 1023, 1024, 1025,
                                 2500, 3000, 4095, 4096, 4097, 5000, 8300};

/// Calls f(codec, i) with setting i of the first `most`; where few_cases is set, with every fifth.
template <class C, class F> void for_each_setting(F const& f, std::size_t most = ~std::size_t{0}) {
  auto const all = stated<C>::settings();
  for (std::size_t i = 0; i < std::min(most, all.size()); i += hcomp::testing::few_cases ? 5 : 1) {
    CAPTURE(i);
    f(all[i], i);
  }
}
/// Calls f(kind) with every kind of vectors for setting 0, and with `mixed` for other settings.
template <class C, class F> void for_each_kind(std::size_t setting, F const& f) {
  for (int kind = 0; kind < stated<C>::kinds; ++kind) {
    CAPTURE(kind);
    if (setting == 0 || kind == stated<C>::mixed) f(kind);
  }
}
template <class C>
encoded_bytes hop(C const& codec, encoded_bytes const& in, vector_of<C> const& x) {
  encoded_bytes out(codec.capacity(x.size()));
  out.resize(codec.decode_add_encode(in, x, out));
  return {out.begin(), out.end()};
}
/// a + b: integers wrap around, NaNs become one.
template <class T> std::vector<T> added(std::vector<T> const& a, std::vector<T> const& b) {
  if constexpr (std::integral<T>) {
    return hcomp::testing::wrapped_sum(a, b);
  } else {
    std::vector<T> sum(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) sum[i] = hcomp::detail::with_one_nan(a[i] + b[i]);
    return sum;
  }
}
/// Whether f() throws wire_error.
template <class F> bool refuses(F const& f) {
  try {
    f();
  } catch (hcomp::wire_error const&) {
    return true;
  }
  return false;
}
/// The text of std::invalid_argument that f() throws, or none.
template <class F> std::string argument_error(F const& f) {
  try {
    f();
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "";
}

// ---- The laws

/// A vector of more than max_values values is refused before any of them is read.
template <class C> void longest() {
  using T = typename C::value_type;
  for_each_setting<C>([](C const& codec, std::size_t) {
    T const one{};
    std::span<T const> const x(&one, C::max_values + 1);
    CHECK(argument_error([&] { codec.encode(x, {}); }) ==
          std::string(C::name) + "::encode: " + std::to_string(x.size()) +
              " values; an encoded vector has at most " + std::to_string(C::max_values));
    CHECK(argument_error([&] { codec.encode(x.first(C::max_values), {}); }) ==
          std::string(C::name) + "::encode: 0 bytes for " + std::to_string(C::max_values) +
              " values; it takes " + std::to_string(codec.capacity(C::max_values)));
    // chunk offsets have 32 bits
    CHECK(codec.capacity(C::max_values) <= std::numeric_limits<std::uint32_t>::max());
  });
}

/// An encoded vector has at most the bytes stated. Encoding and adding write no byte behind
/// capacity(n), at any address; decoding reads no byte behind the encoded vector. With a smaller
/// buffer they throw, and the message names the capacity they need.
template <class C> void size() {
  for_each_setting<C>([](C const& codec, std::size_t setting) {
    for (std::size_t const n : sizes) {
      CAPTURE(n);
      std::size_t const capacity = codec.capacity(n), most = stated<C>::most_bytes(n);
      auto const check = [&](vector_of<C> const& x) {
        auto const expected = encoded(codec, x);
        REQUIRE(expected.size() <= std::min(capacity, most));
        auto const values = decoded(codec, expected, n);
        auto const written = [&](encoded_bytes const& right, auto const& write) {
          REQUIRE(right.size() <= std::min(capacity, most));
          for (std::size_t const shift : {0, 1, 4, 7}) {
            encoded_bytes padded_out(shift + capacity + 64, std::byte{0xaa});
            std::size_t const bytes = write(std::span(padded_out).subspan(shift, capacity));
            auto const begin = padded_out.begin() + static_cast<std::ptrdiff_t>(shift);
            REQUIRE(bytes == right.size());
            REQUIRE(std::equal(right.begin(), right.end(), begin));
            auto const is_guard = [](std::byte b) { return b == std::byte{0xaa}; };
            REQUIRE(std::all_of(padded_out.begin(), begin, is_guard));
            REQUIRE(std::all_of(padded_out.end() - 64, padded_out.end(), is_guard));
            if (&right != &expected) continue;
            vector_of<C> y(n);
            codec.decode(std::span(padded_out).subspan(shift), y);  // whatever lies behind
            REQUIRE(same_values(y, values));
          }
          if (capacity == 0) return;
          encoded_bytes small(capacity - 1);
          auto const text = argument_error([&] { write(std::span(small)); });
          CHECK(text.find(std::to_string(capacity - 1) + " bytes for " + std::to_string(n) +
                          " values; it takes " + std::to_string(capacity)) != std::string::npos);
        };
        written(expected, [&](auto out) { return codec.encode(x, out); });
        written(hop(codec, expected, x),
                [&](auto out) { return codec.decode_add_encode(expected, x, out); });
        if constexpr (hcomp::MergingVariableRate<C>)
          written(merged(codec, expected, expected),
                  [&](auto out) { return codec.merge(expected, expected, out); });
      };
      for_each_kind<C>(setting, [&](int kind) { check(stated<C>::vector(codec, kind, n, n + 1)); });
      check(stated<C>::longest(codec, n));
    }
  });
}

/// What was decoded does not change when it is encoded and decoded again; lossless codecs change no
/// bit of any value.
template <class C> void round_trip() {
  for_each_setting<C>([](C const& codec, std::size_t setting) {
    for_each_kind<C>(setting, [&](int kind) {
      for (std::size_t const n : sizes) {
        CAPTURE(n);
        auto const x = stated<C>::vector(codec, kind, n, static_cast<std::uint64_t>(kind) * 10 + n);
        auto const y = decoded(codec, encoded(codec, x), n);
        if (stated<C>::is_lossless) CHECK(same_values(x, y));
        CHECK(same_values(decoded(codec, encoded(codec, y), n), y));
      }
    });
  });
}

/// decode_add is decode and add. decode_add_encode is encode and merge where the codec merges, else
/// decode, add and encode. Two vectors give the same bytes in either order. Lossless codecs give
/// the exact sum of the values.
template <class C> void sums() {
  auto const check = [](C const& codec, vector_of<C> const& x, vector_of<C> const& y) {
    auto const a = encoded(codec, x), b = encoded(codec, y);
    auto const sum = added(decoded(codec, a, x.size()), y);
    auto sums = y;
    codec.decode_add(a, sums);
    CHECK(same_values(sums, sum));
    auto const both = hop(codec, a, y);
    if constexpr (hcomp::MergingVariableRate<C>) {
      CHECK(both == merged(codec, a, b));
      CHECK(both == merged(codec, b, a));
      CHECK(both == hop(codec, b, x));
    } else {
      CHECK(both == encoded(codec, sum));
    }
    if (stated<C>::is_lossless) {
      CHECK(both == encoded(codec, sum));
      CHECK(same_values(decoded(codec, both, x.size()), sum));
    }
  };
  for_each_setting<C>([&](C const& codec, std::size_t setting) {
    for_each_kind<C>(setting, [&](int kind) {
      constexpr int kinds = stated<C>::kinds;
      for (int const other : {kind, (kind + 1) % 5 % kinds, (kind + 6) % kinds})
        for (std::size_t const n : sizes) {
          if (setting > 0 && other != kind) continue;
          CAPTURE(other);
          CAPTURE(n);
          check(codec, stated<C>::vector(codec, kind, n, 1), stated<C>::vector(codec, other, n, 2));
        }
    });
  });
}

/// -value; integers wrap around.
template <class V> V negated(V value) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(std::make_unsigned_t<V>{0} - static_cast<std::make_unsigned_t<V>>(value));
  else
    return 0 - value;
}

/// Merging the vectors of six ranks gives the same bytes in any order; one rank cancels another.
/// Codecs that do not merge round every result, so the law leaves them out.
template <class C> void order() {
  if constexpr (hcomp::MergingVariableRate<C>)
    for_each_setting<C>(
        [](C const& codec, std::size_t) {
          for (std::size_t const n : sizes) {
            CAPTURE(n);
            std::vector<encoded_bytes> all;
            for (int rank = 0; rank < 6; ++rank) {
              auto x = stated<C>::order_free(codec, n, std::min(rank, 4));
              if (rank == 5)
                for (auto& value : x) value = negated(value);
              all.push_back(encoded(codec, x));
            }
            encoded_bytes expected = all[0];
            for (std::size_t r = 1; r < 6; ++r) expected = merged(codec, expected, all[r]);
            for (std::uint64_t seed = 1; seed <= 8; ++seed) {
              CAPTURE(seed);
              auto left = all;
              for (std::uint64_t i = 0; left.size() > 1; ++i) {
                auto const take = [&] {
                  std::size_t const at = hcomp::mix(seed * 100 + i + left.size()) % left.size();
                  auto const taken = left[at];
                  left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
                  return taken;
                };
                auto const a = take(), b = take();
                left.push_back(merged(codec, a, b));
              }
              CHECK(left[0] == expected);
            }
          }
        },
        3);
}

/// NaN and infinity propagate, one value and sums, from every place of a vector; their neighbours
/// stay as near as stated.
template <class C> void nonfinite() {
  using T = typename C::value_type;
  if constexpr (std::floating_point<T>) {
    constexpr T infinity = std::numeric_limits<T>::infinity(),
                not_a_number = std::numeric_limits<T>::quiet_NaN(),
                large = std::numeric_limits<T>::max() / 4 * 3;
    using word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    auto const payload = hcomp::same_bits<T>(
        static_cast<word>(sizeof(T) == 4 ? 0xffc1'2345u : 0xfff8'0000'0001'2345u));
    struct {
      T x, y, sum;
    } const cases[] = {{infinity, 2, infinity},
                       {1, -infinity, -infinity},
                       {not_a_number, 2, not_a_number},
                       {1, payload, not_a_number},
                       {infinity, -infinity, not_a_number},
                       {-infinity, -infinity, -infinity},
                       {infinity, not_a_number, not_a_number},
                       {large, large, infinity},
                       {large, 1, large}};
    for_each_setting<C>([&](C const& codec, std::size_t) {
      auto const check = [&](vector_of<C> const& x, vector_of<C> const& y,
                             vector_of<C> const& expected) {
        auto const matches = [&](vector_of<C> const& z, vector_of<C> const& wanted, double bound) {
          for (std::size_t i = 0; i < z.size(); ++i) {
            bool const is_ordinary = wanted[i] <= 3 && wanted[i] >= 1;
            if (is_ordinary ? !(std::fabs(static_cast<double>(z[i] - wanted[i])) <= bound)
                            : z[i] != wanted[i] && !(std::isnan(z[i]) && std::isnan(wanted[i])))
              return false;
          }
          return true;
        };
        auto const a = encoded(codec, x), b = encoded(codec, y);
        double const bound = stated<C>::bound(codec);
        REQUIRE(matches(decoded(codec, a, x.size()), x, bound));
        REQUIRE(matches(decoded(codec, b, x.size()), y, bound));
        auto const one_nan = added(expected, vector_of<C>(x.size()));
        auto const check_sum = [&](encoded_bytes const& in) {
          auto const z = decoded(codec, in, x.size());
          REQUIRE(matches(z, expected, bound));
          for (std::size_t i = 0; i < z.size(); ++i)  // of all NaNs one
            if (std::isnan(z[i])) REQUIRE(std::memcmp(&z[i], &one_nan[i], sizeof(T)) == 0);
        };
        check_sum(hop(codec, a, y));
        check_sum(hop(codec, b, x));
        if constexpr (hcomp::MergingVariableRate<C>) check_sum(merged(codec, a, b));
      };
      for (std::size_t const n : {1, 33, 64, 100, 1025, 4097}) {
        CAPTURE(n);
        for (std::size_t const at : {std::size_t{0}, n / 2, n - 1}) {
          CAPTURE(at);
          vector_of<C> x(n, 1), y(n, 2), sum(n, 3);
          for (auto const& one : cases) {
            CAPTURE(&one - cases);
            x[at] = one.x, y[at] = one.y, sum[at] = one.sum;
            check(x, y, sum);
          }
          for (std::size_t k = 0; k < std::min(std::size(cases), n); ++k) {
            std::size_t const place = (at + k) % n;
            x[place] = cases[k].x, y[place] = cases[k].y, sum[place] = cases[k].sum;
          }
          check(x, y, sum);
        }
      }
    });
  }
}

/// Damaged vectors are refused, and decoding leaves values as they were; or they are decoded to
/// something, without a byte read or written outside. 4000 are damaged mostly in the header, the
/// table and what is in front of a chunk, 3400 anywhere.
template <class C> void damage() {
  static constexpr std::size_t n = 1500, front = sizeof(typename C::header_type) + 2 * 4 + 48;
  for_each_setting<C>(
      [](C const& codec, std::size_t setting) {
        for_each_kind<C>(setting, [&](int kind) {
          if (kind > 4 && kind < 9) return;  // they are in blocks of kinds 3 and 4
          auto const right = encoded(codec, stated<C>::vector(codec, kind, n, 3));
          hcomp::testing::before_guard_page memory(right.size());
          auto const is_refused = [&](encoded_bytes const& damaged) {
            auto const in = memory.copy(damaged);
            vector_of<C> y(n, 5);
            auto const before = y;
            bool const is = refuses([&] { codec.decode(in, y); });
            if (is) REQUIRE(y == before);
            refuses([&] {
              encoded_bytes out(codec.capacity(n));
              if constexpr (hcomp::MergingVariableRate<C>)
                out.resize(codec.merge(right, in, out));
              else
                out.resize(codec.decode_add_encode(in, y, out));
              codec.check(out, n);
            });
            return is;
          };
          REQUIRE_FALSE(is_refused(right));
          std::size_t refused = 0, of_others = 0;
          for (std::uint64_t round = 0; round < 4000; ++round)
            refused += is_refused(hcomp::testing::damaged(right, round + 1, front));
          CHECK(refused > stated<C>::refused);
          CHECK(refused < 4000);
          for (std::uint64_t round = 0; round < 3400; ++round)
            of_others += is_refused(inceptionn::damaged(right, hcomp::mix(round + 1)));
          CHECK(of_others > 300);
          CHECK(of_others < 3100);
        });
      },
      7);
}

/// A vector that ends inside a chunk is refused, and nothing beyond its end is read.
template <class C> void cut_chunks() {
  using header = typename C::header_type;
  constexpr std::size_t n = header::chunk_values + 5;
  C const codec = stated<C>::settings().front();
  for_each_kind<C>(0, [&](int kind) {
    auto const right = encoded(codec, stated<C>::vector(codec, kind, n, 3));
    hcomp::testing::before_guard_page memory(right.size());
    std::size_t const front = hcomp::detail::first_chunk_at<header>(2);
    for (std::size_t cut = front + 1; cut < right.size(); ++cut) {
      auto in = right;
      auto begins = hcomp::load<header>(in.data());
      begins.bytes = static_cast<decltype(begins.bytes)>(cut);
      hcomp::store(in.data(), 0, begins);
      in.resize(cut);
      vector_of<C> y(n);
      CHECK(refuses([&] { codec.decode(memory.copy(in), y); }));
    }
  });
}

/// Vectors of other lengths, of other settings and of other codecs are refused, and values stay as
/// they were.
template <class C> void mismatch() {
  auto const all = stated<C>::settings();
  auto const five = encoded(all[0], vector_of<C>(5, 1));
  // error_bounded_fallback is a part of error_bounded
  auto const name = std::string(C::name).substr(0, std::string(C::name).find("_fallback"));
  auto const text = name + ": 5 values, 6 were expected";
  CHECK_THROWS_WITH_AS(all[0].check(five, 6), text.c_str(), hcomp::wire_error);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    auto const& codec = all[i];
    auto const x = stated<C>::vector(codec, 0, 100, 1);
    auto const right = encoded(codec, x);
    CHECK_NOTHROW(codec.check(right, 100));
    for (std::size_t const n : {0, 99, 101, 1125}) {
      CAPTURE(n);
      auto y = vector_of<C>(n, 5);
      CHECK_THROWS_AS(codec.check(right, n), hcomp::wire_error);
      CHECK_THROWS_AS(codec.decode(right, y), hcomp::wire_error);
      CHECK_THROWS_AS(codec.decode_add(right, y), hcomp::wire_error);
      CHECK(y == vector_of<C>(n, 5));
      encoded_bytes out(codec.capacity(2000));
      CHECK_THROWS_AS(codec.decode_add_encode(right, y, out), hcomp::wire_error);
      if constexpr (hcomp::MergingVariableRate<C>) {
        CHECK_THROWS_AS(codec.merge(right, encoded(codec, y), out), hcomp::wire_error);
        CHECK_THROWS_AS(codec.merge(encoded(codec, y), right, out), hcomp::wire_error);
      }
    }
    for (std::size_t other = 0; other < all.size(); ++other)
      if (other != i) CHECK_THROWS_AS(all[other].check(right, 100), hcomp::wire_error);
  }
  auto const check_other = [&]<class D>(std::type_identity<D>) {
    CAPTURE(D::name);
    for (std::size_t const n : {0, 5, 20}) {
      auto const other = encoded(stated<D>::settings()[0], vector_of<D>(n, 1));
      if (D::codec_id == C::codec_id)
        CHECK_NOTHROW(all[0].check(other, n));
      else
        CHECK_THROWS_AS(all[0].check(other, n), hcomp::wire_error);
    }
  };
  [&]<class... D>(std::type_identity<std::tuple<D...>>) {
    (check_other(std::type_identity<D>()), ...);
  }(std::type_identity<all_codecs>());
}

/// Every SIMD level gives the bytes and the values of the baseline. For codecs without a choice of
/// level, the tests that run with HCOMP_MAX_SIMD show it.
template <class C> void levels() {
  if constexpr (requires(C const c) { C(c.options(), hcomp::simd_level::baseline); })
    for_each_setting<C>([](C const& given, std::size_t setting) {
      C const baseline(given.options(), hcomp::simd_level::baseline);
      for_each_kind<C>(setting, [&](int kind) {
        for (std::size_t const n : sizes) {
          CAPTURE(n);
          auto const x = stated<C>::vector(baseline, kind, n, 14 + n),
                     y = stated<C>::vector(baseline, kind, n, 15 + n);
          auto const a = encoded(baseline, x), b = encoded(baseline, y), next = hop(baseline, a, y);
          auto const values = decoded(baseline, next, n), sum = added(decoded(baseline, a, n), y);
          inceptionn::at_every_level([&](hcomp::simd_level level) {
            C const codec(given.options(), level);
            CHECK(encoded(codec, x) == a);
            CHECK(hop(codec, a, y) == next);
            CHECK(same_values(decoded(codec, next, n), values));
            auto sums = y;
            codec.decode_add(a, sums);
            CHECK(same_values(sums, sum));
            if constexpr (hcomp::MergingVariableRate<C>) CHECK(merged(codec, a, b) == next);
          });
        }
      });
    });
}

}  // namespace laws::variable_rate
