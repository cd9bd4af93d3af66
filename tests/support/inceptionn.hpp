#pragma once
/// @file
/// Helpers of the tests of INCEPTIONN's formats.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/inceptionn/options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <string>
#include <support/data.hpp>
#include <vector>

namespace inceptionn {

using floats = std::vector<float>;
using bytes = std::vector<std::byte>;

inline std::uint32_t bits_of(float value) { return hcomp::same_bits<std::uint32_t>(value); }
/// Distinguishes -0 from 0, and NaNs by their bits.
inline bool same(floats const& a, floats const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}
inline std::vector<std::byte> as_bytes(std::vector<int> const& numbers) {
  std::vector<std::byte> bytes;
  for (int const number : numbers) bytes.push_back(static_cast<std::byte>(number));
  return bytes;
}

inline bytes encoded(hcomp::inceptionn const& codec, floats const& x) {
  bytes out(codec.capacity(x.size()));
  out.resize(codec.encode(x, out));
  return out;
}
inline bool begins_with(bytes const& all, bytes const& first) {
  return all.size() >= first.size() && std::equal(first.begin(), first.end(), all.begin());
}

/// Every variant and rounding with these bounds.
inline std::vector<hcomp::inceptionn_options> all_settings(std::vector<int> const& exponents) {
  std::vector<hcomp::inceptionn_options> all;
  for (int const exponent : exponents)
    for (int variant = 0; variant < 3; ++variant)
      for (int rounding = 0; rounding < 2; ++rounding)
        all.push_back({exponent, 0, static_cast<hcomp::inceptionn_variant>(variant),
                       static_cast<hcomp::inceptionn_rounding>(rounding)});
  return all;
}

template <class F> void at_every_level(F const& f) {
  for (auto const level :
       {hcomp::simd_level::baseline, hcomp::simd_level::avx2, hcomp::simd_level::avx512}) {
    if (level > hcomp::best_simd_level()) continue;
    CAPTURE(static_cast<int>(level));
    f(level);
  }
}

/// All magnitudes from 2^-20 to 8, with equal numbers per power of two; every 61st is NaN, infinity
/// or 0.
inline floats mixed(std::size_t n, data::source from) {
  floats x(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const random = hcomp::mix(from.seed * 1'000'003 + i);
    auto const exponent = static_cast<std::uint32_t>(107 + (random >> 32) % 23);
    std::uint32_t bits = (static_cast<std::uint32_t>(random) & 0x807fffffu) | exponent << 23;
    if ((random >> 40) % 61 == 0)
      bits = i % 3 == 0 ? 0x7fc12345u : i % 3 == 1 ? 0xff800000u : 0x80000000u;
    x[i] = hcomp::same_bits<float>(bits);
  }
  return x;
}

/// Normal, around 0.
inline floats normal(std::size_t n, double sigma, data::source from) {
  auto const u = data::uniform<double>(n + n % 2, 0, 1, from);
  floats x(n);
  for (std::size_t i = 0; i < n; ++i) {
    double const radius = sigma * std::sqrt(-2 * std::log(1 - u[i / 2 * 2]));
    double const angle = 6.283185307179586 * u[i / 2 * 2 + 1];
    x[i] = static_cast<float>(radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
  }
  return x;
}

template <class Codec> std::vector<std::byte> encoded(Codec const& codec, floats const& x) {
  std::vector<std::byte> bytes(codec.capacity(x.size()));
  bytes.resize(codec.encode(x, bytes));
  // a copy has no spare capacity, where reads would go undetected
  return {bytes.begin(), bytes.end()};
}

/// Bytes with one fault: truncated, a few changed bytes or bits, a changed header field, or noise.
inline std::vector<std::byte> damaged(std::vector<std::byte> bytes, std::uint64_t random) {
  auto const draw = [&](std::size_t below) {
    random = hcomp::mix(random + 1);
    return static_cast<std::size_t>(random % (below == 0 ? 1 : below));
  };
  switch (draw(6)) {
    case 0: bytes.resize(draw(bytes.size())); break;
    case 1:
      for (std::size_t i = 1 + draw(4); i > 0; --i)
        bytes[draw(bytes.size())] = static_cast<std::byte>(draw(256));
      break;
    case 2: bytes[draw(bytes.size())] ^= static_cast<std::byte>(1u << draw(8)); break;
    case 3: bytes[draw(48)] = static_cast<std::byte>(draw(256)); break;
    case 4: {
      std::uint32_t const numbers[] = {0,
                                       1,
                                       0x7fffffffu,
                                       0xffffffffu,
                                       static_cast<std::uint32_t>(bytes.size()),
                                       static_cast<std::uint32_t>(draw(bytes.size()))};
      // separate: the evaluation order of arguments is unspecified
      std::size_t const place = 2 + draw(9);
      hcomp::store(bytes.data(), place, numbers[draw(6)]);
      break;
    }
    default:
      for (std::size_t i = draw(64); i < bytes.size(); i += 1 + draw(40))
        bytes[i] = static_cast<std::byte>(draw(256));
  }
  bytes.shrink_to_fit();
  return bytes;
}

}  // namespace inceptionn
