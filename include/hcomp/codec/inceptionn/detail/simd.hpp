#pragma once
/// @file
/// Fast path of values.hpp for CPUs: 8 or 16 values at a time, branch-free, with the same bytes.
/// AVX2 packs and unpacks payloads with shuffle tables indexed by the tags of four values, AVX-512
/// VBMI2 with byte compress and expand.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/inceptionn/detail/values.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::inceptionn {

/// Bytes after the payloads that may be read and overwritten.
inline constexpr std::size_t slack_bytes = 64;

/// Prefetch distances in bytes. Hardware prefetchers stop at page boundaries, and the kernels
/// process a page within one memory latency.
inline constexpr std::size_t values_ahead = 2048, payload_ahead = 512;

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)

/// Tables indexed by the tags of four values: shuffle masks, and the number of payload bytes. In a
/// vector, a payload is in the upper bytes of its 32-bit lane, with the sign in the top bit.
struct shuffle_tables {
  // not std::array: compilers would evaluate 15,000 calls of its operator[]
  alignas(16) std::uint8_t pack[256][16], unpack[256][16];
  std::uint8_t bytes[256];
  std::uint16_t even[256];  ///< bit i of the index moved to bit 2i
};
inline constexpr shuffle_tables shuffles = [] {
  shuffle_tables t{};
  for (unsigned tags = 0; tags < 256; ++tags) {
    for (auto& source : t.unpack[tags]) source = 0x80;  // the shuffle writes 0
    unsigned at = 0;
    for (unsigned lane = 0; lane < 4; ++lane) {
      auto const count = static_cast<unsigned>(bytes_of_tag(tags >> 2 * lane & 3u));
      for (unsigned i = 4 - count; i < 4; ++i, ++at) {
        t.pack[tags][at] = static_cast<std::uint8_t>(4 * lane + i);
        t.unpack[tags][4 * lane + i] = static_cast<std::uint8_t>(at);
      }
    }
    t.bytes[tags] = static_cast<std::uint8_t>(at);
    for (unsigned i = 0; i < 8; ++i)
      t.even[tags] = static_cast<std::uint16_t>(t.even[tags] | (tags >> i & 1u) << 2 * i);
  }
  return t;
}();

/// A value_rule as constants of the SIMD kernels.
struct vector_rule {
  std::int32_t lowest, middle, whole;  ///< bits of the smallest floats with tags 1, 2 and 3
  float to8, to16;                     ///< factors from a value to a multiple of the unit
  float from8, from16;                 ///< factors from a payload in the upper bytes to a value
};
/// Without rounding, the factors also shift multiples to the upper bytes. Only values with 8 or 16
/// bits enter the arithmetic: denormals would be slow, and overflow or NaN would stop programs that
/// trap them.
inline vector_rule vector_rule_of(value_rule const& rule) {
  auto const first = [&](int exponent) {
    return static_cast<std::int32_t>(exponent - rule.prescale) << 23;
  };
  int const up8 = rule.nearest ? 0 : 24, up16 = rule.nearest ? 0 : 16;
  int const unit8 = rule.unit8 + rule.prescale, unit16 = rule.unit16 + rule.prescale;
  return {first(rule.lowest),        first(rule.middle),          first(whole_exponent),
          power_of_two(unit8 + up8), power_of_two(unit16 + up16), power_of_two(-unit8 - 24),
          power_of_two(-unit16 - 16)};
}

// ---- Four values

[[gnu::target("avx2"), gnu::always_inline]] inline std::byte* pack_four(__m128i payloads,
                                                                        unsigned tags,
                                                                        std::byte* at) {
  auto const* const order = reinterpret_cast<__m128i const*>(&shuffles.pack[tags]);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(at),
                   _mm_shuffle_epi8(payloads, _mm_load_si128(order)));
  return at + shuffles.bytes[tags];
}
[[gnu::target("avx2"), gnu::always_inline]] inline __m128i unpack_four(unsigned tags,
                                                                       std::byte const*& at) {
  auto const* const order = reinterpret_cast<__m128i const*>(&shuffles.unpack[tags]);
  __m128i const packed = _mm_loadu_si128(reinterpret_cast<__m128i const*>(at));
  at += shuffles.bytes[tags];
  return _mm_shuffle_epi8(packed, _mm_load_si128(order));
}

// ---- Eight values at a time

[[gnu::target("avx2"), gnu::always_inline]] inline unsigned signs_of_eight(__m256i mask) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(mask)));
}

/// Encodes n values, n a multiple of 8; returns the end of the payloads.
template <bool Nearest>
[[gnu::target("avx2")]] inline std::byte* encode_avx2(vector_rule const& r, float const* x,
                                                      std::size_t n, std::byte* tags,
                                                      std::byte* at) {
  __m256i const sign = _mm256_set1_epi32(static_cast<std::int32_t>(0x80000000u));
  __m256i const below_lowest = _mm256_set1_epi32(r.lowest - 1);
  __m256i const below_middle = _mm256_set1_epi32(r.middle - 1);
  __m256i const below_whole = _mm256_set1_epi32(r.whole - 1);
  __m256 const to8 = _mm256_set1_ps(r.to8), to16 = _mm256_set1_ps(r.to16);
  for (std::size_t i = 0; i < n; i += 8) {
    prefetch(x + i, values_ahead);
    prefetch(at, payload_ahead);
    __m256i const bits = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(x + i));
    __m256i const magnitude = _mm256_andnot_si256(sign, bits);
    __m256i const some = _mm256_cmpgt_epi32(magnitude, below_lowest);
    __m256i const middle = _mm256_cmpgt_epi32(magnitude, below_middle);
    __m256i const whole = _mm256_cmpgt_epi32(magnitude, below_whole);
    __m256i const converted = _mm256_and_si256(magnitude, _mm256_andnot_si256(whole, some));
    __m256 const multiple = _mm256_mul_ps(_mm256_castsi256_ps(converted),
                                          _mm256_blendv_ps(to8, to16, _mm256_castsi256_ps(middle)));
    __m256i payload;
    if constexpr (Nearest) {
      constexpr int to_nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
      __m256i const most =
          _mm256_blendv_epi8(_mm256_set1_epi32(0x7f), _mm256_set1_epi32(0x7fff), middle);
      __m256i const up = _mm256_blendv_epi8(_mm256_set1_epi32(24), _mm256_set1_epi32(16), middle);
      __m256i const rounded = _mm256_cvttps_epi32(_mm256_round_ps(multiple, to_nearest));
      payload = _mm256_sllv_epi32(_mm256_min_epi32(rounded, most), up);
    } else {
      payload = _mm256_cvttps_epi32(multiple);
    }
    payload = _mm256_or_si256(payload, _mm256_and_si256(bits, sign));
    payload = _mm256_blendv_epi8(payload, bits, whole);
    unsigned const high = signs_of_eight(middle),
                   low = signs_of_eight(some) ^ high ^ signs_of_eight(whole);
    auto const eight = static_cast<unsigned>(shuffles.even[low] | shuffles.even[high] << 1);
    store(tags, i / 8, static_cast<std::uint16_t>(eight));
    at = pack_four(_mm256_castsi256_si128(payload), eight & 255u, at);
    at = pack_four(_mm256_extracti128_si256(payload, 1), eight >> 8, at);
  }
  return at;
}

/// Decodes n values, n a multiple of 8; returns the end of the payloads.
template <bool Add>
[[gnu::target("avx2")]] inline std::byte const* decode_avx2(vector_rule const& r,
                                                            std::byte const* tags,
                                                            std::byte const* at, std::size_t n,
                                                            float const* addend, float* out) {
  __m256i const sign = _mm256_set1_epi32(static_cast<std::int32_t>(0x80000000u));
  __m256i const shifts = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
  __m256i const three = _mm256_set1_epi32(3);
  __m256 const from = _mm256_setr_ps(0, r.from8, r.from16, 0, 0, r.from8, r.from16, 0);
  __m256 const nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  for (std::size_t i = 0; i < n; i += 8) {
    prefetch(at, payload_ahead);
    prefetch(out + i, values_ahead);
    if constexpr (Add) prefetch(addend + i, values_ahead);
    unsigned const eight = load<std::uint16_t>(tags, i / 8);
    __m128i const first = unpack_four(eight & 255u, at);
    __m128i const second = unpack_four(eight >> 8, at);
    __m256i const bits = _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
    __m256i const kinds = _mm256_and_si256(
        _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<std::int32_t>(eight)), shifts), three);
    __m256i const multiple = _mm256_sign_epi32(_mm256_andnot_si256(sign, bits), bits);
    __m256 value =
        _mm256_mul_ps(_mm256_cvtepi32_ps(multiple), _mm256_permutevar8x32_ps(from, kinds));
    value = _mm256_blendv_ps(value, _mm256_castsi256_ps(bits),
                             _mm256_castsi256_ps(_mm256_cmpeq_epi32(kinds, three)));
    if constexpr (Add) {
      value = _mm256_add_ps(_mm256_loadu_ps(addend + i), value);
      value = _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    }
    _mm256_storeu_ps(out + i, value);
  }
  return at;
}

// ---- Sixteen values at a time, with byte compress and expand
// Uses masked intrinsics only: g++ 12 warns inside the unmasked ones.

#define HCOMP_TARGET_VBMI2 \
  [[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt")]]

inline bool moves_bytes_by_mask() {
  static bool const does = __builtin_cpu_supports("avx512vbmi2");
  return does;
}

/// Encodes n values, n a multiple of 16; returns the end of the payloads.
template <bool Nearest>
HCOMP_TARGET_VBMI2 inline std::byte* encode_avx512(vector_rule const& r, float const* x,
                                                   std::size_t n, std::byte* tags, std::byte* at) {
  constexpr __mmask16 all = 0xffff;
  __m512i const sign = _mm512_set1_epi32(static_cast<std::int32_t>(0x80000000u));
  __m512i const no_sign = _mm512_set1_epi32(0x7fffffff);
  __m512i const lowest = _mm512_set1_epi32(r.lowest), first_middle = _mm512_set1_epi32(r.middle);
  __m512i const first_whole = _mm512_set1_epi32(r.whole);
  __m512 const to8 = _mm512_set1_ps(r.to8), to16 = _mm512_set1_ps(r.to16);
  for (std::size_t i = 0; i < n; i += 16) {
    prefetch(x + i, values_ahead);
    prefetch(at, payload_ahead);
    __m512i const bits = _mm512_loadu_si512(x + i);
    __m512i const magnitude = _mm512_and_si512(bits, no_sign);
    __mmask16 const some = _mm512_cmpge_epi32_mask(magnitude, lowest);
    __mmask16 const middle = _mm512_cmpge_epi32_mask(magnitude, first_middle);
    __mmask16 const whole = _mm512_cmpge_epi32_mask(magnitude, first_whole);
    __m512 const multiple =
        _mm512_maskz_mul_ps(static_cast<__mmask16>(some & ~whole), _mm512_castsi512_ps(magnitude),
                            _mm512_mask_blend_ps(middle, to8, to16));
    __m512i payload;
    if constexpr (Nearest) {
      __m512i const most =
          _mm512_mask_blend_epi32(middle, _mm512_set1_epi32(0x7f), _mm512_set1_epi32(0x7fff));
      __m512i const up =
          _mm512_mask_blend_epi32(middle, _mm512_set1_epi32(24), _mm512_set1_epi32(16));
      __m512i const rounded = _mm512_maskz_cvt_roundps_epi32(
          some, multiple, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      payload = _mm512_maskz_sllv_epi32(all, _mm512_maskz_min_epi32(all, rounded, most), up);
    } else {
      payload = _mm512_maskz_cvttps_epi32(all, multiple);
    }
    payload = _mm512_or_si512(payload, _mm512_and_si512(bits, sign));
    payload = _mm512_mask_mov_epi32(payload, whole, bits);
    std::uint64_t const kept = _pdep_u64(some, 0x8888888888888888u) |
                               _pdep_u64(middle, 0x4444444444444444u) |
                               3 * _pdep_u64(whole, 0x1111111111111111u);
    _mm512_storeu_si512(at, _mm512_maskz_compress_epi8(kept, payload));
    at += _mm_popcnt_u64(kept);
    auto const low = static_cast<unsigned>(some ^ middle ^ whole);
    store(tags, i / 16, _pdep_u32(low, 0x55555555u) | _pdep_u32(middle, 0xaaaaaaaau));
  }
  return at;
}

/// Decodes n values, n a multiple of 16; returns the end of the payloads.
template <bool Add>
HCOMP_TARGET_VBMI2 inline std::byte const* decode_avx512(vector_rule const& r,
                                                         std::byte const* tags, std::byte const* at,
                                                         std::size_t n, float const* addend,
                                                         float* out) {
  constexpr __mmask16 all = 0xffff;
  __m512i const no_sign = _mm512_set1_epi32(0x7fffffff);
  __m512 const from8 = _mm512_set1_ps(r.from8), from16 = _mm512_set1_ps(r.from16);
  __m512 const nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
  for (std::size_t i = 0; i < n; i += 16) {
    prefetch(at, payload_ahead);
    prefetch(out + i, values_ahead);
    if constexpr (Add) prefetch(addend + i, values_ahead);
    auto const sixteen = load<std::uint32_t>(tags, i / 16);
    unsigned const low = _pext_u32(sixteen, 0x55555555u), high = _pext_u32(sixteen, 0xaaaaaaaau);
    auto const middle = static_cast<__mmask16>(high), whole = static_cast<__mmask16>(low & high);
    std::uint64_t const kept = _pdep_u64(low | high, 0x8888888888888888u) |
                               _pdep_u64(high, 0x4444444444444444u) |
                               3 * _pdep_u64(low & high, 0x1111111111111111u);
    __m512i const bits = _mm512_maskz_expand_epi8(kept, _mm512_loadu_si512(at));
    at += _mm_popcnt_u64(kept);
    __m512i multiple = _mm512_and_si512(bits, no_sign);
    multiple = _mm512_mask_sub_epi32(multiple, _mm512_movepi32_mask(bits), _mm512_setzero_si512(),
                                     multiple);
    __m512 value = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(all, multiple),
                                 _mm512_mask_blend_ps(middle, from8, from16));
    value = _mm512_mask_mov_ps(value, whole, _mm512_castsi512_ps(bits));
    if constexpr (Add) {
      value = _mm512_add_ps(_mm512_loadu_ps(addend + i), value);
      value = _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), nan);
    }
    _mm512_storeu_ps(out + i, value);
  }
  return at;
}

/// payload_bytes with the POPCNT instruction.
[[gnu::target("popcnt")]] inline std::size_t payload_bytes_popcnt(std::byte const* tags,
                                                                  std::size_t count) {
  std::size_t bytes = 0, i = 0;
  for (; i + 8 <= count; i += 8) {
    auto const word = load<std::uint64_t>(tags + i), high = word & 0xaaaaaaaaaaaaaaaau;
    bytes += static_cast<std::size_t>(_mm_popcnt_u64(word) + _mm_popcnt_u64(high) +
                                      _mm_popcnt_u64(word & high >> 1));
  }
  return bytes + payload_bytes(tags + i, count - i);
}

#undef HCOMP_TARGET_VBMI2
#endif

/// encode_values with SIMD; may overwrite slack_bytes after the payloads.
/// @param level  at most best_simd_level()
inline std::size_t encode_values(value_rule const& rule, float const* x, std::size_t n,
                                 std::byte* tags, std::byte* payload,
                                 [[maybe_unused]] simd_level level) {
  std::byte* at = payload;
  std::size_t done = 0;
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  if (level == simd_level::avx512 && moves_bytes_by_mask()) {
    done = n / 16 * 16;
    at = rule.nearest ? encode_avx512<true>(vector_rule_of(rule), x, done, tags, at)
                      : encode_avx512<false>(vector_rule_of(rule), x, done, tags, at);
  } else if (level != simd_level::baseline) {
    done = n / 8 * 8;
    at = rule.nearest ? encode_avx2<true>(vector_rule_of(rule), x, done, tags, at)
                      : encode_avx2<false>(vector_rule_of(rule), x, done, tags, at);
  }
#endif
  return static_cast<std::size_t>(at - payload) +
         encode_values(rule, x + done, n - done, tags + done / 4, at);
}

/// decode_values with SIMD; may read slack_bytes after the payloads.
/// @param level  at most best_simd_level()
inline void decode_values(value_rule const& rule, std::byte const* tags, std::byte const* payload,
                          std::size_t n, float const* addend, float* out,
                          [[maybe_unused]] simd_level level) {
  std::size_t done = 0;
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  if (level == simd_level::avx512 && moves_bytes_by_mask() && !rule.grace) {
    done = n / 16 * 16;
    payload = addend ? decode_avx512<true>(vector_rule_of(rule), tags, payload, done, addend, out)
                     : decode_avx512<false>(vector_rule_of(rule), tags, payload, done, addend, out);
  } else if (level != simd_level::baseline && !rule.grace) {
    done = n / 8 * 8;
    payload = addend ? decode_avx2<true>(vector_rule_of(rule), tags, payload, done, addend, out)
                     : decode_avx2<false>(vector_rule_of(rule), tags, payload, done, addend, out);
  }
#endif
  decode_values(rule, tags + done / 4, payload, n - done, addend ? addend + done : addend,
                out + done);
}

/// payload_bytes with the POPCNT instruction, if available.
/// @param level  at most best_simd_level()
inline std::size_t payload_bytes(std::byte const* tags, std::size_t count,
                                 [[maybe_unused]] simd_level level) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  if (level != simd_level::baseline) return payload_bytes_popcnt(tags, count);
#endif
  return payload_bytes(tags, count);
}

}  // namespace hcomp::detail::inceptionn
