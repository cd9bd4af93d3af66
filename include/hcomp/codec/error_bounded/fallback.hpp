#pragma once
/// @file
/// Sums of doubles with a bound, and of floats for bounds close to their precision: what plans of
/// error_bounded add by where values are too large for its integers.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_coder.hpp>
#include <hcomp/codec/error_bounded/options.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/codec/variable_rate_codec.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/error.hpp>
#include <span>
#include <string>

namespace hcomp {

/// Vectors encoded for sums of values of any size: whenever the float next to the exact sum is
/// within the bound of it, so is the answer. Of doubles that is so up to 2^43 times the bound;
/// larger answers are off by the bound and one rounding to double at most. `error_of` says how far
/// off any value is at most, exactly but for roundings to steps.
///
/// A value becomes a multiple of a step, a power of two: of floats 2^-2 to 2^-20 of the bound
/// divided by the ranks, of doubles 1 to 2 times that. It has as many bits as its block of 32
/// needs, up to 63; where up to 8 values are not 0, these alone, if that is shorter. Sums add the
/// integers. Values that need more than 62 bits, less one for each power of two ranks, NaN and
/// infinity are doubles, and added as such. Two exceptions, which `error_of` tells: sums with
/// doubles that lose bits beyond the 53 they have; and a bound of floats that is a power of two, or
/// up to 2^-20 of it more, may be exceeded by 2^-20 of it.
/// Format: 56 bytes, a table of where every chunk of 1024 values begins (4 bytes each), the chunks.
template <class T = float>
  requires std::same_as<T, float> || std::same_as<T, double>
class error_bounded_fallback
    : public merging_variable_rate_codec<error_bounded_fallback<T>,
                                         detail::error_bounded::fallback_coder<T>> {
 public:
  using coder_type = detail::error_bounded::fallback_coder<T>;
  static constexpr char const* name =
      std::same_as<T, float> ? "error_bounded_fallback" : "error_bounded";
  static constexpr std::uint8_t codec_id =
      std::same_as<T, float> ? codec_ids::error_bounded_fallback : codec_ids::error_bounded_double;

  /// @throws std::invalid_argument  a setting is out of range
  explicit error_bounded_fallback(error_bounded_options const& options = {})
      : options_(options), coder_{detail::error_bounded::fallback_grid<T>(possible(options))} {}

  error_bounded_options const& options() const { return options_; }
  std::array<double, 4> parameters() const {
    return detail::error_bounded::parameters_of(options_);
  }
  /// The same bound for the sum of so many ranks.
  /// @throws std::invalid_argument  they are too many, or each one's share too small
  error_bounded_fallback fitted(std::uint32_t ranks) const {
    auto options = options_;
    options.ranks = ranks;
    return error_bounded_fallback(options);
  }
  /// What the integers are multiples of.
  double step() const { return coder_.grid.step; }
  /// How far any value is off at most, its rounding included.
  /// @param parts  that values are divided by; 0: they are not
  /// @throws wire_error  it is no code, or bytes of it are missing
  double error_of(std::span<std::byte const> in, int parts = 0) const {
    auto const front = detail::header_of_code<typename coder_type::header>(in);
    double const error = front.largest_error();
    if (parts == 0) return error;
    return (error + detail::error_bounded::rounding_of_quotient<T>(front.largest.value())) / parts;
  }

  // ---- What VariableRate is made of ----

  coder_type const& coder() const { return coder_; }
  /// @throws wire_error  there is no code: see merge
  std::size_t bytes_of(typename coder_type::outcome const& made) const {
    auto const& weights = made.weights;
    std::uint32_t const ranks = weights[0] + weights[1];
    if (ranks > options_.ranks)
      detail::error_bounded::refuse_ranks(weights[0], weights[1], options_.ranks);
    if (made.is_beyond != 0)
      detail::error_bounded::refuse_damaged("a sum of more steps than " + std::to_string(ranks) +
                                            " ranks can have");
    return static_cast<std::size_t>(made.bytes);
  }

 private:
  static error_bounded_options const& possible(error_bounded_options const& options) {
    detail::error_bounded::require_possible<T>(options);
    return options;
  }

  error_bounded_options options_;
  coder_type coder_;
};

static_assert(MergingVariableRate<error_bounded_fallback<float>>);
static_assert(MergingVariableRate<error_bounded_fallback<double>>);

}  // namespace hcomp
