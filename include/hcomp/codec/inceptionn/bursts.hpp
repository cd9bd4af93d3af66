#pragma once
/// @file
/// The format of INCEPTIONN's network card: groups of eight values in bursts of 256 bits.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/inceptionn/detail/chunks.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/inceptionn/options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/simd.hpp>
#include <span>
#include <stdexcept>
#include <string>

namespace hcomp {

/// Encodes and decodes vectors in the format of the paper's network card, and converts from and to
/// the format of `inceptionn`. Both formats have the same tag and bytes per value.
///
/// A group of eight values has 16 bits of tags, then 0, 1, 2 or 4 bytes per value, lowest byte
/// first: 2 to 34 bytes. The tag of value i is in bits 2i and 2i + 1. Groups follow each other
/// without gaps. Zeros fill the last burst. The format does not store the number of values.
/// Source: Y. Li et al., MICRO 2018, doi 10.1109/MICRO.2018.00023.
class inceptionn_bursts {
 public:
  static constexpr std::size_t burst_bytes = 32;
  static constexpr std::size_t group_values = 8;

  /// Options and errors as for inceptionn.
  explicit inceptionn_bursts(inceptionn_options const& options = {},
                             simd_level level = best_simd_level())
      : codec_(options, level), coder_{detail::inceptionn::rule_of(options), level} {}

  /// Largest encoded size of `values` values, in bytes.
  static constexpr std::size_t capacity(std::size_t values) {
    return padded((values + group_values - 1) / group_values * (2 + 4 * group_values));
  }

  /// Encodes `x`; returns the encoded size in bytes, a multiple of burst_bytes.
  /// @throws std::invalid_argument  `out` has less than capacity(x.size()) bytes
  std::size_t encode(std::span<float const> x, std::span<std::byte> out) const {
    require_capacity("encode", x.size(), out.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < detail::chunks_of<detail::inceptionn::header>(x.size()); ++i) {
      std::size_t const n = detail::values_of_chunk<detail::inceptionn::header>(i, x.size());
      std::byte coded[detail::inceptionn::chunk_capacity];
      coder_.encode_coded(x.data() + i * detail::inceptionn::chunk_values, n, coded);
      at += put_groups(n, coded, coded + detail::inceptionn::tag_bytes(n), out.data() + at);
    }
    return fill_up(out.data(), at);
  }

  /// Decodes `in` to `x`.
  /// @throws wire_error  not the bursts of x.size() values; x is unchanged
  void decode(std::span<std::byte const> in, std::span<float> x) const {
    check(in, x.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < detail::chunks_of<detail::inceptionn::header>(x.size()); ++i) {
      std::size_t const n = detail::values_of_chunk<detail::inceptionn::header>(i, x.size());
      std::byte coded[detail::inceptionn::chunk_capacity];
      take_groups(in.data(), at, n, coded);
      detail::inceptionn::decode_values(
          coder_.rule, coded, coded + detail::inceptionn::tag_bytes(n), n, nullptr,
          x.data() + i * detail::inceptionn::chunk_values, coder_.level);
    }
  }

  /// Converts a vector of `values` values encoded by inceptionn to bursts; returns their bytes. The
  /// bursts decode to the same values. They equal those of encode, with one exception: a chunk
  /// stored as floats has no tags. With other variants than within_bound, values too small for
  /// their 8 bits then get another tag.
  /// @throws wire_error             as inceptionn::decode
  /// @throws std::invalid_argument  as encode
  std::size_t from_encoded(std::span<std::byte const> in, std::size_t values,
                           std::span<std::byte> out) const {
    require_capacity("from_encoded", values, out.size());
    std::size_t at = 0;
    codec_.read_chunks(in, values,
                       [&](std::size_t n, std::byte const* tags, std::byte const* payload) {
                         at += put_groups(n, tags, payload, out.data() + at);
                       });
    return fill_up(out.data(), at);
  }

  /// Converts bursts of `values` values to the format of inceptionn; returns the encoded size. The
  /// bytes equal those of inceptionn::encode.
  /// @throws wire_error             as decode
  /// @throws std::invalid_argument  as inceptionn::encode
  std::size_t to_encoded(std::span<std::byte const> in, std::size_t values,
                         std::span<std::byte> out) const {
    check(in, values);
    std::size_t at = 0;
    return codec_.write_chunks(values, out, [&](std::size_t n, std::byte* coded) {
      return take_groups(in.data(), at, n, coded);
    });
  }

  /// Validates `in` without decoding.
  /// @throws wire_error  not the bursts of `values` values
  static void check(std::span<std::byte const> in, std::size_t values) {
    std::size_t at = 0;
    for (std::size_t first = 0; first < values; first += group_values) {
      bool const fits = in.size() - at >= 2;
      unsigned const tags = fits ? load<std::uint16_t>(in.data() + at) : 0;
      std::size_t const bytes = detail::inceptionn::bytes_of_word(tags);
      if (!fits || in.size() - at - 2 < bytes)
        damaged("value " + std::to_string(first) + " of " + std::to_string(values) + " at byte " +
                std::to_string(at) + " of " + std::to_string(in.size()));
      if (values - first < group_values && tags >> 2 * (values - first) != 0)
        damaged("tags " + std::to_string(tags) + " for the last " + std::to_string(values - first) +
                " values");
      at += 2 + bytes;
    }
    if (in.size() != padded(at))
      damaged(std::to_string(in.size()) + " bytes for " + std::to_string(values) +
              " values that end at byte " + std::to_string(at));
    for (; at < in.size(); ++at)
      if (in[at] != std::byte{0})
        damaged("byte " + std::to_string(at) + " fills up the last burst, and is not 0 but " +
                std::to_string(static_cast<int>(in[at])));
  }

 private:
  static constexpr std::size_t padded(std::size_t bytes) {
    return (bytes + burst_bytes - 1) / burst_bytes * burst_bytes;
  }
  [[noreturn]] static void damaged(std::string const& text) {
    throw wire_error("inceptionn_bursts: " + text);
  }
  static void require_capacity(char const* who, std::size_t values, std::size_t bytes) {
    if (bytes < capacity(values))
      throw std::invalid_argument(
          detail::error_text({"inceptionn_bursts::", who, ": ", bytes, " bytes for ", values,
                              " values; it takes ", capacity(values)}));
  }
  static std::size_t fill_up(std::byte* out, std::size_t at) {
    for (; at % burst_bytes != 0; ++at) out[at] = std::byte{0};
    return at;
  }

  /// Writes n tags and their payloads group by group; returns the bytes of the groups.
  static std::size_t put_groups(std::size_t n, std::byte const* tags, std::byte const* payload,
                                std::byte* out) {
    std::size_t at = 0;
    for (std::size_t first = 0; first < n; first += group_values) {
      std::uint16_t group = 0;
      std::memcpy(&group, tags + first / 4, n - first > 4 ? 2 : 1);
      store(out + at, 0, group);
      std::size_t const bytes = detail::inceptionn::bytes_of_word(group);
      std::memcpy(out + at + 2, payload, bytes);
      payload += bytes;
      at += 2 + bytes;
    }
    return at;
  }
  /// Reads the groups of n values from byte `at` on and advances `at`. Writes the tags, then the
  /// payloads; returns the bytes of both.
  static std::size_t take_groups(std::byte const* in, std::size_t& at, std::size_t n,
                                 std::byte* coded) {
    std::size_t end = detail::inceptionn::tag_bytes(n);
    for (std::size_t first = 0; first < n; first += group_values) {
      auto const group = load<std::uint16_t>(in + at);
      std::memcpy(coded + first / 4, &group, n - first > 4 ? 2 : 1);
      std::size_t const bytes = detail::inceptionn::bytes_of_word(group);
      std::memcpy(coded + end, in + at + 2, bytes);
      at += 2 + bytes;
      end += bytes;
    }
    return end;
  }

  inceptionn codec_;
  detail::inceptionn::cpu_coder coder_;
};

}  // namespace hcomp
