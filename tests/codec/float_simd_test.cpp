#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/core/random.hpp>
#include <support/data.hpp>
#include <vector>

using hcomp::bfloat16;
using hcomp::float16;
using hcomp::simd_level;

namespace {

/// Float patterns for every branch of a conversion: around all exponents, ties, both signs, quiet
/// NaNs with payload, and 200,000 random ones.
std::vector<float> telling_floats() {
  std::vector<std::uint32_t> patterns;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
    for (std::uint32_t const fraction :
         {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u,
          0x18000u, 0x200000u, 0x3fffffu, 0x400000u, 0x7fe000u, 0x7fefffu, 0x7ff000u, 0x7fffffu})
      for (std::uint32_t const sign : {0u, 0x80000000u})
        patterns.push_back(sign | exponent << 23 | fraction);
  for (std::uint32_t i = 0; i < 50'000; ++i)
    for (auto const word : hcomp::philox4x32({i, 0, 0, 0}, 7)) patterns.push_back(word);
  for (auto& pattern : patterns)  // arithmetic may or may not make a signalling NaN quiet
    if ((pattern & 0x7fffffffu) > 0x7f800000u) pattern |= 0x400000u;
  std::vector<float> floats(patterns.size());
  std::memcpy(floats.data(), patterns.data(), patterns.size() * sizeof(float));
  return floats;
}

template <class F> void at_every_level(F const& f) {
  for (auto const level : {simd_level::baseline, simd_level::avx2, simd_level::avx512}) {
    if (level > hcomp::best_simd_level()) continue;
    CAPTURE(static_cast<int>(level));
    f(level);
  }
}

template <class T> std::byte* bytes_of(std::vector<T>& x) {
  return reinterpret_cast<std::byte*>(x.data());
}
template <class T> std::byte const* bytes_of(std::vector<T> const& x) {
  return reinterpret_cast<std::byte const*>(x.data());
}

template <class T> bool same_bits_everywhere(std::vector<T> const& a, std::vector<T> const& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace

TEST_CASE_TEMPLATE("float vectors: round to the wire type as one value does, at every level", Wire,
                   float, float16, bfloat16) {
  auto const x = telling_floats();
  std::vector<Wire> expected;
  for (float const value : x) expected.push_back(static_cast<Wire>(value));
  at_every_level([&](simd_level level) {
    std::vector<Wire> wire(x.size());
    hcomp::run_at(level, hcomp::detail::encode_floats<Wire, float const*>{
                             x.data(), static_cast<int>(x.size()), 1, bytes_of(wire)});
    CHECK(same_bits_everywhere(wire, expected));
  });
}

TEST_CASE_TEMPLATE(
    "float vectors: all values of the wire type are decoded as one is, at every level", Wire,
    float16, bfloat16) {
  std::vector<Wire> wire(65536);
  std::vector<float> expected(wire.size());
  for (std::size_t i = 0; i < wire.size(); ++i) {
    wire[i].bits = static_cast<std::uint16_t>(i);
    expected[i] = static_cast<float>(wire[i]);
  }
  at_every_level([&](simd_level level) {
    std::vector<float> x(wire.size());
    hcomp::run_at(level, hcomp::detail::decode_floats<Wire>{bytes_of(wire), 65536, 1, x.data()});
    CHECK(same_bits_everywhere(x, expected));
  });
}

TEST_CASE_TEMPLATE("float vectors: add, weigh and divide as one value does, at every length", Wire,
                   float, float16, bfloat16) {
  at_every_level([&](simd_level level) {
    for (int n = 0; n <= 70; ++n) {
      CAPTURE(n);
      auto const x = data::uniform<float>(static_cast<std::size_t>(n), -8, 8, {.seed = 1});
      auto const y = data::uniform<float>(static_cast<std::size_t>(n), -8, 8, {.seed = 2});
      // one more element than is processed: it must not change
      std::vector<Wire> a(x.size() + 1, Wire(77.0f)), b(a), expected(a);
      std::vector<float> back(x.size() + 1, 77.0f), mean(back);
      for (std::size_t i = 0; i < x.size(); ++i) {
        auto const weighed = static_cast<float>(static_cast<Wire>(x[i] * 3));
        expected[i] = static_cast<Wire>(weighed + static_cast<float>(static_cast<Wire>(y[i])));
        mean[i] = static_cast<float>(expected[i]) / 4;
      }
      using hcomp::detail::encode_floats;
      hcomp::run_at(level, encode_floats<Wire, float const*>{x.data(), n, 3, bytes_of(a)});
      hcomp::run_at(level, encode_floats<Wire, float const*>{y.data(), n, 1, bytes_of(b)});
      hcomp::run_at(level,
                    hcomp::detail::merge_floats<Wire>{bytes_of(a), bytes_of(b), bytes_of(a), n});
      hcomp::run_at(level, hcomp::detail::decode_floats<Wire>{bytes_of(a), n, 4, back.data()});
      CHECK(same_bits_everywhere(a, expected));
      CHECK(same_bits_everywhere(back, mean));
    }
  });
}

TEST_CASE_TEMPLATE("float vectors: NaN and infinity are detected at every index, and only they",
                   Wire, float, float16, bfloat16) {
  float const largest = 60000;
  at_every_level([&](simd_level level) {
    for (std::size_t n = 1; n <= 40; ++n)
      for (std::size_t place = 0; place < n; ++place)
        for (float const special : {INFINITY, -INFINITY, NAN, -largest}) {
          std::vector<float> x(n, largest);
          x[place] = special;
          std::vector<Wire> wire(n);
          bool const noticed =
              hcomp::run_at(level, hcomp::detail::encode_floats<Wire, float const*>{
                                       x.data(), static_cast<int>(n), 1, bytes_of(wire)});
          REQUIRE(noticed == !std::isfinite(special));
        }
  });
}
