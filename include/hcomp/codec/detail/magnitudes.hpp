#pragma once
/// @file
/// The largest magnitude of a vector, as measured by codecs that are fitted to it.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <span>
#include <type_traits>

namespace hcomp::detail {

/// |value| as a 31-bit integer with the same order: all bits of a float, the upper half of a
/// double. 0 for NaN and infinity. Signed, because the vectors of every CPU compare signed
/// integers.
HCOMP_HD inline std::int32_t magnitude_bits(float value) {
  std::int32_t const bits = same_bits<std::int32_t>(value) & 0x7fffffff;
  return bits < 0x7f800000 ? bits : 0;
}
HCOMP_HD inline std::int32_t magnitude_bits(double value) {
  auto const bits = static_cast<std::int32_t>(same_bits<std::uint64_t>(value) >> 32) & 0x7fffffff;
  return bits < 0x7ff00000 ? bits : 0;
}
/// The smallest magnitude with these bits, or 0 if no value has them, as in damaged messages.
template <class T> double magnitude_of(std::uint32_t bits) {
  double value;
  if constexpr (std::is_same_v<T, float>)
    value = static_cast<double>(same_bits<float>(bits));
  else
    value = same_bits<double>(std::uint64_t{bits} << 32);
  return is_finite(value) && value > 0 ? value : 0;
}

/// The maximum over this worker's values among n.
template <class Group, class T>
HCOMP_HD std::uint32_t largest_magnitude(Group group, T const* x, std::size_t n) {
  std::int32_t largest = 0;
  for (auto i = static_cast<std::size_t>(group.worker()); i < n; i += Group::workers) {
    std::int32_t const bits = magnitude_bits(x[i]);
    largest = bits > largest ? bits : largest;
  }
  return static_cast<std::uint32_t>(largest);
}
/// The measure of FittedVariableRate codecs.
template <class T> std::uint32_t largest_magnitude(std::span<T const> x) {
  return largest_magnitude(serial_group{}, x.data(), x.size());
}

/// largest_magnitude for each block of `chunks` chunks; see FittedVariableRate.
template <class T, std::size_t ChunkValues> struct measure_magnitudes {
  std::size_t values, chunks;  ///< number of values in total, and of chunks per block
  T const* x;
  std::uint32_t* found;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t block) const {
    std::size_t const most = chunks * ChunkValues, first = block * most, left = values - first;
    std::uint32_t const mine = largest_magnitude(group, x + first, left < most ? left : most);
    std::uint32_t const largest = largest_in(group, mine, 31);
    if (group.worker() == 0) found[block] = largest;
  }
};

}  // namespace hcomp::detail
