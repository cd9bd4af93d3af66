#pragma once
/// @file
/// Encoded format of the blocks of error_bounded_fallback.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/packed_integers.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::error_bounded {

/// Mode of a block: one byte. A chunk stores the modes of all blocks before the payloads.
///
/// The payload of a mode:
/// - 0 to 63: integers with this number of bits, packed
/// - 64 + 8 (b - 1) + k - 1: a word that marks the nonzero integers, then these k integers in b
///   bytes each
/// - 128: a word that marks doubles, then all values in 64 bits
struct fallback_mode {
  static constexpr std::uint8_t sparse = 64, doubles = 128;
  static constexpr std::size_t most_sparse = 8;

  std::uint8_t byte = 0;

  HCOMP_HD bool is_valid() const { return byte <= doubles; }
  HCOMP_HD bool has_doubles() const { return byte == doubles; }
  HCOMP_HD bool is_sparse() const { return byte >= sparse && byte < doubles; }
  /// Bits per value of a block that is not sparse.
  HCOMP_HD int width() const { return has_doubles() ? 64 : byte; }
  HCOMP_HD std::size_t sparse_values() const { return (byte & 7u) + 1; }
  HCOMP_HD std::size_t sparse_bytes() const { return (byte >> 3 & 7u) + 1; }
  /// Bits per stored integer.
  HCOMP_HD int bits() const { return is_sparse() ? static_cast<int>(8 * sparse_bytes()) : width(); }
  HCOMP_HD std::size_t payload_bytes(std::size_t n) const {
    constexpr std::size_t word = sizeof(std::uint32_t);
    if (is_sparse()) return word + sparse_values() * sparse_bytes();
    return (has_doubles() ? word : 0) + packed_bytes(width(), n);
  }

  /// Shortest mode of n integers.
  /// @param zigzags  largest zigzag, or OR of all
  [[gnu::always_inline]] HCOMP_HD static fallback_mode of(std::uint64_t zigzags,
                                                          std::size_t not_zero, std::size_t n) {
    int const all = bit_length(zigzags), bits = all < sparse ? all : sparse - 1;  // damaged input
    auto const bytes = static_cast<std::size_t>(bits + 7) / 8;
    if (bits == 0 || not_zero > most_sparse ||
        sizeof(std::uint32_t) + not_zero * bytes >= packed_bytes(bits, n))
      return {static_cast<std::uint8_t>(bits)};
    return {static_cast<std::uint8_t>(sparse + 8 * (bytes - 1) + not_zero - 1)};
  }
  /// Maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ...; the bit length is the width in two's complement.
  HCOMP_HD static std::uint64_t zigzag(std::int64_t q) {
    return static_cast<std::uint64_t>(q) << 1 ^ static_cast<std::uint64_t>(q >> 63);
  }
};

/// Properties of a block of integers that determine its mode.
struct fallback_sizes {
  std::uint64_t largest;  ///< largest magnitude
  std::uint64_t zigzags;  ///< OR of the zigzags, or the largest
  std::size_t not_zero;   ///< number of nonzero integers

  [[gnu::always_inline]] HCOMP_HD fallback_mode mode(std::size_t n) const {
    return fallback_mode::of(zigzags, not_zero, n);
  }
};

// ---- Encoded integers

/// Encodes n integers.
/// @param mode  fallback_mode::of these integers
HCOMP_HD inline void put_integers(std::int64_t const* q, fallback_mode mode, std::size_t n,
                                  std::byte* out) {
  if (!mode.is_sparse()) return pack_integers(q, mode.width(), n, out);
  std::uint32_t not_zero = 0;
  std::byte* to = out + sizeof(not_zero);
  for (std::size_t i = 0; i < n; ++i)
    if (q[i] != 0) {
      not_zero |= std::uint32_t{1} << i;
      pack_integers(q + i, 8 * static_cast<int>(mode.sparse_bytes()), 1, to);
      to += mode.sparse_bytes();
    }
  store(out, 0, not_zero);
}
/// Decodes n integers.
/// @param mode  a mode without doubles
HCOMP_HD inline void take_integers(std::byte const* in, fallback_mode mode, std::size_t n,
                                   std::int64_t* q) {
  if (!mode.is_sparse()) return unpack_integers(in, mode.width(), n, q);
  for (std::size_t i = 0; i < n; ++i) q[i] = 0;
  std::size_t const bytes = mode.sparse_bytes();
  std::byte const* from = in + sizeof(std::uint32_t);
  for (auto left = load<std::uint32_t>(in); left != 0; left &= left - 1, from += bytes)
    unpack_integers(from, static_cast<int>(8 * bytes), 1, q + lowest_one(left));
}

}  // namespace hcomp::detail::error_bounded
