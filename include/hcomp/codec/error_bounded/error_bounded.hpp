#pragma once
/// @file
/// Codec `error_bounded`: the caller states the largest error of a sum. Floats become integers that
/// add exactly without decoding. The encoded size depends on the data.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/detail/magnitudes.hpp>
#include <hcomp/codec/error_bounded/detail/chunk_coder.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/detail/header.hpp>
#include <hcomp/codec/error_bounded/detail/simd.hpp>
#include <hcomp/codec/error_bounded/fallback.hpp>
#include <hcomp/codec/error_bounded/options.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/codec/variable_rate_codec.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/simd.hpp>
#include <span>
#include <string>

namespace hcomp {

/// Contents of the header of an encoded vector.
struct error_bounded_info {
  error_bounded_options options;
  std::size_t values;
  std::size_t bytes;     ///< encoded size, header included
  std::uint32_t weight;  ///< number of ranks already summed
  /// Largest possible error of a value, the rounding of the result to float included. At most the
  /// bound if `has_floats` is false.
  double error;
  /// Number of additions in float arithmetic, each with a rounding error.
  std::uint64_t float_additions;
  /// True if a value of some rank stayed a float: too large for the integers, or not finite.
  bool has_floats;
};

/// Error-bounded codec: the sum of up to `ranks` ranks is within `bound` of the exact sum.
///
///     hcomp::error_bounded const codec({.bound = 1e-4, .ranks = 4});
///     std::vector<std::byte> bytes(codec.capacity(x.size()));
///     bytes.resize(codec.encode(x, bytes));
///     sum.resize(codec.merge(bytes, of_another_rank, sum));  // adds without decoding
///     codec.decode(sum, y);
///
/// Encoding rounds each value to a multiple of a step. The step is somewhat less than twice the
/// bound divided by `ranks`. Merging adds the integers exactly, so the merged bytes do not depend
/// on the order of the ranks. A vector with other options or a sum of more than `ranks` ranks is a
/// wire_error. variable_rate_coder runs the codec with several threads or in device memory.
///
/// Error of a value: at most `bound`, the last rounding to float included, for a sum of up to
/// `ranks` ranks. -0 becomes 0. This holds for values up to 2^magnitude_bits steps.
///
/// Larger values, NaN and infinity stay floats and do not affect their neighbours. For such large
/// values the bound is close to the precision of float. A value that stays a float is exact if it
/// comes from one rank. Every addition to it rounds to float, so the result depends on the order of
/// the additions and may exceed the bound. `error_bounded_info::has_floats` reports such values and
/// `error_bounded_info::error` the largest error.
///
/// A relative bound is a fraction of the largest finite magnitude of all ranks:
///
///     hcomp::error_bounded const codec({.bound = 1e-6, .relative = true});
///
/// A plan keeps the bound for values of any size and with every algorithm: if the float nearest to
/// the exact sum is within the bound, so is the result. The plan divides the bound by its number of
/// ranks. If a value of some rank stayed a float, all ranks repeat the reduction with
/// error_bounded_fallback.
///
/// Size: at most 65 bytes and 0.84 % more than the vector.
///
/// Format: a header of 56 bytes, the offset of each chunk of 4096 values (4 bytes each), the
/// chunks. A chunk holds the integer before its first value, one byte per block of 32 values, and
/// the blocks. The shortest form of a block is used: the bits of the integers, the bits of their
/// differences, or only the nonzero integers. A block with floats has 32 bits per value.
///
/// Source: addition without decoding and blocks with their own bit width after J. Huang et al.,
/// hZCCL, SC 2024. The division of the bound, its derivation and this format are ours.
template <class T = float> class error_bounded;

template <>
class error_bounded<float>
    : public merging_variable_rate_codec<error_bounded<float>, detail::error_bounded::chunk_coder> {
 public:
  static constexpr char const* name = "error_bounded";
  static constexpr std::uint8_t codec_id = codec_ids::error_bounded;

  /// @param level  at most best_simd_level(); every level encodes the same bytes
  /// @throws std::invalid_argument  a setting is out of range
  explicit error_bounded(error_bounded_options const& options = {},
                         simd_level level = best_simd_level())
      : options_(options),
        coder_{{detail::error_bounded::grid_of(options), detail::error_bounded::kernels_at(level),
                level}} {}

  error_bounded_options const& options() const { return options_; }
  std::array<double, 4> parameters() const {
    return detail::error_bounded::parameters_of(options_);
  }
  /// The codec with the same bound for the sum of `ranks` ranks.
  /// @throws std::invalid_argument  too many ranks, or the bound of one rank is too small
  error_bounded fitted(std::uint32_t ranks) const {
    auto options = options_;
    options.ranks = ranks;
    return error_bounded(options, coder_.by_cpu.level);
  }
  /// The bound; if `relative`, a fraction of the largest value.
  double bound() const { return options_.bound; }

  bool fits_calls() const { return options_.relative; }
  /// Bits of the largest finite magnitude.
  static std::uint32_t measure(std::span<float const> x) { return detail::largest_magnitude(x); }
  /// The codec for the sum of `ranks` ranks; an absolute bound replaces a relative one.
  /// @param largest  maximum of measure(x) over all ranks
  error_bounded fitted(std::uint32_t largest, int ranks) const {
    return error_bounded(detail::error_bounded::fitted_options<float>(
                             options_, largest, static_cast<std::uint32_t>(ranks)),
                         coder_.by_cpu.level);
  }
  /// True if the largest value stays a float.
  bool needs_fallback_for(std::uint32_t largest) const {
    return needs_fallback(static_cast<float>(detail::magnitude_of<float>(largest)));
  }
  /// Quantization step: the value of integer 1.
  double step() const { return coder_.by_cpu.grid.step; }

  /// Reads only the header; `in` may be longer than the encoded vector.
  /// @throws wire_error  not a header of this codec, or bytes are missing
  static error_bounded_info peek(std::span<std::byte const> in) {
    auto const header = detail::header_of_encoded<header_type>(in);
    error_bounded_options const options = header.options();
    return {options,
            header.values,
            header.bytes,
            header.weight,
            header.largest_error_of(detail::error_bounded::grid_of(options)),
            header.float_additions,
            header.has_floats != 0};
  }

  /// error_bounded_info::error of a vector encoded with these options.
  /// @param parts  divisor of the decoded values; 0: no division
  /// @throws wire_error  as peek
  double error_of(std::span<std::byte const> in, int parts = 0) const {
    auto const header = detail::header_of_encoded<header_type>(in);
    auto const& grid = coder_.by_cpu.grid;
    double const error = header.largest_error_of(grid);
    if (parts == 0) return error;
    if (header.has_floats == 0) return std::min(error * 0x1.001p0, options_.bound) / parts;
    double const largest = (header.largest_of(grid) + error) / parts;
    return error / parts + detail::error_bounded::rounding_to<float>(largest);
  }

  using fallback_type = error_bounded_fallback<float>;
  /// Codec that keeps the bound for values that are too large for this codec.
  /// @param mean  for means of all ranks
  fallback_type fallback(bool mean = false) const {
    return fallback_type(mean ? detail::error_bounded::options_of_means<float>(options_)
                              : options_);
  }
  /// True if the value stays a float.
  bool needs_fallback(float value) const {
    return detail::error_bounded::nearest_integer(coder_.by_cpu.grid, value) ==
           detail::error_bounded::no_integer;
  }
  /// True if the encoded vector may exceed the bound: error_bounded_info::has_floats.
  /// @throws wire_error  as peek
  static bool needs_fallback(std::span<std::byte const> in) {
    return detail::header_of_encoded<header_type>(in).has_floats != 0;
  }

  // ---- Members that VariableRate requires ----

  using measure_work = detail::measure_magnitudes<float, chunk_values>;

  coder_type const& coder() const { return coder_; }
  /// @throws wire_error  the vector could not be encoded: see merge
  std::size_t bytes_of(coder_type::outcome const& made) const {
    using enum detail::error_bounded::encoded_fault;
    auto const& weights = made.weights;
    switch (made.fault) {
      case none: break;
      case impossible: detail::error_bounded::refuse_impossible(made.impossible);
      case range:
        detail::error_bounded::sum_range(coder_.by_cpu.grid, weights[0] + weights[1]).refuse();
      case ranks: detail::error_bounded::refuse_ranks(weights[0], weights[1], options_.ranks);
    }
    return static_cast<std::size_t>(made.bytes);
  }

 private:
  error_bounded_options options_;
  coder_type coder_;
};

/// Error-bounded codec for doubles of any magnitude: encodes as error_bounded_fallback, in plans
/// too. It ignores `magnitude_bits`.
template <> class error_bounded<double> : public error_bounded_fallback<double> {
 public:
  using error_bounded_fallback::error_bounded_fallback;

  /// The codec with the same bound for the sum of `ranks` ranks.
  /// @throws std::invalid_argument  too many ranks, or the bound of one rank is too small
  error_bounded fitted(std::uint32_t ranks) const {
    auto options = this->options();
    options.ranks = ranks;
    return error_bounded(options);
  }
  double bound() const { return options().bound; }

  using measure_work = detail::measure_magnitudes<double, chunk_values>;
  bool fits_calls() const { return options().relative; }
  /// Upper 32 bits of the largest finite magnitude.
  static std::uint32_t measure(std::span<double const> x) { return detail::largest_magnitude(x); }
  error_bounded fitted(std::uint32_t largest, int ranks) const {
    return error_bounded(detail::error_bounded::fitted_options<double>(
        options(), largest, static_cast<std::uint32_t>(ranks)));
  }
  static bool needs_fallback_for(std::uint32_t) { return false; }

  using fallback_type = error_bounded_fallback<double>;
  fallback_type fallback(bool /*mean*/ = false) const { return *this; }
  static bool needs_fallback(double) { return false; }
  static bool needs_fallback(std::span<std::byte const>) { return false; }
};

error_bounded()->error_bounded<float>;
explicit error_bounded(error_bounded_options const&)->error_bounded<float>;
error_bounded(error_bounded_options const&, simd_level)->error_bounded<float>;

static_assert(BoundedVariableRate<error_bounded<float>>);
static_assert(BoundedVariableRate<error_bounded<double>>);
static_assert(FittedVariableRate<error_bounded<float>>);
static_assert(FittedVariableRate<error_bounded<double>>);

}  // namespace hcomp
