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
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// Packs and unpacks vectors of integers, of which so many of the lowest bits are left out.
///
/// Integers that are in one word of 64 bits are joined there, and eight words are packed as eight
/// integers are.
template <std::unsigned_integral Lane> class lanes_packer {
 public:
  using lanes = lanes_512<Lane>;
  static constexpr int lane_bits = 8 * static_cast<int>(sizeof(Lane));
  static constexpr int per_word = 64 / lane_bits;

  /// @param width     of each integer, 0 to lane_bits - left_out
  /// @param left_out  bits below those
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] explicit lanes_packer(int width, int left_out = 0)
      : width_(width), left_out_(left_out) {}

  /// Bytes of a packed vector.
  [[gnu::always_inline]] std::size_t bytes() const {
    return static_cast<std::size_t>(word_width());
  }

  /// Writes vectors, one behind the other, and up to 64 bytes behind them. Other bits of q may be
  /// anything.
  template <int Count>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void pack(lanes const (&q)[Count],
                                                      std::byte* out) const {
    if (word_width() <= 8) return pack_short(q, out);
    auto const& order = orders[bytes()];
    __m512i const first_bytes = _mm512_loadu_si512(order.first),
                  second_bytes = _mm512_loadu_si512(order.second);
    __m512i const up = _mm512_maskz_cvtepu8_epi64(all, _mm_loadl_epi64((__m128i const*)order.up));
    __m512i const beyond = _mm512_maskz_sub_epi64(all, _mm512_set1_epi64(64), up);
    __mmask64 const shared = order.shared;
    HCOMP_UNROLL for (int i = 0; i < Count; ++i) {
      lanes_512<std::uint64_t> joined;
      join(q[i], joined);
      auto const words = (__m512i)joined;
      __m512i const moved = _mm512_maskz_sllv_epi64(all, words, up);
      __m512i const first = _mm512_maskz_permutex2var_epi8(
          all_bytes, moved, first_bytes, _mm512_maskz_srlv_epi64(all, words, beyond));
      __m512i const second = _mm512_maskz_permutexvar_epi8(shared, second_bytes, moved);
      _mm512_storeu_si512(out + i * word_width(), _mm512_or_si512(first, second));
    }
  }

  /// Reads vectors, one behind the other, and up to 64 bytes behind them. The lowest `width` bits of
  /// q become those of integers, and above there may be others: with_sign or without_sign goes next.
  // Loads with a mask, of bytes() alone, take three times as long where they are from memory.
  template <int Count>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void unpack(std::byte const* in,
                                                        lanes (&q)[Count]) const {
    __m512i const begins = multiples(word_width());
    __m512i const bits = _mm512_set1_epi64(static_cast<std::int64_t>(bits_of_bytes()));
    if (lane_bits == 64 || word_width() > most_bits) {  // from the two words that one is in
      __m512i const first = _mm512_maskz_srli_epi64(all, begins, 6);
      __m512i const second = _mm512_maskz_add_epi64(all, first, _mm512_set1_epi64(1));
      HCOMP_UNROLL for (int i = 0; i < Count; ++i) {
        __m512i const packed = _mm512_loadu_si512(in + i * word_width());
        __m512i const word =
            _mm512_maskz_shrdv_epi64(all, _mm512_maskz_permutexvar_epi64(all, first, packed),
                                     _mm512_maskz_permutexvar_epi64(all, second, packed), begins);
        q[i] = (lanes)(lane_bits == 64 ? word
                                       : _mm512_maskz_multishift_epi64_epi8(all_bytes, bits, word));
      }
      return;
    }
    // eight bytes from the first of each word on, and of these, those of each integer
    __m512i const places =
        _mm512_maskz_add_epi8(all_bytes, to_all_bytes(_mm512_maskz_srli_epi64(all, begins, 3)),
                              _mm512_set1_epi64(0x0706050403020100));
    __m512i const from = _mm512_maskz_add_epi8(
        all_bytes, to_all_bytes(_mm512_and_si512(begins, _mm512_set1_epi64(7))), bits);
    HCOMP_UNROLL for (int i = 0; i < Count; ++i) {
      __m512i const packed = _mm512_loadu_si512(in + i * word_width());
      q[i] = (lanes)_mm512_maskz_multishift_epi64_epi8(
          all_bytes, from, _mm512_maskz_permutexvar_epi8(all_bytes, places, packed));
    }
  }
  /// What unpack has set becomes two's complements, with zeros for what is left out.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void with_sign(lanes& q) const {
    of::shift_up(q, unused());
    of::shift_down_with_sign(q, unused() - left_out_);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void without_sign(lanes& q) const {
    of::shift_up(q, unused());
    of::shift_down(q, unused() - left_out_);
  }

 private:
  using of = lanes_of<Lane>;
  static constexpr __mmask8 all = 0xff;
  static constexpr __mmask64 all_bytes = ~__mmask64{0};
  static constexpr int most_bits = 57;  ///< which are in 8 bytes wherever they begin

  /// Which word's byte each of the packed ones is, where every word has been shifted up to the bit
  /// at which it begins in a byte.
  struct order {
    std::uint8_t first[64];   ///< for vpermi2b: from 64 on, of what was shifted beyond 64 bits
    std::uint8_t second[64];  ///< of the word behind that, which begins in the same byte
    std::uint64_t shared;     ///< bytes that have a second
    std::uint8_t up[8];       ///< by so many bits
  };
  static constexpr auto orders = [] {
    std::array<order, 64 + 1> all_orders{};
    for (std::size_t width = 8; width <= 64; ++width) {
      order& one = all_orders[width];
      for (std::size_t i = 0; i < 8; ++i) one.up[i] = static_cast<std::uint8_t>(i * width % 8);
      for (std::size_t k = 0; k < width; ++k) {
        std::size_t const i = 8 * k / width, next = i + 1, byte = k - i * width / 8;
        one.first[k] = static_cast<std::uint8_t>(8 * i + (byte < 8 ? byte : 64));
        if (next == 8 || next * width / 8 != k) continue;
        one.second[k] = static_cast<std::uint8_t>(8 * next);
        one.shared |= std::uint64_t{1} << k;
      }
    }
    return all_orders;
  }();

  [[gnu::always_inline]] int word_width() const { return per_word * width_; }
  /// Bits of a lane above an integer.
  [[gnu::always_inline]] int unused() const { return lane_bits - width_; }
  /// Of a word, from which bit on each byte of its integers is taken.
  [[gnu::always_inline]] std::uint64_t bits_of_bytes() const {
    auto const width = static_cast<std::uint64_t>(width_);
    if constexpr (lane_bits == 16) return 0x0800080008000800 + width * 0x0303020201010000;
    if constexpr (lane_bits == 32) return 0x1810080018100800 + width * 0x0101010100000000;
    return 0x3830282018100800;
  }

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
    lanes top = q;
    of::shift_up(top, unused() - left_out_);
    if constexpr (lane_bits == 64) {
      words = top;
      of::shift_down(words, unused());
    } else if constexpr (lane_bits == 32) {
      join_pairs<std::uint32_t, std::uint64_t>(top, width_, words);
    } else {
      lanes_512<std::uint32_t> pairs;
      join_pairs<std::uint16_t, std::uint32_t>(top, width_, pairs);
      lanes_of<std::uint32_t>::shift_up(pairs, 2 * unused());
      join_pairs<std::uint32_t, std::uint64_t>(pairs, 2 * width_, words);
    }
  }
  /// Integers in the highest bits of lanes, to pairs in the lowest bits of lanes of twice as many.
  template <class One, class Two>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void join_pairs(lanes_512<One> const& q,
                                                                   int width,
                                                                   lanes_512<Two>& pairs) {
    constexpr int bits = 8 * static_cast<int>(sizeof(One));
    lanes_512<One> closer = q;
    lanes_of<One>::shift_odd_down(closer, bits - width);
    pairs = (lanes_512<Two>)closer;
    lanes_of<Two>::shift_down(pairs, bits - width);
  }
  /// Words of up to 8 bits.
  template <int Count>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void pack_short(lanes const (&q)[Count],
                                                            std::byte* out) const {
    std::uint64_t const kept = 0x0101010101010101u * ((1u << word_width()) - 1);  // of each byte
    HCOMP_UNROLL for (int i = 0; i < Count; ++i) {
      lanes_512<std::uint64_t> words;
      join(q[i], words);
      auto const low = static_cast<std::uint64_t>(
          _mm_cvtsi128_si64(_mm512_maskz_cvtepi64_epi8(all, (__m512i)words)));
      store(out + i * word_width(), 0, _pext_u64(low, kept));
    }
  }

  int width_, left_out_;
};

#pragma GCC diagnostic pop

}  // namespace hcomp::detail
#endif
