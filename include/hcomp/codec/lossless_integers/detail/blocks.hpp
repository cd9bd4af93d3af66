#pragma once
/// @file
/// Blocks of lossless_integers: distances of values from the smallest value, from 0, or from their
/// neighbours.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/packed_integers.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

namespace hcomp::detail::lossless_integers {

inline constexpr std::size_t block_values = 64;

/// Form of a block: one byte. A chunk stores the forms of all blocks before the payloads.
///
/// The payload of a form:
/// - plain: the values
/// - from_zero: each value in `width` bits; width 0 means that all are 0
/// - from_least: the smallest value, then the distance of each value from it in `width` bits
/// - differences: the first value, then the difference of each value from its predecessor in
///   `width` bits
///
/// Arithmetic is modulo 2^32 or 2^64, the size of the values. Differences are signed, values and
/// distances unsigned.
template <class T> struct block_form {
  enum : unsigned { from_zero, from_least, differences, plain };

  std::uint8_t bits = 0;

  HCOMP_HD static block_form of(unsigned kind, int width) {
    return {static_cast<std::uint8_t>(kind << 6 | static_cast<unsigned>(width))};
  }
  HCOMP_HD unsigned kind() const { return bits >> 6; }
  HCOMP_HD int width() const { return bits & 63; }
  HCOMP_HD bool has_first() const { return kind() == from_least || kind() == differences; }
  HCOMP_HD bool is_valid() const {
    return kind() == plain ? width() == 0 : width() < 8 * static_cast<int>(sizeof(T));
  }
  HCOMP_HD std::size_t payload_bytes(std::size_t n) const {
    if (kind() == plain) return n * sizeof(T);
    return (has_first() ? sizeof(T) : 0) + packed_bytes(width(), n);
  }
};

/// A block of up to 64 values.
template <class T> struct value_block {
  using word = std::make_unsigned_t<T>;
  using mode = block_form<T>;
  static constexpr std::size_t values = block_values;
  static constexpr int value_bits = 8 * static_cast<int>(sizeof(T));

  T x[block_values];  ///< 0 after the last value

  /// Form, and the value stored before the integers.
  struct front {
    mode form;
    word first;
  };

  /// Adds in two's complement and wraps around on overflow.
  HCOMP_HD static T sum(T a, T b) {
    return static_cast<T>(static_cast<word>(static_cast<word>(a) + static_cast<word>(b)));
  }

  /// Returns the shortest form of the first n values; n is at least 1.
  HCOMP_HD front look(std::size_t n) const {
    T least = x[0], most = least;
    word zigzags = 0;
    for (std::size_t i = 1; i < n; ++i) {
      least = x[i] < least ? x[i] : least;
      most = x[i] > most ? x[i] : most;
      word const step = static_cast<word>(bits(i) - bits(i - 1));
      zigzags |= static_cast<word>(step << 1 ^ (word{0} - (step >> (value_bits - 1))));
    }
    front found{mode::of(mode::plain, 0), 0};
    std::size_t bytes = n * sizeof(T);
    auto const take_shorter = [&](unsigned kind, int width, word first) {
      auto const form = mode::of(kind, width);
      if (width >= value_bits || form.payload_bytes(n) >= bytes) return;
      bytes = form.payload_bytes(n);
      found = {form, first};
    };
    if (least >= 0) take_shorter(mode::from_zero, bit_length(static_cast<word>(most)), 0);
    auto const low = static_cast<word>(least);
    take_shorter(mode::from_least, bit_length(static_cast<word>(static_cast<word>(most) - low)),
                 low);
    take_shorter(mode::differences, bit_length(zigzags), bits(0));
    return found;
  }

  HCOMP_HD void put(front const& f, std::size_t n, std::byte* out) const {
    if (f.form.kind() == mode::plain) {
      memcpy(out, x, n * sizeof(word));
      return;
    }
    if (f.form.has_first()) {
      store(out, 0, f.first);
      out += sizeof(word);
    }
    std::int64_t q[block_values];
    word before = f.first;
    for (std::size_t i = 0; i < n; ++i) {
      q[i] = static_cast<std::int64_t>(static_cast<word>(bits(i) - before));
      if (f.form.kind() == mode::differences) before = bits(i);
    }
    pack_integers(q, f.form.width(), n, out);
  }
  /// Decodes n values of a validated payload. Damaged integers give arbitrary values.
  HCOMP_HD void take(mode form, std::size_t n, std::byte const* in) {
    if (n < block_values)
      for (std::size_t i = n; i < block_values; ++i) x[i] = 0;
    if (form.kind() == mode::plain) {
      memcpy(x, in, n * sizeof(word));
      return;
    }
    word at = 0;
    if (form.has_first()) {
      at = load<word>(in);
      in += sizeof(word);
    }
    std::int64_t q[block_values];
    int const width = form.width();
    unpack_integers(in, width, n, q);
    if (form.kind() == mode::differences) {
      for (std::size_t i = 0; i < n; ++i) {
        at = static_cast<word>(at + static_cast<word>(q[i]));
        x[i] = static_cast<T>(at);
      }
    } else {
      for (std::size_t i = 0; i < n; ++i)
        x[i] = static_cast<T>(static_cast<word>(at + static_cast<word>(without_sign(q[i], width))));
    }
  }

 private:
  HCOMP_HD word bits(std::size_t i) const { return static_cast<word>(x[i]); }
};

}  // namespace hcomp::detail::lossless_integers
