#pragma once
/// @file
/// Encoding of INCEPTIONN's values: a tag of 2 bits and a payload of 0, 1, 2 or 4 bytes per value.
/// This is the reference; the fast path is in simd.hpp.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::inceptionn {

/// Quantization of a float. Exponents are biased, as floats store them, and include the prescale.
struct value_rule {
  int prescale;
  int lowest;    ///< smallest exponent with 8 bits; smaller values become 0
  int middle;    ///< smallest exponent with 16 bits
  int unit8;     ///< 8 bits are a sign and a multiple of 2^-unit8
  int unit16;    ///< 16 bits are a sign and a multiple of 2^-unit16
  bool nearest;  ///< round to nearest, ties to even; otherwise towards 0
  bool grace;    ///< multiple 0 decodes as half a unit
};

/// Biased exponent of 1. Values with this exponent or a larger one keep all bits.
inline constexpr int whole_exponent = 127;

HCOMP_HD inline int exponent_of(value_rule const& rule, std::uint32_t bits) {
  return static_cast<int>(bits >> 23 & 255u) + rule.prescale;
}
HCOMP_HD inline unsigned tag_of(value_rule const& rule, std::uint32_t bits) {
  int const exponent = exponent_of(rule, bits);
  return static_cast<unsigned>(exponent >= rule.lowest) +
         static_cast<unsigned>(exponent >= rule.middle) +
         static_cast<unsigned>(exponent >= whole_exponent);
}
HCOMP_HD constexpr std::size_t bytes_of_tag(unsigned tag) { return tag == 3 ? 4 : tag; }

/// Reads the payload of this tag; touches no other bytes. store_payload is the inverse.
HCOMP_HD inline std::uint32_t load_payload(std::byte const* in, unsigned tag) {
  if (tag == 0) return 0;
  if (tag == 1) return static_cast<std::uint32_t>(*in);
  return tag == 2 ? load<std::uint16_t>(in) : load<std::uint32_t>(in);
}
HCOMP_HD inline void store_payload(std::byte* out, unsigned tag, std::uint32_t payload) {
  if (tag == 1) *out = static_cast<std::byte>(payload);
  if (tag == 2) store(out, 0, static_cast<std::uint16_t>(payload));
  if (tag == 3) store(out, 0, payload);
}

/// Payload of a value with this tag.
HCOMP_HD inline std::uint32_t payload_of(value_rule const& rule, std::uint32_t bits, unsigned tag) {
  if (tag == 0) return 0;
  if (tag == 3) return bits;
  int const width = tag == 1 ? 7 : 15;
  // the value is full * 2^(exponent - 150); the shift drops 8 to 31 bits
  std::uint32_t const full = 0x800000u | (bits & 0x7fffffu);
  int const shift = 150 - exponent_of(rule, bits) - (tag == 1 ? rule.unit8 : rule.unit16);
  std::uint32_t const most = (1u << width) - 1;
  std::uint32_t multiple = full >> shift;
  if (rule.nearest) {
    multiple = (full + (1u << (shift - 1)) - 1 + (multiple & 1u)) >> shift;
    multiple = multiple > most ? most : multiple;
  }
  return bits >> 31 << width | multiple;
}

/// 2^exponent, for exponents from -126 to 127.
HCOMP_HD inline float power_of_two(int exponent) {
  return same_bits<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
}

/// Decoded value of a payload; -0 only with tag 3, which has all 32 bits.
HCOMP_HD inline float value_of(value_rule const& rule, unsigned tag, std::uint32_t payload) {
  if (tag == 0) return 0;
  if (tag == 3) return same_bits<float>(payload);
  int const width = tag == 1 ? 7 : 15;
  int halves = 2 * static_cast<int>(payload & ((1u << width) - 1));
  if (rule.grace && halves == 0) halves = 1;
  int const unit = (tag == 1 ? rule.unit8 : rule.unit16) + rule.prescale;
  return static_cast<float>((payload >> width & 1u) != 0 ? -halves : halves) *
         power_of_two(-unit - 1);
}

/// a + b; every NaN becomes the same NaN, because IEEE 754 leaves open which of two NaNs survives.
HCOMP_HD inline float sum_of(float a, float b) { return with_one_nan(a + b); }

// ---- Arrays of values: tags, 4 per byte from its lowest bits on, and consecutive payloads

HCOMP_HD constexpr std::size_t tag_bytes(std::size_t values) { return (values + 3) / 4; }

/// True if the last byte has nonzero tags after the n-th.
HCOMP_HD inline bool tags_beyond(std::byte const* tags, std::size_t n) {
  return n % 4 != 0 && static_cast<unsigned>(tags[n / 4]) >> 2 * (n % 4) != 0;
}

/// Size of the payloads of 4 tags, in bytes.
HCOMP_HD inline unsigned bytes_of_four(unsigned tags) {
  unsigned const low = tags & 0x55u, high = tags >> 1 & 0x55u;
  unsigned const odd = low + (low & high);  // 0, 1, 0, 2 of the 0, 1, 2, 4 bytes of a tag
  unsigned const twos =
      (odd & 0x33u) + (odd >> 2 & 0x33u) + 2 * ((high & 0x33u) + (high >> 2 & 0x33u));
  return (twos & 15u) + (twos >> 4);
}
/// Size of the payloads of 32 tags, in bytes.
HCOMP_HD inline std::size_t bytes_of_word(std::uint64_t tags) {
  std::uint64_t const low = tags & 0x5555555555555555u, high = tags >> 1 & 0x5555555555555555u;
  std::uint64_t const odd = low + (low & high);  // 0, 1, 0, 2 of the 0, 1, 2, 4 bytes of a tag
  std::uint64_t const fours = (odd & 0x3333333333333333u) + (odd >> 2 & 0x3333333333333333u) +
                              2 * (high & 0x3333333333333333u) +
                              2 * (high >> 2 & 0x3333333333333333u);
  std::uint64_t const eights = (fours & 0x0f0f0f0f0f0f0f0fu) + (fours >> 4 & 0x0f0f0f0f0f0f0f0fu);
  return static_cast<std::size_t>(eights * 0x0101010101010101u >> 56);
}
/// Size of the payloads of `count` bytes of tags, in bytes.
HCOMP_HD inline std::size_t payload_bytes(std::byte const* tags, std::size_t count) {
  std::size_t bytes = 0, i = 0;
  for (; i + 8 <= count; i += 8) bytes += bytes_of_word(load<std::uint64_t>(tags + i));
  std::uint64_t rest = 0;
  for (; i < count; ++i) rest = rest << 8 | static_cast<std::uint64_t>(tags[i]);
  return bytes + bytes_of_word(rest);
}

/// Encodes n values; returns the size of all payloads in bytes.
HCOMP_HD inline std::size_t encode_values(value_rule const& rule, float const* x, std::size_t n,
                                          std::byte* tags, std::byte* payload) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < n; i += 4) {
    unsigned four = 0;
    for (std::size_t j = 0; j < 4 && i + j < n; ++j) {
      auto const bits = same_bits<std::uint32_t>(x[i + j]);
      unsigned const tag = tag_of(rule, bits);
      store_payload(payload + at, tag, payload_of(rule, bits, tag));
      at += bytes_of_tag(tag);
      four |= tag << 2 * j;
    }
    tags[i / 4] = static_cast<std::byte>(four);
  }
  return at;
}

/// out[i] = value i, or addend[i] + value i if `addend` is not null. `addend` may be `out`.
HCOMP_HD inline void decode_values(value_rule const& rule, std::byte const* tags,
                                   std::byte const* payload, std::size_t n, float const* addend,
                                   float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    unsigned const tag = static_cast<unsigned>(tags[i / 4]) >> 2 * (i % 4) & 3u;
    float const value = value_of(rule, tag, load_payload(payload, tag));
    payload += bytes_of_tag(tag);
    // copies the bits, so that a NaN keeps its payload
    if (addend) {
      out[i] = sum_of(addend[i], value);
    } else {
      memcpy(out + i, &value, sizeof(value));
    }
  }
}

}  // namespace hcomp::detail::inceptionn
