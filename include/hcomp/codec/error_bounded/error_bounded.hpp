#pragma once
/// @file
/// Sums whose largest error the caller states: floats become integers, which are added exactly
/// without decoding. Encoded vectors have a length that depends on the data.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_code.hpp>
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

/// What a code says of itself.
struct error_bounded_info {
  error_bounded_options options;
  std::size_t values;
  std::size_t bytes;     ///< of the code, its header included
  std::uint32_t weight;  ///< ranks that it is the sum of
  /// How far any value is off at most, the rounding of the answer to float included. At most the
  /// bound, unless there are floats among the values.
  double error;
  /// Additions that were made on floats, with their rounding.
  std::uint64_t float_additions;
  /// A value of some rank was too large for integers and stayed a float, or was not finite.
  bool has_floats;
};

/// Vectors encoded for sums that are off by no more than a stated bound, whatever the number of
/// ranks:
///
///     hcomp::error_bounded const codec({.bound = 1e-4, .ranks = 4});
///     std::vector<std::byte> bytes(codec.capacity(x.size()));
///     bytes.resize(codec.encode(x, bytes));
///     sum.resize(codec.merge(bytes, of_another_rank, sum));  // no float is made on the way
///     codec.decode(sum, y);
///
/// A value becomes a multiple of a step, somewhat less than twice the bound divided by the ranks;
/// sums add the integers, so they are the same bytes in whatever order the ranks are summed.
/// Error of a value: at most `bound`, after the last rounding to float too, in sums of up to
/// `ranks` ranks; -0 becomes 0. That is for values up to 2^magnitude_bits steps. Larger ones, for
/// which the bound comes close to the precision of floats, NaN and infinity stay floats, alone and
/// without any effect on their neighbours: such a value is exact from one rank, and rounded to
/// float whenever something is added to it, in the order of the additions. Then the bound may not
/// hold: `error_bounded_info::has_floats` says that there are any, and `error` how far values are
/// off. Codes of other options are refused, and so are sums of more than `ranks` ranks: wire_error.
/// A bound can be a share of the largest value of all ranks:
///
///     hcomp::error_bounded const codec({.bound = 1e-6, .relative = true});
///
/// In a plan the bound holds for values of all sizes, by every algorithm: whenever the float next
/// to the exact sum is within the bound of it, so is the answer. The plan divides the bound by its
/// ranks. Where a value of some rank stayed a float, all ranks sum again, by error_bounded_fallback.
/// With several threads, or in a device's memory, variable_rate_coder does the same. Format: 56
/// bytes, a table of where every chunk of 4096 values begins (4 bytes each), the chunks. A chunk
/// has the integer before its first, a byte for each 32 values, and these: as bits of the integers,
/// or of their differences, or only of those that are not 0, whichever is shortest; or 32 bits per
/// value if there are floats among them. So a code never has more than 65 bytes and 0.84 % more
/// than the vector. Source: integers that are added without decoding, in blocks of their own width,
/// after J. Huang et al., hZCCL, SC 2024; the division of the bound, its derivation and this format
/// are ours.
template <class T = float> class error_bounded;

template <>
class error_bounded<float>
    : public merging_variable_rate_codec<error_bounded<float>, detail::error_bounded::chunk_coder> {
 public:
  static constexpr char const* name = "error_bounded";
  static constexpr std::uint8_t codec_id = codec_ids::error_bounded;

  /// @param level  not above best_simd_level(); the bytes are the same with all
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
  /// The same bound for the sum of so many ranks.
  /// @throws std::invalid_argument  they are too many, or each one's share too small
  error_bounded fitted(std::uint32_t ranks) const {
    auto options = options_;
    options.ranks = ranks;
    return error_bounded(options, coder_.by_cpu.level);
  }
  /// A share of the largest value, if that is relative.
  double bound() const { return options_.bound; }

  bool fits_calls() const { return options_.relative; }
  /// The bits of the largest magnitude that is finite.
  static std::uint32_t measure(std::span<float const> x) { return detail::largest_magnitude(x); }
  /// With a relative bound that has become a number.
  /// @param largest  of all ranks' measure(x)
  error_bounded fitted(std::uint32_t largest, int ranks) const {
    return error_bounded(detail::error_bounded::fitted_options<float>(
                             options_, largest, static_cast<std::uint32_t>(ranks)),
                         coder_.by_cpu.level);
  }
  /// The largest value stays a float.
  bool needs_fallback_for(std::uint32_t largest) const {
    return needs_fallback(static_cast<float>(detail::magnitude_of<float>(largest)));
  }
  /// What the integers are multiples of.
  double step() const { return coder_.by_cpu.grid.step; }

  /// Reads the header alone; other bytes may follow the code.
  /// @throws wire_error  it is none, or bytes of the code are missing
  static error_bounded_info peek(std::span<std::byte const> in) {
    auto const header = detail::header_of_code<header_type>(in);
    error_bounded_options const options = header.options();
    return {options,
            header.values,
            header.bytes,
            header.weight,
            header.largest_error_of(detail::error_bounded::grid_of(options)),
            header.float_additions,
            header.has_floats != 0};
  }

  /// error_bounded_info::error, of a code of these options.
  /// @param parts  that values are divided by, with another rounding to float; 0: they are not
  /// @throws wire_error  as peek
  double error_of(std::span<std::byte const> in, int parts = 0) const {
    auto const header = detail::header_of_code<header_type>(in);
    auto const& grid = coder_.by_cpu.grid;
    double const error = header.largest_error_of(grid);
    if (parts == 0) return error;
    double const largest = header.largest_of(grid) + error;
    return (error + detail::error_bounded::rounding_of_quotient<float>(largest)) / parts;
  }

  using fallback_type = error_bounded_fallback<float>;
  /// For sums that keep the bound where this codec's cannot.
  fallback_type fallback() const { return fallback_type(options_); }
  /// A value that stays a float.
  bool needs_fallback(float value) const {
    return detail::error_bounded::nearest_integer(coder_.by_cpu.grid, value) ==
           detail::error_bounded::no_integer;
  }
  /// The bound may not hold for a code: error_bounded_info::has_floats.
  /// @throws wire_error  as peek
  static bool needs_fallback(std::span<std::byte const> in) {
    return detail::header_of_code<header_type>(in).has_floats != 0;
  }

  // ---- What VariableRate is made of ----

  using measure_work = detail::measure_magnitudes<float, chunk_values>;

  coder_type const& coder() const { return coder_; }
  /// @throws wire_error  there is no code: see merge
  std::size_t bytes_of(coder_type::outcome const& made) const {
    using enum detail::error_bounded::code_fault;
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

/// The same for doubles, whatever their size: codes are those of error_bounded_fallback, in plans too.
/// `magnitude_bits` is not looked at.
template <> class error_bounded<double> : public error_bounded_fallback<double> {
 public:
  using error_bounded_fallback::error_bounded_fallback;

  /// The same bound for the sum of so many ranks.
  /// @throws std::invalid_argument  they are too many, or each one's share too small
  error_bounded fitted(std::uint32_t ranks) const {
    auto options = this->options();
    options.ranks = ranks;
    return error_bounded(options);
  }
  double bound() const { return options().bound; }

  using measure_work = detail::measure_magnitudes<double, chunk_values>;
  bool fits_calls() const { return options().relative; }
  /// The upper halves of their bits.
  static std::uint32_t measure(std::span<double const> x) { return detail::largest_magnitude(x); }
  error_bounded fitted(std::uint32_t largest, int ranks) const {
    return error_bounded(detail::error_bounded::fitted_options<double>(
        options(), largest, static_cast<std::uint32_t>(ranks)));
  }
  static bool needs_fallback_for(std::uint32_t) { return false; }

  using fallback_type = error_bounded_fallback<double>;
  fallback_type fallback() const { return *this; }
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
