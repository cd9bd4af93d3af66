#pragma once
/// @file
/// Inputs from a written seed: the same numbers with every compiler and standard library.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace data {

/// Key of the random numbers: `data::uniform<float>(700, -8, 8, {.seed = 1})`.
struct source {
  std::uint64_t seed;
};

/// `value` as a T, rounded once.
template <class T> T as(double value) {
  return static_cast<T>(static_cast<hcomp::accumulator_t<T>>(value));
}

/// Uniform values in [low, high).
template <class T = float>
std::vector<T> uniform(std::size_t values, double low, double high, source from) {
  std::mt19937_64 random(from.seed);
  std::vector<T> x(values);
  for (T& value : x)
    value = as<T>(low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53);
  return x;
}

/// Integers from -6 to 6, different on every rank: a sum over up to 16 ranks is exact in any float
/// type.
inline std::vector<float> whole_numbers(std::size_t values, int rank) {
  std::vector<float> x(values);
  for (std::size_t i = 0; i < values; ++i)
    x[i] = static_cast<float>(hcomp::mix(i * 64 + static_cast<unsigned>(rank)) % 13) - 6;
  return x;
}

/// +1 or -1 with equal probability.
template <class T = float> std::vector<T> signs(std::size_t values, source from) {
  std::mt19937_64 random(from.seed);
  std::vector<T> x(values);
  for (T& value : x) value = as<T>(random() >> 63 ? 1 : -1);
  return x;
}

/// Words of random bits.
inline std::vector<std::uint64_t> words(std::size_t count, source from) {
  std::mt19937_64 random(from.seed);
  std::vector<std::uint64_t> bits(count);
  for (std::uint64_t& word : bits) word = random();
  return bits;
}

/// `count` random bytes.
inline std::vector<std::byte> bytes(std::size_t count, source from) {
  std::mt19937_64 random(from.seed);
  std::vector<std::byte> bits(count);
  for (std::byte& byte : bits) byte = static_cast<std::byte>(random() >> 56);
  return bits;
}

/// Properties of a floating-point type, of 16 bits or more.
template <class T> struct float_limits {
  static constexpr int digits = std::numeric_limits<T>::digits;
  static double denorm_min() { return static_cast<double>(std::numeric_limits<T>::denorm_min()); }
  static double min() { return static_cast<double>(std::numeric_limits<T>::min()); }
  static double max() { return static_cast<double>(std::numeric_limits<T>::max()); }
};
template <> struct float_limits<hcomp::float16> {
  static constexpr int digits = 11;
  static double denorm_min() { return 0x1p-24; }
  static double min() { return 0x1p-14; }
  static double max() { return 65504; }
};
template <> struct float_limits<hcomp::bfloat16> {
  static constexpr int digits = 8;
  static double denorm_min() { return 0x1p-133; }
  static double min() { return 0x1p-126; }
  static double max() { return 0x1.fep127; }
};

/// Infinity, -infinity, and NaNs of both signs and of different payloads.
template <class T> std::vector<T> nonfinite_specials() {
  std::vector<T> x;
  for (std::uint32_t const bits :
       {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u, 0x7fe00000u, 0xffe00000u})
    x.push_back(as<T>(static_cast<double>(hcomp::same_bits<float>(bits))));
  return x;
}

/// Half the distance between neighbours of type T around `value`: the largest error of rounding to
/// T, without overflow.
template <class T> double half_unit(double value) {
  double const magnitude = std::fabs(value);
  if (magnitude < float_limits<T>::min()) return float_limits<T>::denorm_min() / 2;
  return std::ldexp(0.5, std::ilogb(magnitude) + 1 - float_limits<T>::digits);
}

/// Zeros of both signs, denormals, the ends of the range, and ordinary neighbours. All finite.
template <class T> std::vector<T> finite_specials() {
  using limits = float_limits<T>;
  std::vector<T> x;
  for (double const magnitude : {0.0, limits::denorm_min(), limits::min() / 2, limits::min(), 1.0,
                                 1.5, 1000.0, limits::max() / 4, limits::max()})
    for (double const sign : {1.0, -1.0}) x.push_back(as<T>(sign * magnitude));
  return x;
}

}  // namespace data
