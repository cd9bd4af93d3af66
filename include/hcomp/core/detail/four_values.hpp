#pragma once
/// @file
/// Four adjacent values of a vector, moved together by a device.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/half.hpp>
#include <type_traits>

namespace hcomp::detail {

/// Four values of type V, stored as 32-bit words: nvcc would load smaller types one at a time.
template <class V> struct four_values {
  static_assert(sizeof(V) == 2 || sizeof(V) == 4 || sizeof(V) == 8);
  adjacent<std::uint32_t, sizeof(V)> words;

  /// Four values from value(j), for j from 0 to 3.
  template <class F> HCOMP_HD static four_values of(F const& value) {
    four_values some{};
    HCOMP_UNROLL
    for (int j = 0; j < 4; ++j) some.set(j, value(j));
    return some;
  }
  HCOMP_HD static four_values at(void const* from) {
    return {adjacent<std::uint32_t, sizeof(V)>::at(from)};
  }
  HCOMP_HD void put(void* to) const { words.put(to); }
  /// Whether `address` is aligned for a load or store of four values.
  HCOMP_HD static bool can_be_at(void const* address) {
    return reinterpret_cast<std::uintptr_t>(address) % sizeof(four_values) == 0;
  }

  HCOMP_HD V operator[](int j) const {
    if constexpr (sizeof(V) == 2)
      return same_bits<V>(static_cast<std::uint16_t>(words.values[j / 2] >> 16 * (j % 2)));
    else if constexpr (sizeof(V) == 4)
      return same_bits<V>(words.values[j]);
    else
      return same_bits<V>(words.values[2 * j] | std::uint64_t{words.values[2 * j + 1]} << 32);
  }

 private:
  HCOMP_HD void set(int j, V value) {
    if constexpr (sizeof(V) == 2) {
      words.values[j / 2] |= std::uint32_t{same_bits<std::uint16_t>(value)} << 16 * (j % 2);
    } else if constexpr (sizeof(V) == 4) {
      words.values[j] = same_bits<std::uint32_t>(value);
    } else {
      auto const bits = same_bits<std::uint64_t>(value);
      words.values[2 * j] = static_cast<std::uint32_t>(bits);
      words.values[2 * j + 1] = static_cast<std::uint32_t>(bits >> 32);
    }
  }
};

/// Values 4 i to 4 i + 3 of a source that has_fours. Generic version: reads one value at a time.
template <class Source> HCOMP_HD auto four_of(Source const& x, std::size_t i) {
  using value = std::remove_cvref_t<decltype(x[i])>;
  struct singles {
    value values[4];
    HCOMP_HD value operator[](int j) const { return values[j]; }
  };
  return singles{{x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]}};
}
template <class Source> HCOMP_HD bool has_fours(Source const&) { return true; }

/// For vectors: one load.
template <Value V> HCOMP_HD four_values<V> four_of(V const* x, std::size_t i) {
  return four_values<V>::at(x + 4 * i);
}
template <Value V> HCOMP_HD bool has_fours(V const* x) { return four_values<V>::can_be_at(x); }

/// fetch_soon of `count` values.
template <class Group, class Source>
HCOMP_HD void fetch_values_soon(Group, Source const&, unsigned) {}
template <class Group, Value V>
HCOMP_HD void fetch_values_soon(Group group, V const* x, unsigned count) {
  fetch_soon(group, x, count * static_cast<unsigned>(sizeof(V)));
}

/// Four values of a `compensated` vector.
template <class T> struct four_compensated {
  four_values<T> x;
  four_values<accumulator_t<T>> compensation;
  HCOMP_HD accumulator_t<T> operator[](int j) const {
    return static_cast<accumulator_t<T>>(x[j]) + compensation[j];
  }
};
template <class T> HCOMP_HD four_compensated<T> four_of(compensated<T> const& both, std::size_t i) {
  return {four_of(both.x, i), four_of(both.compensation, i)};
}
template <class T> HCOMP_HD bool has_fours(compensated<T> const& both) {
  return has_fours(both.x) && has_fours(both.compensation);
}
template <class Group, class T>
HCOMP_HD void fetch_values_soon(Group group, compensated<T> const& both, unsigned count) {
  fetch_values_soon(group, both.x, count);
  fetch_values_soon(group, both.compensation, count);
}

}  // namespace hcomp::detail
