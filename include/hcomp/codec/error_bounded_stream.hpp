#pragma once
/// @file
/// Sums whose largest error the caller states: floats become integers, which are added exactly
/// without decoding. Encoded vectors have a length that depends on the data.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/error_bounded_chunks.hpp>
#include <hcomp/codec/detail/error_bounded_header.hpp>
#include <hcomp/codec/detail/error_bounded_simd.hpp>
#include <hcomp/codec/detail/stream_arguments.hpp>
#include <hcomp/codec/error_bounded_options.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/simd.hpp>
#include <span>
#include <string>

namespace hcomp {

/// What a stream says of itself.
struct error_bounded_info {
  error_bounded_options options;
  std::size_t values;
  std::size_t bytes;     ///< of the stream, its header included
  std::uint32_t weight;  ///< ranks that it is the sum of
  /// What rounding to integers has changed any value at most, by what the ranks saw of it: at most
  /// the bound. The rounding of the answer to float is not in it.
  double error;
  /// Additions that were made on floats, with their rounding. While this is 0, the bound holds for
  /// every value.
  std::uint64_t float_additions;
};

/// Vectors encoded for sums that are off by no more than a stated bound, whatever the number of
/// ranks:
///
///     hcomp::error_bounded_stream const codec({.bound = 1e-4, .ranks = 4});
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
/// float whenever something is added to it, in the order of the additions.
/// `error_bounded_info::float_additions` says whether there were any.
/// In a plan this holds for every algorithm, and the plan divides the bound by its ranks.
/// For vectors in a device's memory there is error_bounded_streams.
/// Format: 56 bytes, a table of where every chunk of 4096 values begins (4 bytes each), the chunks.
/// A chunk has the integer before its first, a byte for each 32 values, and these: as bits of the
/// integers, or of their differences, or only of those that are not 0, whichever is shortest; or 32
/// bits per value if there are floats among them. So a stream never has more than 65 bytes and 0.84
/// % more than the vector.
/// Source: integers that are added without decoding, in blocks of their own width, after J. Huang
/// et al., hZCCL, SC 2024; the division of the bound, its derivation and this format are ours.
class error_bounded_stream {
 public:
  using value_type = float;
  static constexpr char const* name = "error_bounded_stream";
  static constexpr std::uint8_t tag = 28;
  static constexpr std::size_t chunk_values = detail::error_bounded_chunk_values;
  /// Places in a stream have 32 bits.
  static constexpr std::size_t max_values = detail::error_bounded_header::max_values;

  /// @param level  not above best_simd_level(); the bytes are the same with all
  /// @throws std::invalid_argument  a setting is out of range
  explicit error_bounded_stream(error_bounded_options const& options = {},
                                simd_level level = best_simd_level())
      : options_(options),
        coder_{detail::grid_of(options), detail::error_bounded_kernels_at(level), level} {}

  error_bounded_options const& options() const { return options_; }
  std::array<double, 3> parameters() const {
    return {options_.bound, static_cast<double>(options_.ranks),
            static_cast<double>(options_.magnitude_bits)};
  }
  /// The same bound for the sum of so many ranks.
  /// @throws std::invalid_argument  they are too many, or each one's share too small
  error_bounded_stream fitted(std::uint32_t ranks) const {
    auto options = options_;
    options.ranks = ranks;
    return error_bounded_stream(options, coder_.level);
  }
  /// What the integers are multiples of.
  double step() const { return coder_.grid.step; }

  /// The most bytes that `values` values can take.
  static constexpr std::size_t capacity(std::size_t values) {
    return detail::error_bounded_header::capacity(values);
  }

  /// Returns how many bytes it took; what is behind them in `out` may be overwritten.
  /// @throws std::invalid_argument  `out` has less than capacity(x.size()) bytes, or there are more
  ///                                than max_values
  std::size_t encode(std::span<float const> x, std::span<std::byte> out) const {
    double error = 0;
    auto const bytes = write("encode", header_type::of(options_, x.size()), out, [&](std::size_t) {
      return [&](std::size_t first, std::size_t n, values& v) {
        coder_.quantize(x.data() + first, n, v, error);
      };
    });
    finish(out, error, 0);
    return bytes;
  }

  /// out = a + b, where both hold different ranks. Returns as encode.
  /// @param out  must overlap neither
  /// @throws wire_error             one is not a stream of these options, or damaged; or their
  ///                                lengths differ, or together they are more ranks than
  ///                                options().ranks. `out` is of no use then
  /// @throws std::invalid_argument  as encode
  std::size_t merge(std::span<std::byte const> a, std::span<std::byte const> b,
                    std::span<std::byte> out) const {
    auto const header = header_type::read(a);
    check(a, header.values);
    check(b, header.values);
    detail::error_bounded_sums sums;
    auto const bytes =
        write("merge", header.plus(header_type::read(b)), out, [&](std::size_t chunk) {
          return [&, in_a = reader(a, chunk), in_b = reader(b, chunk)](std::size_t, std::size_t n,
                                                                       values& v) mutable {
            in_a.take(n, v);
            in_b.add(n, v, sums);
          };
        });
    finish(out, 0, sums.float_additions);
    return bytes;
  }

  /// out = x + what `in` holds, encoded: the same bytes as of merge and encode, in one pass.
  /// Returns as encode.
  /// @param out  must overlap neither `in` nor x
  /// @throws wire_error, std::invalid_argument  as merge
  std::size_t decode_add_encode(std::span<std::byte const> in, std::span<float const> x,
                                std::span<std::byte> out) const {
    check(in, x.size());
    double error = 0;
    detail::error_bounded_sums sums;
    auto const bytes =
        write("decode_add_encode", header_type::read(in).plus(header_type::of(options_, x.size())),
              out, [&](std::size_t chunk) {
                return [&, other = reader(in, chunk)](std::size_t first, std::size_t n,
                                                      values& v) mutable {
                  coder_.quantize(x.data() + first, n, v, error);
                  other.add(n, v, sums);
                };
              });
    finish(out, error, sums.float_additions);
    return bytes;
  }

  /// @throws wire_error  not a stream of x.size() values with these options, or damaged; x is
  ///                     unchanged
  void decode(std::span<std::byte const> in, std::span<float> x) const {
    for_blocks(in, x.size(), [&](std::size_t first, std::size_t n, values const& v) {
      coder_.dequantize(v, n, x.data() + first);
    });
  }

  /// sums += what `in` holds. NaNs become one NaN.
  /// @throws wire_error  as decode; sums are unchanged
  void decode_add(std::span<std::byte const> in, std::span<float> sums) const {
    for_blocks(in, sums.size(), [&](std::size_t first, std::size_t n, values const& v) {
      float decoded[detail::error_bounded_block_values];
      coder_.dequantize(v, n, decoded);
      for (std::size_t i = 0; i < n; ++i)
        sums[first + i] = same_bits<float>(detail::bits_of_sum(sums[first + i] + decoded[i]));
    });
  }

  /// Reads the header alone; other bytes may follow the stream.
  /// @throws wire_error  it is none, or bytes of the stream are missing
  static error_bounded_info peek(std::span<std::byte const> in) {
    auto const header = header_type::read(in);
    error_bounded_options const options = header.options();
    double const error = detail::grid_of(options).step * header.error / header.error_parts;
    return {options,
            header.values,
            header.bytes,
            header.weight,
            std::min(error, options.bound),
            header.float_additions};
  }

  /// See error_bounded_info::error.
  /// @throws wire_error  as peek
  static double error_of(std::span<std::byte const> in) { return peek(in).error; }

  /// Checks all that decode does.
  /// @throws wire_error  not a stream of `count` values with these options, or damaged
  void check(std::span<std::byte const> in, std::size_t count) const {
    auto const header = header_type::read(in);
    auto const options = header.options();
    if (!(options == options_))
      detail::error_bounded_damaged(detail::text_of(options) + "; here it is " +
                                    detail::text_of(options_));
    if (header.values != count)
      detail::error_bounded_damaged(std::to_string(header.values) + " values, " +
                                    std::to_string(count) + " were expected");
    std::size_t at = header_type::front(header.chunks);
    for (std::size_t i = 0; i < header.chunks; ++i) {
      std::size_t const begin = begin_of(in, i);
      std::size_t const end = i + 1 == header.chunks ? header.bytes : begin_of(in, i + 1);
      if (begin != at || end < at || end > header.bytes ||
          !coder_.valid(in.data() + at, end - at, header_type::values_of(i, count)))
        detail::error_bounded_damaged("chunk " + std::to_string(i) + " of " +
                                      std::to_string(header_type::values_of(i, count)) +
                                      " values, bytes " + std::to_string(begin) + " to " +
                                      std::to_string(end) + " of " + std::to_string(header.bytes) +
                                      ": its blocks or neighbours say otherwise");
      at = end;
    }
    if (at != header.bytes)
      detail::error_bounded_damaged("its chunks end at byte " + std::to_string(at) + " of " +
                                    std::to_string(header.bytes));
  }

 private:
  using header_type = detail::error_bounded_header;
  using values = detail::error_bounded_values;

  static std::size_t begin_of(std::span<std::byte const> in, std::size_t chunk) {
    return load<std::uint32_t>(in.data() + sizeof(header_type), chunk);
  }

  /// What became known only when all was written.
  static void finish(std::span<std::byte> out, double error, std::uint64_t additions) {
    auto header = load<header_type>(out.data());
    header.error += header.parts_of(error);
    header.float_additions += additions;
    store(out.data(), 0, header);
  }

  detail::error_bounded_reader reader(std::span<std::byte const> in, std::size_t chunk) const {
    std::size_t const count = load<header_type>(in.data()).values;
    return {coder_, in.data() + begin_of(in, chunk), header_type::values_of(chunk, count)};
  }

  /// Writes a stream: make(chunk) gives a function that makes one block after the other.
  template <class Make>
  std::size_t write(char const* who, header_type header, std::span<std::byte> out,
                    Make const& make) const {
    std::size_t const count = header.values;
    detail::require_room<header_type>("error_bounded_stream::", who, count, out.size());
    std::byte* at = out.data() + header_type::front(header.chunks);
    values v;
    for (std::size_t i = 0; i < header.chunks; ++i) {
      store(out.data() + sizeof(header), i, static_cast<std::uint32_t>(at - out.data()));
      std::size_t const n = header_type::values_of(i, count);
      detail::error_bounded_writer writer(coder_, at, n, header.weight);
      auto next = make(i);
      for (std::size_t first = 0; first < n; first += detail::error_bounded_block_values) {
        std::size_t const here = std::min(n - first, detail::error_bounded_block_values);
        next(i * chunk_values + first, here, v);
        writer.put(v, here);
      }
      at = writer.end();
    }
    header.bytes = static_cast<std::uint64_t>(at - out.data());
    store(out.data(), 0, header);
    return header.bytes;
  }

  /// f(first, n, block) for all blocks of what `in` holds.
  template <class F>
  void for_blocks(std::span<std::byte const> in, std::size_t count, F const& f) const {
    check(in, count);
    values v;
    for (std::size_t i = 0; i < header_type::chunks_of(count); ++i) {
      auto from = reader(in, i);
      std::size_t const n = header_type::values_of(i, count);
      for (std::size_t first = 0; first < n; first += detail::error_bounded_block_values) {
        std::size_t const here = std::min(n - first, detail::error_bounded_block_values);
        from.take(here, v);
        f(i * chunk_values + first, here, v);
      }
    }
  }

  error_bounded_options options_;
  detail::error_bounded_coder coder_;
};

static_assert(BoundedVariableRate<error_bounded_stream>);

}  // namespace hcomp
