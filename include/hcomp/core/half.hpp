#pragma once
/// @file
/// 16-bit floats as storage types: IEEE binary16 and bfloat16. Arithmetic is in float.

#include <concepts>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <limits>
#include <type_traits>

namespace hcomp {

/// IEEE 754 binary16. Conversion from float rounds to nearest, ties to even; above 65504 the result
/// is infinity.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  HCOMP_HD explicit float16(float value) : bits(from_float(value)) {}
  HCOMP_HD operator float() const { return to_float(bits); }

  static HCOMP_HD std::uint16_t from_float(float value) {
    std::uint32_t const f = same_bits<std::uint32_t>(value);
    std::uint32_t const sign = f >> 16 & 0x8000u;
    std::uint32_t const magnitude = f & 0x7fffffffu;
    if (magnitude > 0x7f800000u)  // NaN: keep the leading payload bits, stay a quiet NaN
      return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
#if defined(__CUDA_ARCH__)  // one instruction, the same bits for all other values
    std::uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#else
    if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // >= 65520
    if (magnitude < 0x38800000u) {  // below 2^-14: a denormal half, rounded by a float addition
      float const shifted = same_bits<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign | (same_bits<std::uint32_t>(shifted) - 0x3f000000u));
    }
    std::uint32_t const rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
#endif
  }

  static HCOMP_HD float to_float(std::uint16_t half) {
    std::uint32_t const sign = (half & 0x8000u) << 16;
    std::uint32_t const magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u)
      return same_bits<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
#else
    if (magnitude < 0x400u) {  // zero or denormal: an exact multiple of 2^-24
      float const value = static_cast<float>(magnitude) * 0x1p-24f;
      return same_bits<float>(sign | same_bits<std::uint32_t>(value));
    }
    return same_bits<float>(sign | ((magnitude << 13) + 0x38000000u));
#endif
  }
};

/// The upper half of a float: the range of float, 8 bits of precision. Rounds to nearest, ties to
/// even.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  HCOMP_HD explicit bfloat16(float value) : bits(from_float(value)) {}
  HCOMP_HD operator float() const {
    return same_bits<float>(static_cast<std::uint32_t>(bits) << 16);
  }

  static HCOMP_HD std::uint16_t from_float(float value) {
    std::uint32_t const f = same_bits<std::uint32_t>(value);
    if ((f & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(f >> 16 | 0x40u);
    return static_cast<std::uint16_t>((f + 0x7fffu + (f >> 16 & 1u)) >> 16);
  }
};

/// The supported types of values.
template <class T>
concept Value = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, float16> ||
    std::same_as<T, bfloat16>;

namespace detail {

/// T, if it is a supported type. Otherwise reports one compile error and continues with float.
template <class T> struct checked_value {
  static_assert(
      Value<T>,
      "values are float, double, hcomp::float16 or hcomp::bfloat16; integers are summed by "
      "plans of hcomp::lossless_integers, and by name if they are std::int32_t or "
      "std::int64_t");
  using type = std::conditional_t<Value<T>, T, float>;
};
template <class T> using value_t = typename checked_value<T>::type;

}  // namespace detail

/// The type in which values of type T are added and compensated: float, or double for double.
template <class T> struct accumulator { using type = float; };
template <> struct accumulator<double> { using type = double; };
template <class T> using accumulator_t = typename accumulator<T>::type;

/// The largest finite value of type T.
template <class T> inline constexpr double largest_v = std::numeric_limits<T>::max();
template <> inline constexpr double largest_v<float16> = 65504;
template <> inline constexpr double largest_v<bfloat16> = 0x1.fep127;

}  // namespace hcomp
