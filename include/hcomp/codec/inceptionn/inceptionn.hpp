#pragma once
/// @file
/// INCEPTIONN: floats in 2, 10, 18 or 34 bits each, by their size. Encoded vectors have a length
/// that depends on the data.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/chunked_code.hpp>
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

/// What a code says of itself.
struct inceptionn_info {
  inceptionn_options options;
  std::size_t values;
  std::size_t bytes;  ///< of the code, its header included
};

/// Vectors encoded with a known largest error, for ranks that send them on hop by hop:
///
///     hcomp::inceptionn const codec({.bound_exponent = 10});
///     std::vector<std::byte> bytes(codec.capacity(x.size()));
///     bytes.resize(codec.encode(x, bytes));
///     codec.decode(bytes, y);
///
/// Magnitudes below 2^-E become 0; below 2^-floor(E/2) they get 8 bits; below 1, 16; others, NaN
/// and infinity among them, keep all their 32 bits. The sign never changes; -0 becomes 0.
/// What was decoded stays the same when it is encoded and decoded again.
/// Error of one value, `within_bound` and not prescaled: below 2^-E for those that become 0, below
/// 2^-(floor(E/2)+7) in 8 bits, below 2^-15 in 16; with rounding to nearest half of the latter two,
/// but for the largest multiples.
/// Format: 32 bytes, a table of where every chunk of 1024 values begins (4 bytes each), the chunks.
/// A chunk has 2 bits per value and then the values' bytes, or the decoded floats if that is not
/// longer. So a code never has more than 32 bytes and 4 bytes per chunk more than the vector.
/// inceptionn_bursts.hpp has the format of the network card. With several threads, or in a device's
/// memory, variable_rate_coder does the same.
/// Source: Y. Li et al., MICRO 2018, doi 10.1109/MICRO.2018.00023; within_bound,
/// prescale, rounding and this format are ours.
class inceptionn : public variable_rate_codec<inceptionn, detail::inceptionn::chunk_coder> {
 public:
  static constexpr char const* name = "inceptionn";
  static constexpr std::uint8_t codec_id = codec_ids::inceptionn;

  /// @param level  not above best_simd_level(); the bytes are the same with all
  /// @throws std::invalid_argument  a setting is out of range
  explicit inceptionn(inceptionn_options const& options = {}, simd_level level = best_simd_level())
      : options_(options), coder_{{detail::inceptionn::rule_of(options), level}} {}

  inceptionn_options const& options() const { return options_; }
  /// Bound exponent, prescale, 2 variant + rounding, and fitted.
  std::array<double, 4> parameters() const {
    auto const& o = options_;
    return {static_cast<double>(o.bound_exponent), static_cast<double>(o.prescale),
            static_cast<double>(2 * static_cast<int>(o.variant) + static_cast<int>(o.rounding)),
            o.fitted ? 1.0 : 0.0};
  }
  bool fits_calls() const { return options_.fitted; }

  /// The bits of the largest magnitude that is finite.
  static std::uint32_t measure(std::span<float const> x) { return detail::largest_magnitude(x); }

  /// With the prescale that brings the largest value, times the square root of the ranks, to
  /// between 1/4 and 1: as sums of independent values grow. The bound 2^-E is then a share of that.
  /// @param largest  of all ranks' measure(x); a denormal leaves the prescale as it is, and so does
  ///                 what no rank can have measured
  inceptionn fitted(std::uint32_t largest, int ranks) const {
    int const doublings = detail::bit_length(static_cast<unsigned>(ranks) - 1);  // rounded up
    auto settings = options_;
    settings.fitted = false;                       // it is
    std::uint32_t const exponent = largest >> 23;  // as floats store it
    if (exponent > 0 && exponent < 255)
      settings.prescale =
          std::clamp(126 - static_cast<int>(exponent) - (doublings + 1) / 2, -64, 64);
    return inceptionn(settings, coder_.by_cpu.level);
  }

  /// Reads the header alone; other bytes may follow the code.
  /// @throws wire_error  it is none, or bytes of the code are missing
  static inceptionn_info peek(std::span<std::byte const> in) {
    auto const header = detail::header_of_code<header_type>(in);
    return {header.options(), static_cast<std::size_t>(header.values),
            static_cast<std::size_t>(header.bytes)};
  }

  /// For other formats: f(n, tags, payloads) for chunk after chunk, of n values; those that are
  /// stored as floats are encoded for it.
  /// @throws wire_error  as check
  template <class F>
  void read_chunks(std::span<std::byte const> in, std::size_t values, F const& f) const {
    check(in, values);
    std::size_t const chunks = detail::chunks_of<header_type>(values);
    for (std::size_t i = 0; i < chunks; ++i) {
      std::size_t const n = detail::values_of_chunk<header_type>(i, values);
      auto const part = detail::part_of_code<header_type>(in.data(), i, chunks);
      std::byte const* coded = in.data() + part.begin;
      std::byte room[detail::inceptionn::chunk_room];
      if (part.end - part.begin == n * sizeof(float)) {
        float x[chunk_values];
        std::memcpy(x, coded, n * sizeof(float));
        coder_.by_cpu.encode_coded(x, n, room);
        coded = room;
      }
      f(n, coded, coded + detail::inceptionn::tag_bytes(n));
    }
  }
  /// The other way round: f(n, out) puts n tags, and the payloads right behind them, for chunk
  /// after chunk, and returns their bytes. Returns as encode.
  /// @throws std::invalid_argument  as encode
  template <class F>
  std::size_t write_chunks(std::size_t values, std::span<std::byte> out, F const& f) const {
    detail::require_room<inceptionn>("inceptionn::", "write_chunks", values, out.size());
    auto header = header_type::of(options_, values);
    detail::inceptionn::given_chunks<F> const given{coder_.by_cpu, f};
    typename detail::inceptionn::given_chunks<F>::note none;
    header.bytes =
        detail::encode_run(simd_group{}, given, {values}, 0, header.chunks, out.data(),
                           detail::first_chunk_at<header_type>(header.chunks), out.size(), none);
    store(out.data(), 0, header);
    return static_cast<std::size_t>(header.bytes);
  }

  // ---- What VariableRate is made of ----

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
