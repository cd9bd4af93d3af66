#pragma once
/// @file
/// Codec `inceptionn`: 2, 10, 18 or 34 bits per float, depending on its magnitude. The encoded size
/// depends on the data.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/detail/magnitudes.hpp>
#include <hcomp/codec/inceptionn/detail/chunk_coder.hpp>
#include <hcomp/codec/inceptionn/detail/chunks.hpp>
#include <hcomp/codec/inceptionn/detail/header.hpp>
#include <hcomp/codec/inceptionn/options.hpp>
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
struct inceptionn_info {
  inceptionn_options options;
  std::size_t values;
  std::size_t bytes;  ///< encoded size, header included
};

/// Codec with a known largest error per value; a reduction decodes it on every hop:
///
///     hcomp::inceptionn const codec({.bound_exponent = 10});
///     std::vector<std::byte> bytes(codec.capacity(x.size()));
///     bytes.resize(codec.encode(x, bytes));
///     codec.decode(bytes, y);
///
/// With bound exponent E, the magnitude m of a value selects its size:
///
/// - m < 2^-E: the value becomes 0
/// - m < 2^-floor(E/2): 8 bits; error below 2^-(floor(E/2)+7)
/// - m < 1: 16 bits; error below 2^-15
/// - larger, NaN and infinity: all 32 bits, exact
///
/// The errors hold for `within_bound` without prescale. Values that become 0 have an error below
/// 2^-E. Rounding to nearest halves the errors of 8 and 16 bits, except for the largest multiples.
/// The sign never changes, but -0 becomes 0. Encoding a decoded vector again does not change it.
/// variable_rate_coder runs the codec with several threads or in device memory.
///
/// Size: at most the vector, 32 bytes, and 4 bytes per chunk.
/// Format: a header of 32 bytes, the offset of each chunk of 1024 values (4 bytes each), the
/// chunks. A chunk holds 2 bits per value, then the bytes of the values. If that is not shorter, it
/// holds the decoded floats. inceptionn_bursts has the format of the network card.
/// Source: Y. Li et al., MICRO 2018, doi 10.1109/MICRO.2018.00023. within_bound, prescale, rounding
/// and this format are ours.
class inceptionn : public variable_rate_codec<inceptionn, detail::inceptionn::chunk_coder> {
 public:
  static constexpr char const* name = "inceptionn";
  static constexpr std::uint8_t codec_id = codec_ids::inceptionn;

  /// @param level  at most best_simd_level(); every level encodes the same bytes
  /// @throws std::invalid_argument  a setting is out of range
  explicit inceptionn(inceptionn_options const& options = {}, simd_level level = best_simd_level())
      : options_(options), coder_{{detail::inceptionn::rule_of(options), level}} {}

  inceptionn_options const& options() const { return options_; }
  /// Bound exponent, prescale, 2 * variant + rounding, and fitted.
  std::array<double, 4> parameters() const {
    auto const& o = options_;
    return {static_cast<double>(o.bound_exponent), static_cast<double>(o.prescale),
            static_cast<double>(2 * static_cast<int>(o.variant) + static_cast<int>(o.rounding)),
            o.fitted ? 1.0 : 0.0};
  }
  bool fits_calls() const { return options_.fitted; }

  /// Bits of the largest finite magnitude.
  static std::uint32_t measure(std::span<float const> x) { return detail::largest_magnitude(x); }

  /// The codec with a prescale that maps the largest value, times the square root of the ranks, to
  /// between 1/4 and 1. The sum of independent values grows with that square root. The bound 2^-E
  /// is then relative to this scale.
  /// @param largest  maximum of measure(x) over all ranks; the prescale stays unchanged for a
  ///                 denormal and for values that measure(x) never returns
  inceptionn fitted(std::uint32_t largest, int ranks) const {
    int const doublings = detail::bit_length(static_cast<unsigned>(ranks) - 1);  // rounded up
    auto settings = options_;
    settings.fitted = false;                       // the prescale is chosen here
    std::uint32_t const exponent = largest >> 23;  // biased
    if (exponent > 0 && exponent < 255)
      settings.prescale =
          std::clamp(126 - static_cast<int>(exponent) - (doublings + 1) / 2, -64, 64);
    return inceptionn(settings, coder_.by_cpu.level);
  }

  /// Reads only the header; `in` may be longer than the encoded vector.
  /// @throws wire_error  not a header of this codec, or bytes are missing
  static inceptionn_info peek(std::span<std::byte const> in) {
    auto const header = detail::header_of_encoded<header_type>(in);
    return {header.options(), static_cast<std::size_t>(header.values),
            static_cast<std::size_t>(header.bytes)};
  }

  /// Conversion to other formats: calls f(n, tags, payloads) for each chunk of n values, in order.
  /// Chunks stored as floats are encoded first.
  /// @throws wire_error  as check
  template <class F>
  void read_chunks(std::span<std::byte const> in, std::size_t values, F const& f) const {
    check(in, values);
    std::size_t const chunks = detail::chunks_of<header_type>(values);
    for (std::size_t i = 0; i < chunks; ++i) {
      std::size_t const n = detail::values_of_chunk<header_type>(i, values);
      auto const part = detail::part_of_encoded<header_type>(in.data(), i, chunks);
      std::byte const* coded = in.data() + part.begin;
      std::byte local[detail::inceptionn::chunk_capacity];
      if (part.end - part.begin == n * sizeof(float)) {
        float x[chunk_values];
        std::memcpy(x, coded, n * sizeof(float));
        coder_.by_cpu.encode_coded(x, n, local);
        coded = local;
      }
      f(n, coded, coded + detail::inceptionn::tag_bytes(n));
    }
  }
  /// Conversion from other formats: calls f(n, out) for each chunk of n values, in order. f writes
  /// n tags and then the payloads, and returns their bytes. Returns the encoded size.
  /// @throws std::invalid_argument  as encode
  template <class F>
  std::size_t write_chunks(std::size_t values, std::span<std::byte> out, F const& f) const {
    detail::require_capacity<inceptionn>("inceptionn", "write_chunks", values, out.size());
    auto header = header_type::of(options_, values);
    detail::inceptionn::given_chunks<F> const given{coder_.by_cpu, f};
    typename detail::inceptionn::given_chunks<F>::note none;
    header.bytes =
        detail::encode_run(simd_group{}, given, {values}, 0, header.chunks, out.data(),
                           detail::first_chunk_at<header_type>(header.chunks), out.size(), none);
    store(out.data(), 0, header);
    return static_cast<std::size_t>(header.bytes);
  }

  // ---- Members that VariableRate requires ----

  using measure_work = detail::measure_magnitudes<float, chunk_values>;

  coder_type const& coder() const { return coder_; }
  static std::size_t bytes_of(coder_type::outcome const& made) {
    return static_cast<std::size_t>(made.bytes);
  }

 private:
  inceptionn_options options_;
  coder_type coder_;
};
static_assert(FittedVariableRate<inceptionn>);

}  // namespace hcomp
