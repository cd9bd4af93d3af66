#pragma once
/// @file
/// A user's codec with its registry entry.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/extend.hpp>

namespace outside {

/// Multiples of a step in 32-bit integers, whose sums are exact.
/// Error of one value: half a step, up to 2^20 steps. NaN becomes 0, and larger values saturate.
template <class T = float> struct steps {
  using value_type = T;
  static constexpr char const* name = "steps";
  static constexpr std::uint8_t codec_id = 250;
  static constexpr int block_values = 1024;
  static constexpr bool sum_is_exact = true;
  static constexpr bool passes_nonfinite = false;

  double step = 1e-3;

  std::array<double, 1> parameters() const { return {step}; }
  static constexpr std::size_t block_bytes(int n = block_values) {
    return hcomp::block_header_bytes + static_cast<std::size_t>(n) * sizeof(std::int32_t);
  }
  static constexpr std::uint32_t max_summands() { return 2047; }

  template <class Group, class Source>
  void encode_block(Group group, Source const& x, int n, std::byte* block,
                    hcomp::block_origin const& origin) const {
    bool finite = true;
    double const most = (1 << 20) * static_cast<double>(origin.weight);
    for (int i = group.worker(); i < n; i += Group::workers) {
      double const value = static_cast<double>(x[i]) * origin.weight;
      finite &= std::isfinite(value);
      double const whole = std::clamp(std::nearbyint(value / step), -most, most);
      put(block, i, std::isnan(value) ? 0 : static_cast<std::int32_t>(whole));
    }
    bool const nonfinite = group.any(!finite);
    if (group.worker() == 0)
      hcomp::store_aligned(block, 0, hcomp::make_header(codec_id, n, nonfinite, origin));
    group.sync();
  }
  template <class Group> void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    hcomp::merge_checked<steps>(group, acc, in, max_summands(), [&](auto const& mine, auto const&) {
      for (int i = group.worker(); i < mine.values; i += Group::workers)
        put(acc, i, get(acc, i) + get(in, i));
    });
  }
  template <class Group, class Out>
  void decode_block(Group group, std::byte const* block, int n, Out* x, hcomp::reduce_op r) const {
    double const weight = hcomp::load_aligned<hcomp::block_header>(block).weight;
    for (int i = group.worker(); i < n; i += Group::workers)
      x[i] = static_cast<Out>(get(block, i) * step / (r == hcomp::reduce_op::mean ? weight : 1));
    group.sync();
  }

 private:
  static std::int32_t get(std::byte const* block, int i) {
    return hcomp::load_aligned<std::int32_t>(block + hcomp::block_header_bytes,
                                             static_cast<std::size_t>(i));
  }
  static void put(std::byte* block, int i, std::int32_t value) {
    hcomp::store_aligned(block + hcomp::block_header_bytes, static_cast<std::size_t>(i), value);
  }
};

/// "steps:0.01" or "steps:step=0.01".
template <class T> hcomp::codec_entry<T> steps_row() {
  return hcomp::make_codec_entry<steps<T>>(
      {.name = "steps",
       .about = "4 bytes a value; multiples of a step, summed exactly",
       .keys = {{"step", hcomp::codec_key::kind::real, 1e-6, 1, 1e-3, "between two values"}},
       .promise = hcomp::accuracy_class::error_bounded,
       .largest_error =
           [](hcomp::codec_settings const& s, hcomp::summed_value const& v) {
             return v.ranks * s["step"] / 2 + v.magnitude * 0x1p-23;  // and a rounding to float
           }},
      [](hcomp::codec_settings const& s) { return steps<T>{s["step"]}; });
}

}  // namespace outside
