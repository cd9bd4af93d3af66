#pragma once
/// @file
/// Vectors of integers, exactly.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/blocks_coder.hpp>
#include <hcomp/codec/detail/blocks_header.hpp>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/lossless_integers/detail/format.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/core/wire_kinds.hpp>
#include <span>

namespace hcomp {

/// Vectors of integers encoded without loss: counts, histograms, indexes. Sums are exact, and wrap
/// around where they overflow, modulo 2^32 or 2^64, as sums of two's complements do and MPI_SUM
/// does; so they are the same for any order and algorithm. There are no means.
///
/// Of 64 values there is how far each is from the least of them, from 0, or from the one before it,
/// in as many bits as the largest of these takes, whatever is shortest. A block that is no shorter
/// then goes as it is, so codes are at most 0.5 % longer than the values. Sums decode, add and
/// encode. See detail::lossless_integers::block_form for the format; 24 bytes are in front, and 4
/// for each 1024 values. The codes of unsigned integers can be read as those of signed ones.
template <class T>
  requires std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> ||
      std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>
class lossless_integers {
 public:
  using value_type = T;
  using header_type = detail::lossless_integers::header<T>;
  using coder_type = detail::blocks_coder<detail::lossless_integers::format<T>>;
  static constexpr char const* name = detail::lossless_integers::format<T>::name;
  static constexpr std::uint8_t wire_kind =
      sizeof(T) == 4 ? wire_kinds::lossless_integers_32 : wire_kinds::lossless_integers_64;
  static constexpr std::size_t chunk_values = header_type::chunk_values;
  static constexpr std::size_t max_values = header_type::max_values;

  std::array<double, 0> parameters() const { return {}; }
  detail::no_options options() const { return {}; }
  /// The most bytes that `values` values can take.
  static constexpr std::size_t capacity(std::size_t values) {
    return header_type::capacity(values);
  }

  /// Returns the bytes of the code.
  /// @param out  may be overwritten behind the code, too
  /// @throws std::invalid_argument  more than max_values, or less than capacity(x.size()) bytes
  std::size_t encode(std::span<T const> x, std::span<std::byte> out) const {
    return detail::encode_code("encode", *this, {x.size(), x.data()}, out);
  }
  /// The code of the values that two codes hold, added.
  /// @param out  must overlap neither
  /// @throws wire_error             one is damaged, or of another number of values
  /// @throws std::invalid_argument  as encode
  std::size_t merge(std::span<std::byte const> a, std::span<std::byte const> b,
                    std::span<std::byte> out) const {
    std::size_t const values = detail::header_of_code<header_type>(a).values;
    check(a, values);
    check(b, values);
    return detail::encode_code("merge", *this, {.values = values, .a = a.data(), .b = b.data()},
                               out);
  }
  /// The code of x and what a code holds, added.
  /// @throws as merge
  std::size_t decode_add_encode(std::span<std::byte const> in, std::span<T const> x,
                                std::span<std::byte> out) const {
    check(in, x.size());
    return detail::encode_code("decode_add_encode", *this,
                               {.values = x.size(), .x = x.data(), .b = in.data()}, out);
  }
  /// x = what `in` holds
  /// @throws wire_error  it is damaged, or of another number of values; x is unchanged
  void decode(std::span<std::byte const> in, std::span<T> x) const {
    detail::decode_code(*this, in, nullptr, x);
  }
  /// sums += what `in` holds
  /// @throws as decode
  void decode_add(std::span<std::byte const> in, std::span<T> sums) const {
    detail::decode_code(*this, in, sums.data(), sums);
  }
  /// @throws wire_error  not a code of so many values, or damaged
  void check(std::span<std::byte const> in, std::size_t count) const {
    detail::check_code(*this, in, count);
  }

  // ---- What VariableRate is made of ----

  coder_type coder() const { return {}; }
  std::size_t bytes_of(typename coder_type::outcome const& made) const {
    return static_cast<std::size_t>(made.bytes);
  }
};

static_assert(MergingVariableRate<lossless_integers<std::int32_t>>);
static_assert(MergingVariableRate<lossless_integers<std::int64_t>>);

}  // namespace hcomp
