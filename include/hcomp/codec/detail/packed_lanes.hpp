#pragma once
/// @file
/// Packed integers with 64-byte vectors, for processors with byte permutation (VBMI): the bytes of
/// packed_integers.hpp.

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

/// Packs and unpacks vectors of integers, and can omit their lowest bits.
///
/// The integers of a 64-bit word are joined first. Eight joined words are then packed like eight
/// integers.
template <std::unsigned_integral Lane> class lanes_packer {
 public:
  using lanes = lanes_512<Lane>;
  static constexpr int lane_bits = 8 * static_cast<int>(sizeof(Lane));
  static constexpr int per_word = 64 / lane_bits;

  /// @param width     bits per packed integer, 0 to lane_bits - left_out
  /// @param left_out  number of omitted lowest bits
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] explicit lanes_packer(int width, int left_out = 0)
      : width_(width), left_out_(left_out) {}

  /// Bytes of a packed vector.
  [[gnu::always_inline]] std::size_t bytes() const {
    return static_cast<std::size_t>(word_width());
  }

  /// Packs vectors contiguously, and writes up to 64 bytes behind them. Bits of q outside the
  /// packed range are ignored.
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

  /// Unpacks contiguous vectors, and reads up to 64 bytes behind them. The lowest `width` bits of q
  /// are the integers; higher bits are unspecified until with_sign or without_sign is called.
  // Masked loads of bytes() bytes take three times as long from memory.
  template <int Count>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void unpack(std::byte const* in,
                                                        lanes (&q)[Count]) const {
    __m512i const begins = multiples(word_width());
    __m512i const bits = _mm512_set1_epi64(static_cast<std::int64_t>(bits_of_bytes()));
    if (lane_bits == 64 || word_width() > most_bits) {  // from the two words that contain an
                                                        // integer
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
    // load eight bytes from the first byte of each word on, and select each integer's bits
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
  /// Converts the result of unpack to two's complements, with zeros for omitted bits.
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
  static constexpr int most_bits = 57;  ///< any integer of this width fits into 8 bytes at every
                                        ///< bit offset

  /// Source of each packed byte, after every word is shifted up to its bit offset within a byte.
  struct order {
    std::uint8_t first[64];   ///< index for vpermi2b: from 64 on, bits shifted beyond 64 bits
    std::uint8_t second[64];  ///< index into the next word, which begins in the same byte
    std::uint64_t shared;     ///< mask of the bytes that have a second source
    std::uint8_t up[8];       ///< shift of each word, in bits
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
  /// Bit offset in a word from which each byte of its integers is taken.
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
  /// Copies the lowest byte of each word to all its bytes.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512i to_all_bytes(__m512i const& words) {
    return _mm512_maskz_shuffle_epi8(
        all_bytes, words,
        _mm512_set_epi64(0x0808080808080808, 0, 0x0808080808080808, 0, 0x0808080808080808, 0,
                         0x0808080808080808, 0));
  }

  /// Joins the integers of each word contiguously in its lowest bits.
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
  /// Joins integers in the highest bits of lanes to pairs in the lowest bits of lanes twice as
  /// wide.
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
  /// Packs words of up to 8 bits.
  template <int Count>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void pack_short(lanes const (&q)[Count],
                                                            std::byte* out) const {
    std::uint64_t const kept = 0x0101010101010101u * ((1u << word_width()) - 1);  // mask of the
                                                                                  // used bits of
                                                                                  // each byte
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
