#pragma once
/// @file
/// INCEPTIONN: floats in 2, 10, 18 or 34 bits each, by their size. Encoded vectors have a length
/// that depends on the data.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/inceptionn_chunks.hpp>
#include <hcomp/codec/detail/inceptionn_header.hpp>
#include <hcomp/codec/detail/stream_arguments.hpp>
#include <hcomp/codec/inceptionn_options.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/simd.hpp>
#include <span>
#include <string>

namespace hcomp {

/// What a stream says of itself.
struct inceptionn_info {
  inceptionn_options options;
  std::size_t values;
  std::size_t bytes;  ///< of the stream, its header included
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
/// longer. So a stream never has more than 32 bytes and 4 bytes per chunk more than the vector.
/// inceptionn_bursts.hpp has the format of the network card.
/// Source: Y. Li et al., MICRO 2018, doi 10.1109/MICRO.2018.00023; within_bound,
/// prescale, rounding and this format are ours.
class inceptionn {
 public:
  using value_type = float;
  static constexpr char const* name = "inceptionn";
  static constexpr std::uint8_t tag = 30;
  static constexpr std::size_t chunk_values = detail::inceptionn_chunk_values;
  /// Places in a stream have 32 bits.
  static constexpr std::size_t max_values = detail::inceptionn_header::max_values;

  /// @param level  not above best_simd_level(); the bytes are the same with all
  /// @throws std::invalid_argument  a setting is out of range
  explicit inceptionn(inceptionn_options const& options = {}, simd_level level = best_simd_level())
      : options_(options), coder_{detail::rule_of(options), level} {}

  inceptionn_options const& options() const { return options_; }
  /// Bound exponent, prescale, 2 variant + rounding, and fitted.
  std::array<double, 4> parameters() const {
    auto const& o = options_;
    return {static_cast<double>(o.bound_exponent), static_cast<double>(o.prescale),
            static_cast<double>(2 * static_cast<int>(o.variant) + static_cast<int>(o.rounding)),
            o.fitted ? 1.0 : 0.0};
  }
  bool fits_calls() const { return options_.fitted; }

  /// The exponent, as floats store it, of the largest value that is finite.
  static std::uint32_t measure(std::span<float const> x) {
    std::uint32_t largest = 0;
    for (float const value : x) {
      std::uint32_t const exponent = same_bits<std::uint32_t>(value) >> 23 & 255u;
      largest = std::max(largest, exponent == 255 ? 0 : exponent);
    }
    return largest;
  }

  /// With the prescale that brings the largest value, times the square root of the ranks, to
  /// between 1/4 and 1: as sums of independent values grow. The bound 2^-E is then a share of that.
  /// @param largest  of all ranks' measure(x); 0 leaves the prescale as it is
  inceptionn fitted(std::uint32_t largest, int ranks) const {
    int const doublings = std::bit_width(static_cast<unsigned>(ranks) - 1);  // rounded up
    auto settings = options_;
    settings.fitted = false;  // it is
    if (largest > 0)
      settings.prescale =
          std::clamp(126 - static_cast<int>(largest) - (doublings + 1) / 2, -64, 64);
    return inceptionn(settings, coder_.level);
  }

  /// The most bytes that `values` values can take.
  static constexpr std::size_t capacity(std::size_t values) {
    return header_type::capacity(values);
  }

  /// Returns how many bytes it took; what is behind them in `out` may be overwritten.
  /// @throws std::invalid_argument  `out` has less than capacity(x.size()) bytes, or there are more
  ///                                than max_values
  std::size_t encode(std::span<float const> x, std::span<std::byte> out) const {
    return write("encode", x.size(), out,
                 [&](std::size_t i, std::size_t n, std::byte* at, std::size_t room) {
                   return coder_.encode(x.data() + i * chunk_values, n, at, room);
                 });
  }

  /// Reads the header alone; other bytes may follow the stream.
  /// @throws wire_error  it is none, or bytes of the stream are missing
  static inceptionn_info peek(std::span<std::byte const> in) {
    auto const header = header_type::read(in);
    return {header.options(), static_cast<std::size_t>(header.values),
            static_cast<std::size_t>(header.bytes)};
  }

  /// @throws wire_error  not a stream of x.size() values with these options, or damaged; x is
  ///                     unchanged
  void decode(std::span<std::byte const> in, std::span<float> x) const {
    check(in, x.size());
    for (std::size_t i = 0; i < detail::inceptionn_chunks(x.size()); ++i)
      take(in, chunk_of(in, i, x.size()), nullptr, x.data() + i * chunk_values);
  }

  /// sums += what `in` holds. NaNs become one NaN.
  /// @throws wire_error  as decode; sums are unchanged
  void decode_add(std::span<std::byte const> in, std::span<float> sums) const {
    check(in, sums.size());
    for (std::size_t i = 0; i < detail::inceptionn_chunks(sums.size()); ++i) {
      float* const here = sums.data() + i * chunk_values;
      take(in, chunk_of(in, i, sums.size()), here, here);
    }
  }

  /// out = x + what `in` holds, encoded: a hop of a ring, in one pass. Returns as encode.
  /// @param out  must overlap neither `in` nor x
  /// @throws wire_error             as decode; `out` is unchanged
  /// @throws std::invalid_argument  as encode
  std::size_t decode_add_encode(std::span<std::byte const> in, std::span<float const> x,
                                std::span<std::byte> out) const {
    check(in, x.size());
    return write("decode_add_encode", x.size(), out,
                 [&](std::size_t i, std::size_t n, std::byte* at, std::size_t room) {
                   float sums[chunk_values];
                   take(in, chunk_of(in, i, x.size()), x.data() + i * chunk_values, sums);
                   return coder_.encode(sums, n, at, room);
                 });
  }

  /// Checks all that decode does.
  /// @throws wire_error  not a stream of `values` values with these options, or damaged
  void check(std::span<std::byte const> in, std::size_t values) const {
    auto const header = header_type::read(in);
    header.require(options_, values);
    std::size_t const chunks = detail::inceptionn_chunks(values);
    std::size_t at = header_type::front(chunks);
    for (std::size_t i = 0; i < chunks; ++i) {
      if (i + 4 < chunks)  // tags are far apart: where the next are, processors do not guess
        for (std::size_t line = 0; line < 256; line += 64)
          detail::prefetch(in.data(), chunk_of(in, i + 4, values).begin + line);
      auto const c = chunk_of(in, i, values);
      if (c.begin != at || c.end < at || c.end > header.bytes ||
          !coder_.valid(in.data() + at, c.end - at, c.values))
        detail::inceptionn_damaged_chunk(i, c.values, {c.begin, c.end}, header.bytes);
      at = c.end;
    }
    if (at != header.bytes)
      detail::inceptionn_damaged("its chunks end at byte " + std::to_string(at) + " of " +
                                 std::to_string(header.bytes));
  }

  /// For other formats: f(n, tags, payloads) for chunk after chunk, of n values; those that are
  /// stored as floats are encoded for it.
  /// @throws wire_error  as check
  template <class F>
  void read_chunks(std::span<std::byte const> in, std::size_t values, F const& f) const {
    check(in, values);
    for (std::size_t i = 0; i < detail::inceptionn_chunks(values); ++i) {
      auto const c = chunk_of(in, i, values);
      std::byte const* coded = in.data() + c.begin;
      std::byte room[detail::inceptionn_chunk_room];
      if (c.end - c.begin == c.values * sizeof(float)) {
        float x[chunk_values];
        take(in, c, nullptr, x);
        coder_.encode_coded(x, c.values, room);
        coded = room;
      }
      f(c.values, coded, coded + detail::inceptionn_tag_bytes(c.values));
    }
  }
  /// The other way round: f(n, out) puts n tags, and the payloads right behind them, for chunk
  /// after chunk, and returns their bytes. Returns as encode.
  /// @throws std::invalid_argument  as encode
  template <class F>
  std::size_t write_chunks(std::size_t values, std::span<std::byte> out, F const& f) const {
    return write("write_chunks", values, out,
                 [&](std::size_t, std::size_t n, std::byte* at, std::size_t) {
                   std::byte coded[detail::inceptionn_chunk_room];
                   return coder_.finish(coded, f(n, coded), n, at);
                 });
  }

 private:
  using header_type = detail::inceptionn_header;

  struct chunk {
    std::size_t values;
    std::size_t begin, end;  ///< bytes of the stream
  };

  static chunk chunk_of(std::span<std::byte const> in, std::size_t i, std::size_t values) {
    std::byte const* const begins = in.data() + header_type::front(0);
    bool const last = i + 1 == detail::inceptionn_chunks(values);
    return {detail::inceptionn_values_of(i, values), load<std::uint32_t>(begins, i),
            last ? static_cast<std::size_t>(load<header_type>(in.data()).bytes)
                 : load<std::uint32_t>(begins, i + 1)};
  }
  void take(std::span<std::byte const> in, chunk const& c, float const* addend, float* out) const {
    coder_.decode(in.data() + c.begin, c.end - c.begin, in.size() - c.end, c.values, addend, out);
  }

  /// put(chunk, its values, where, bytes of room) returns how many it took.
  template <class Put>
  std::size_t write(char const* who, std::size_t values, std::span<std::byte> out,
                    Put const& put) const {
    detail::require_room<header_type>("inceptionn::", who, values, out.size());
    std::size_t const chunks = detail::inceptionn_chunks(values);
    std::size_t at = header_type::front(chunks);
    for (std::size_t i = 0; i < chunks; ++i) {
      store(out.data() + header_type::front(0), i, static_cast<std::uint32_t>(at));
      at += put(i, detail::inceptionn_values_of(i, values), out.data() + at, out.size() - at);
    }
    store(out.data(), 0, header_type::of(options_, values, at));
    return at;
  }

  inceptionn_options options_;
  detail::inceptionn_coder coder_;
};
static_assert(FittedVariableRate<inceptionn>);

}  // namespace hcomp
