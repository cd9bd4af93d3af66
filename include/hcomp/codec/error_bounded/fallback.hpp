#pragma once
/// @file
/// Codec `error_bounded_fallback`: error-bounded sums of doubles, and of floats whose precision is
/// close to the bound. Plans of error_bounded use it if values are too large for error_bounded.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_coder.hpp>
#include <hcomp/codec/error_bounded/options.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/codec/variable_rate_codec.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/error.hpp>
#include <span>
#include <string>

namespace hcomp {

/// Error-bounded codec for values of any magnitude: if the float nearest to the exact sum is within
/// the bound, so is the result.
///
/// For doubles this holds for results up to 2^43 times the bound. Larger results are off by at most
/// the bound and one rounding to double. `error_of` returns the largest error of any value. It is
/// exact except for roundings to steps.
///
/// Encoding rounds each value to a multiple of a step, which is a power of two. For floats the step
/// is 2^-2 to 2^-20 of the bound divided by the ranks, for doubles 1 to 2 times that quotient.
/// Merging adds the integers. NaN, infinity and integers of more than 62 - log2(ranks) bits, the
/// logarithm rounded up, become doubles and add as doubles.
///
/// Two exceptions to the bound, both included in `error_of`: additions of doubles lose bits beyond
/// 53. A bound of floats that is a power of two, or up to 2^-20 of itself larger, may be exceeded
/// by 2^-20 of the bound.
///
/// Format: a header of 56 bytes, the offset of each chunk of 1024 values (4 bytes each), the
/// chunks. All integers of a block of 32 have the same number of bits, at most 63. A block with up
/// to 8 nonzero values stores only these if that is shorter.
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
  /// The codec with the same bound for the sum of `ranks` ranks.
  /// @throws std::invalid_argument  too many ranks, or the bound of one rank is too small
  error_bounded_fallback fitted(std::uint32_t ranks) const {
    auto options = options_;
    options.ranks = ranks;
    return error_bounded_fallback(options);
  }
  /// Quantization step: the value of integer 1.
  double step() const { return coder_.grid.step; }
  /// Largest possible error of a value, the rounding of the result included.
  /// @param parts  divisor of the decoded values; 0: no division
  /// @throws wire_error  not an encoded vector, or bytes are missing
  double error_of(std::span<std::byte const> in, int parts = 0) const {
    auto const front = detail::header_of_encoded<typename coder_type::header>(in);
    if (parts == 0) return front.largest_error();
    double const largest = (front.largest.value() + front.rounding.value()) / parts;
    return front.error / parts + detail::error_bounded::rounding_to<T>(largest);
  }

  // ---- Members that VariableRate requires ----

  coder_type const& coder() const { return coder_; }
  /// @throws wire_error  the vector could not be encoded: see merge
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
