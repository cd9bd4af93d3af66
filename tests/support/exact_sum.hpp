#pragma once
/// @file
/// Exact addition of floats and doubles, as a reference.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace hcomp::testing {

/// A sum of up to 2^20 finite numbers, in fixed point over the whole range of doubles.
class exact_sum {
 public:
  void add(double x) {
    int exponent = 0;
    auto const whole = static_cast<std::int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
    if (whole == 0) return;
    auto const magnitude = static_cast<std::uint64_t>(whole < 0 ? -whole : whole);
    int const at = exponent - 53 - lowest;
    std::uint64_t const parts[] = {(magnitude & 0xffffffff) << at % 32, (magnitude >> 32)
                                                                            << at % 32};
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t half = 0; half < 2; ++half) {
        auto const digit = static_cast<std::int64_t>(parts[k] >> 32 * half & 0xffffffff);
        digits_[static_cast<std::size_t>(at / 32) + k + half] += whole < 0 ? -digit : digit;
      }
  }
  /// The nearest T, ties to even; infinity if that is too large. 0 is positive.
  template <class T> T nearest() const {
    auto const [bits, negative] = magnitude();
    int top = static_cast<int>(bits.size()) * 32 - 1;
    auto const bit = [&, &all = bits](int i) {
      return i >= 0 ? all[static_cast<std::size_t>(i / 32)] >> i % 32 & 1 : 0;
    };
    while (top >= 0 && bit(top) == 0) --top;
    if (top < 0) return 0;
    using limits = std::numeric_limits<T>;
    int const least = limits::min_exponent - limits::digits - lowest,
              last = top - limits::digits + 1 > least ? top - limits::digits + 1 : least;
    std::int64_t kept = 0;
    for (int i = top; i >= last; --i) kept = 2 * kept + bit(i);
    bool rest = false;
    for (int i = last - 2; i >= 0; --i) rest |= bit(i) != 0;
    if (bit(last - 1) != 0 && (rest || kept % 2 != 0)) ++kept;
    double const value = std::ldexp(static_cast<double>(kept), last + lowest);
    return static_cast<T>(negative ? -value : value);
  }
  /// |this - value|, with a few roundings.
  double distance(double value) const {
    exact_sum difference = *this;
    difference.add(-value);
    return std::fabs(difference.nearest<double>());
  }

 private:
  static constexpr int lowest = -1152;  ///< 2^lowest is the unit of the first digit
  using digits = std::array<std::int64_t, 76>;

  struct signed_digits {
    digits magnitude;  ///< of 32 bits each
    bool negative;
  };
  signed_digits magnitude() const {
    signed_digits all{digits_, false};
    auto const carry = [&] {
      std::int64_t over = 0;
      for (auto& digit : all.magnitude) {
        std::int64_t const sum = digit + over;
        digit = sum & 0xffffffff;
        over = sum >> 32;
      }
      return over;
    };
    if (carry() < 0) {
      all = {digits_, true};
      for (auto& digit : all.magnitude) digit = -digit;
      carry();
    }
    return all;
  }

  digits digits_{};
};

}  // namespace hcomp::testing
