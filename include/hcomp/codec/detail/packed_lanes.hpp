#pragma once
/// @file
/// Packed integers by vectors of 64 bytes, on processors that can put those into any order: the
/// bytes of packed_integers.hpp.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/detail/packed_integers.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// Packs and unpacks vectors of integers.
///
/// Integers that are in one word of 64 bits are joined there, and eight words are packed as eight
/// integers are.
template <std::unsigned_integral Lane> class lanes_packer {
 public:
  using lanes = lanes_512<Lane>;
  static constexpr int lane_bits = 8 * static_cast<int>(sizeof(Lane));
  static constexpr int per_word = 64 / lane_bits;

  /// @param width  of each integer, 0 to lane_bits
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] explicit lanes_packer(int width) : width_(width) {}

  /// Bytes of a packed vector.
  [[gnu::always_inline]] std::size_t bytes() const {
    return static_cast<std::size_t>(word_width());
  }

  /// Writes 64 bytes, of which the first bytes() count.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void pack(lanes const& q, std::byte* out) const {
    _mm512_storeu_si512(out, packed(q));
  }

  /// Reads 64 bytes, of which the first bytes() count. Above the lowest `width` bits of integers there
  /// may be others: with_sign or without_sign goes next.
  // A load with a mask, of bytes() alone, takes three times as long where it is from memory.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void unpack(std::byte const* in, lanes& q) const {
    __m512i const packed = _mm512_loadu_si512(in);
    __m512i const bits = _mm512_set1_epi64(static_cast<std::int64_t>(bits_of_bytes()));
    if (word_width() > most_bits) {
      __m512i const word =
          _mm512_maskz_shldv_epi64(all, packed, _mm512_maskz_alignr_epi64(all, packed, zero(), 7),
                                   multiples(64 - word_width()));
      q = (lanes)(lane_bits == 64 ? word
                                  : _mm512_maskz_multishift_epi64_epi8(all_bytes, bits, word));
      return;
    }
    // eight bytes from the first of each word on, and of these, those of each integer
    __m512i const begins = multiples(word_width());
    __m512i const places =
        _mm512_maskz_add_epi8(all_bytes, to_all_bytes(_mm512_maskz_srli_epi64(all, begins, 3)),
                              _mm512_set1_epi64(0x0706050403020100));
    __m512i const from = _mm512_maskz_add_epi8(
        all_bytes, to_all_bytes(_mm512_and_si512(begins, _mm512_set1_epi64(7))), bits);
    q = (lanes)_mm512_maskz_multishift_epi64_epi8(
        all_bytes, from, _mm512_maskz_permutexvar_epi8(all_bytes, places, packed));
  }

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void with_sign(lanes& q) const {
    auto const sign = static_cast<Lane>(lowest_bits() ^ lowest_bits() >> 1);
    q = ((q & lowest_bits()) ^ sign) - sign;
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void without_sign(lanes& q) const {
    q &= lowest_bits();
  }

 private:
  static constexpr __mmask8 all = 0xff;
  static constexpr __mmask64 all_bytes = ~__mmask64{0};
  static constexpr int most_bits = 57;  ///< which are in 8 bytes wherever they begin

  /// Which word's byte each of the packed ones is.
  struct order {
    std::uint8_t first[64];   ///< for vpermb
    std::uint8_t second[64];  ///< of the word behind that, which begins in the same byte
    std::uint64_t shared;     ///< bytes that have a second
  };
  static constexpr auto orders = [] {
    std::array<order, most_bits + 1> all_orders{};
    for (std::size_t width = 8; width <= most_bits; ++width)
      for (std::size_t k = 0; k < width; ++k) {
        std::size_t const i = 8 * k / width, next = i + 1;
        all_orders[width].first[k] = static_cast<std::uint8_t>(8 * i + k - i * width / 8);
        if (next == 8 || next * width / 8 != k) continue;
        all_orders[width].second[k] = static_cast<std::uint8_t>(8 * next);
        all_orders[width].shared |= std::uint64_t{1} << k;
      }
    return all_orders;
  }();

  [[gnu::always_inline]] int word_width() const { return per_word * width_; }
  [[gnu::always_inline]] Lane lowest_bits() const {
    return static_cast<Lane>(detail::without_sign(-1, width_));
  }
  /// Of a word, from which bit on each byte of its integers is taken.
  [[gnu::always_inline]] std::uint64_t bits_of_bytes() const {
    auto const width = static_cast<std::uint64_t>(width_);
    if constexpr (lane_bits == 16) return 0x0800080008000800 + width * 0x0303020201010000;
    if constexpr (lane_bits == 32) return 0x1810080018100800 + width * 0x0101010100000000;
    return 0x3830282018100800;
  }

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512i zero() { return _mm512_setzero_si512(); }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512i multiples(int of) {
    return _mm512_maskz_mul_epu32(all, _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
                                  _mm512_set1_epi64(of));
  }
  /// Of the lowest byte of each word.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512i to_all_bytes(__m512i const& words) {
    return _mm512_maskz_shuffle_epi8(
        all_bytes, words,
        _mm512_set_epi64(0x0808080808080808, 0, 0x0808080808080808, 0, 0x0808080808080808, 0,
                         0x0808080808080808, 0));
  }

  /// The integers of each word, one behind the other in its lowest bits.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void join(lanes const& q,
                                                      lanes_512<std::uint64_t>& words) const {
    lanes const bits = q & lowest_bits();
    if constexpr (lane_bits == 16) {
      auto const pairs = (lanes_512<std::uint32_t>)bits;
      words = (lanes_512<std::uint64_t>)((pairs & 0xffffu) | pairs >> 16 << width_);
    } else {
      words = (lanes_512<std::uint64_t>)bits;
    }
    if constexpr (lane_bits < 64) words = (words & 0xffffffffu) | words >> 32 << (word_width() / 2);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] __m512i packed(lanes const& q) const {
    lanes_512<std::uint64_t> joined;
    join(q, joined);
    auto const words = (__m512i)joined;
    if (word_width() <= 8) {
      std::uint64_t const kept = 0x0101010101010101u * ((1u << word_width()) - 1);  // of each byte
      auto const low =
          static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm512_maskz_cvtepi64_epi8(all, words)));
      return _mm512_zextsi128_si512(
          _mm_cvtsi64_si128(static_cast<std::int64_t>(_pext_u64(low, kept))));
    }
    if (word_width() > most_bits) {
      int const unused = 64 - word_width();
      return _mm512_maskz_shrdv_epi64(
          all, (__m512i)(joined << unused), _mm512_maskz_alignr_epi64(all, zero(), words, 1),
          (__m512i)((lanes_512<std::int64_t>)multiples(unused) + unused));
    }
    auto const& order = orders[bytes()];
    __m512i const moved = _mm512_maskz_sllv_epi64(
        all, words, _mm512_and_si512(multiples(word_width()), _mm512_set1_epi64(7)));
    __m512i const first =
        _mm512_maskz_permutexvar_epi8(all_bytes, _mm512_loadu_si512(order.first), moved);
    __m512i const second =
        _mm512_maskz_permutexvar_epi8(order.shared, _mm512_loadu_si512(order.second), moved);
    return _mm512_or_si512(first, second);
  }

  int width_;
};

#pragma GCC diagnostic pop

}  // namespace hcomp::detail
#endif
