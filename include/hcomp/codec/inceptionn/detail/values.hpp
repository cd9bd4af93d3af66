#pragma once
/// @file
/// INCEPTIONN's code of values: a tag of 2 bits for each, and 0, 1, 2 or 4 bytes of payload. The
/// reference; the fast path is in simd.hpp.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::inceptionn {

/// What is kept of a float. Exponents are meant as floats store them, after the prescale.
struct value_rule {
  int prescale;
  int lowest;    ///< exponent from which values get 8 bits; smaller ones are 0
  int middle;    ///< exponent from which values get 16 bits
  int unit8;     ///< 8 bits are a sign and a multiple of 2^-unit8
  int unit16;    ///< 16 bits are a sign and a multiple of 2^-unit16
  bool nearest;  ///< to even; otherwise towards 0
  bool grace;    ///< a multiple of 0 is read as half a unit
};

/// The exponent of 1, from which on values keep all their bits, prescaled or not.
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

/// The payload with this tag at `in`, and putting it there; both touch its bytes alone.
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

/// The bits to send of a value with this tag.
HCOMP_HD inline std::uint32_t payload_of(value_rule const& rule, std::uint32_t bits, unsigned tag) {
  if (tag == 0) return 0;
  if (tag == 3) return bits;
  int const width = tag == 1 ? 7 : 15;
  // the value is full * 2^(exponent - 150); between 8 and 31 bits of it are too many
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

/// 2^exponent; -126 to 127.
HCOMP_HD inline float power_of_two(int exponent) {
  return same_bits<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
}

/// What a receiver makes of a payload; never -0, unless all 32 bits came.
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

/// a + b, with one NaN for all: which of two NaNs survives an addition is left open.
HCOMP_HD inline float sum_of(float a, float b) {
  float const sum = a + b;
  auto const bits = same_bits<std::uint32_t>(sum);
  return (bits & 0x7fffffffu) > 0x7f800000u ? same_bits<float>(0x7fc00000u) : sum;
}

// ---- Many values: tags, 4 to a byte from its lowest bits on, and payloads one behind the other

HCOMP_HD constexpr std::size_t tag_bytes(std::size_t values) { return (values + 3) / 4; }

/// Whether some tag of the last byte belongs to none of n values.
HCOMP_HD inline bool tags_beyond(std::byte const* tags, std::size_t n) {
  return n % 4 != 0 && static_cast<unsigned>(tags[n / 4]) >> 2 * (n % 4) != 0;
}

/// Bytes of the payloads that belong to 4 tags.
HCOMP_HD inline unsigned bytes_of_four(unsigned tags) {
  unsigned const low = tags & 0x55u, high = tags >> 1 & 0x55u;
  unsigned const odd = low + (low & high);  // 0, 1, 0, 2 of a tag's 0, 1, 2, 4 bytes
  unsigned const twos =
      (odd & 0x33u) + (odd >> 2 & 0x33u) + 2 * ((high & 0x33u) + (high >> 2 & 0x33u));
  return (twos & 15u) + (twos >> 4);
}
/// Bytes of the payloads that belong to 32 tags.
HCOMP_HD inline std::size_t bytes_of_word(std::uint64_t tags) {
  std::uint64_t const low = tags & 0x5555555555555555u, high = tags >> 1 & 0x5555555555555555u;
  std::uint64_t const odd = low + (low & high);  // 0, 1, 0, 2 of a tag's 0, 1, 2, 4 bytes
  std::uint64_t const fours = (odd & 0x3333333333333333u) + (odd >> 2 & 0x3333333333333333u) +
                              2 * (high & 0x3333333333333333u) +
                              2 * (high >> 2 & 0x3333333333333333u);
  std::uint64_t const eights = (fours & 0x0f0f0f0f0f0f0f0fu) + (fours >> 4 & 0x0f0f0f0f0f0f0f0fu);
  return static_cast<std::size_t>(eights * 0x0101010101010101u >> 56);
}
/// Bytes of the payloads that belong to `count` bytes of tags.
HCOMP_HD inline std::size_t payload_bytes(std::byte const* tags, std::size_t count) {
  std::size_t bytes = 0, i = 0;
  for (; i + 8 <= count; i += 8) bytes += bytes_of_word(load<std::uint64_t>(tags + i));
  std::uint64_t rest = 0;
  for (; i < count; ++i) rest = rest << 8 | static_cast<std::uint64_t>(tags[i]);
  return bytes + bytes_of_word(rest);
}

/// Returns the bytes of all payloads.
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

/// out[i] = the i-th value, or addend[i] plus it where there is an addend, which may be `out`.
HCOMP_HD inline void decode_values(value_rule const& rule, std::byte const* tags,
                                   std::byte const* payload, std::size_t n, float const* addend,
                                   float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    unsigned const tag = static_cast<unsigned>(tags[i / 4]) >> 2 * (i % 4) & 3u;
    float const value = value_of(rule, tag, load_payload(payload, tag));
    payload += bytes_of_tag(tag);
    // bits are copied: a NaN is to keep its own
    if (addend) {
      out[i] = sum_of(addend[i], value);
    } else {
      memcpy(out + i, &value, sizeof(value));
    }
  }
}

}  // namespace hcomp::detail::inceptionn
