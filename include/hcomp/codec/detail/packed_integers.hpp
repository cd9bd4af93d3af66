#pragma once
/// @file
/// Integers packed contiguously, with the number of bits of the longest one.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail {

/// @param width  bits per integer, 0 to 64
HCOMP_HD inline std::size_t packed_bytes(int width, std::size_t n) {
  auto const bits = static_cast<std::size_t>(width);
  return n / 8 * bits + (n % 8 * bits + 7) / 8;
}
/// The lowest bits of a two's complement.
HCOMP_HD inline std::uint64_t without_sign(std::int64_t value, int width) {
  return width == 0 ? 0 : static_cast<std::uint64_t>(value) & ~std::uint64_t{0} >> (64 - width);
}
/// The inverse of without_sign.
HCOMP_HD inline std::int64_t with_sign(std::uint64_t low_bits, int width) {
  return width == 0 ? 0 : static_cast<std::int64_t>(low_bits << (64 - width)) >> (64 - width);
}

/// Loads `width` bits from bit `from` of a byte on; bits above them are unspecified. They may span
/// 9 bytes.
/// @param given  bytes that may be read
HCOMP_HD inline std::uint64_t bits_of_bytes(std::byte const* in, [[maybe_unused]] std::size_t given,
                                            int from, int width) {
#if !defined(__CUDA_ARCH__)  // devices load unaligned bytes one by one
  if (given >= sizeof(std::uint64_t) && from + width <= 64) return load<std::uint64_t>(in) >> from;
#endif
  if (width == 0) return 0;
  std::uint64_t bits = static_cast<std::uint64_t>(*in) >> from;
  for (int done = 8 - from; done < width; done += 8)
    bits |= static_cast<std::uint64_t>(*++in) << done;
  return bits;
}

/// @param out  packed_bytes(width, n) bytes
HCOMP_HD inline void pack_integers(std::int64_t const* q, int width, std::size_t n,
                                   std::byte* out) {
  std::uint64_t word = 0;
  int used = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const bits = without_sign(q[i], width);
    word |= bits << used;
    used += width;
    if (used < 64) continue;
    store(out, 0, word);
    out += sizeof(word);
    used -= 64;
    word = used == 0 ? 0 : bits >> (width - used);
  }
  for (; used > 0; used -= 8, word >>= 8) *out++ = static_cast<std::byte>(word);
}
HCOMP_HD inline void unpack_integers(std::byte const* in, int width, std::size_t n,
                                     std::int64_t* q) {
  std::size_t const bytes = packed_bytes(width, n);
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const bit = i * static_cast<std::size_t>(width), at = bit / 8;
    q[i] = with_sign(bits_of_bytes(in + at, bytes - at, static_cast<int>(bit % 8), width), width);
  }
}

}  // namespace hcomp::detail
