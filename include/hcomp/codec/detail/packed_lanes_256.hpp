#pragma once
/// @file
/// Packed integers with 32-byte vectors (AVX2): the bytes of packed_integers.hpp.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lanes_256.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// Packs and unpacks integers of 32 or 64 bits, and can omit their lowest bits.
///
/// AVX2 moves bytes only within 16 bytes, half a vector. A packed half begins in some byte, which
/// it may share with the last integer of the previous half.
template <std::unsigned_integral Lane> class lanes_packer_256 {
  using of = lanes_256_of<Lane>;
  static constexpr std::size_t lane_bytes = sizeof(Lane), per_half = 16 / lane_bytes;
  /// Number of vectors that hold eight integers: the next vector begins at the same bit offset.
  static constexpr std::size_t together = 8 / (2 * per_half);

 public:
  using lanes = typename of::lanes;

  /// @param width     bits per packed integer, 0 to all bits - left_out
  /// @param left_out  number of omitted lowest bits
  [[HCOMP_INLINE_AVX2]] explicit lanes_packer_256(int width, int left_out = 0)
      : width_(width), left_out_(left_out) {}

  /// Packs vectors contiguously, and writes up to 16 bytes behind them. Bits of q outside the
  /// packed range are ignored.
  template <std::size_t Count>
  [[HCOMP_INLINE_AVX2]] void pack(lanes const (&q)[Count], std::byte* out) const {
    static_assert(Count % together == 0);
    if (width_ < 8) return pack_short(q, out);
    __m256i before = _mm256_setzero_si256();
    HCOMP_UNROLL for (std::size_t i = 0; i < Count; ++i) {
      auto const& to = orders[width()][i % together];
      lanes const one = alone(q[i]), up = of::load(to.up);
      __m256i const rest = (__m256i)of::down(one, 8 - up),
                    last = _mm256_shuffle_epi8(rest, bytes(to.last));
      __m256i packed =
          _mm256_or_si256(_mm256_shuffle_epi8((__m256i)of::up(one, up), bytes(to.first)),
                          _mm256_shuffle_epi8(rest, bytes(to.rest)));
      packed = _mm256_or_si256(packed, _mm256_permute2x128_si256(before, last, 0x21));
      before = last;
      std::size_t const half = 2 * (i % together);
      _mm_storeu_si128((__m128i*)(out + begin(half)), _mm256_castsi256_si128(packed));
      _mm_storeu_si128((__m128i*)(out + begin(half + 1)), _mm256_extracti128_si256(packed, 1));
      if ((i + 1) % together == 0) out += width();
    }
  }

  /// Unpacks contiguous vectors, and reads up to 17 bytes behind them. The lowest `width` bits of q
  /// are the integers; higher bits are unspecified until with_sign or without_sign is called.
  template <std::size_t Count>
  [[HCOMP_INLINE_AVX2]] void unpack(std::byte const* in, lanes (&q)[Count]) const {
    if (width_ <= of::bits - 7)  // an integer of this width fits into the bytes of a lane at every
                                 // bit offset
      unpack_from<false>(in, q);
    else
      unpack_from<true>(in, q);
  }
  /// Converts the result of unpack to two's complements, with zeros for omitted bits.
  [[HCOMP_INLINE_AVX2]] lanes with_sign(lanes const& q) const {
    return of::down_with_sign(of::up(q, unused()), unused() - left_out_);
  }
  [[HCOMP_INLINE_AVX2]] lanes without_sign(lanes const& q) const {
    return of::down(of::up(q, unused()), unused() - left_out_);
  }

 private:
  /// Source of each byte of a vector. A packed integer begins at some bit of its first byte.
  /// `first` takes this byte from the integer shifted up to that bit. The remaining bytes come from
  /// the integer shifted down by 8 minus that bit: the rest.
  struct order {
    Lane up[of::count] = {};    ///< shift of each integer, in bits
    std::uint8_t all[32] = {};  ///< for unpacking: the bytes of each packed integer, one lane wide
    // per packed byte; 128 and above: no source
    std::uint8_t first[32] = {};  ///< byte of the integer that begins there
    std::uint8_t rest[32] = {};   ///< byte of a rest
    std::uint8_t last[32] = {};  ///< byte of a rest that falls into the first byte of the next half
  };
  static constexpr auto orders = [] {
    std::array<std::array<order, together>, of::bits + 1> all_orders{};
    for (std::size_t width = 0; width <= of::bits; ++width)
      for (std::size_t half = 0; half < 2 * together; ++half) {
        order& one = all_orders[width][half / 2];
        std::size_t const at = half % 2 * 16, integer = half * per_half,
                          begin = integer * width / 8, next = (integer + per_half) * width / 8;
        for (std::size_t k = at; k < at + 16; ++k) one.first[k] = one.rest[k] = one.last[k] = 128;
        for (std::size_t i = 0; i < per_half; ++i) {
          std::size_t const bit = (integer + i) * width, byte = bit / 8 - begin;
          one.up[at / lane_bytes + i] = static_cast<Lane>(bit % 8);
          for (std::size_t k = 0; k < lane_bytes; ++k) {
            auto const of_lane = static_cast<std::uint8_t>(i * lane_bytes + k);
            one.all[at + of_lane] = static_cast<std::uint8_t>(byte + k);
            if (width < 8) continue;
            if (k == 0) one.first[at + byte] = of_lane;
            if (8 * (k + 1) >= bit % 8 + width) continue;
            if (byte + 1 + k == next - begin)
              one.last[at] = of_lane;
            else
              one.rest[at + byte + 1 + k] = of_lane;
          }
        }
      }
    return all_orders;
  }();

  std::size_t width() const { return static_cast<std::size_t>(width_); }
  /// Bits of a lane above an integer.
  int unused() const { return of::bits - width_; }
  /// Byte in which the given number of halves ends.
  std::size_t begin(std::size_t halves) const { return halves * per_half * width() / 8; }

  [[HCOMP_INLINE_AVX2]] static __m256i bytes(std::uint8_t const (&places)[32]) {
    return _mm256_loadu_si256((__m256i const*)places);
  }
  [[HCOMP_INLINE_AVX2]] static __m256i halves(std::byte const* lower, std::byte const* upper) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((__m128i const*)lower)),
                                   _mm_loadu_si128((__m128i const*)upper), 1);
  }
  /// The packed bits, in the lowest bits.
  [[HCOMP_INLINE_AVX2]] lanes alone(lanes const& q) const {
    return of::down(of::up(q, unused() - left_out_), unused());
  }
  /// @tparam NextByte  an integer may span one byte more than a lane has
  template <bool NextByte, std::size_t Count>
  [[HCOMP_INLINE_AVX2]] void unpack_from(std::byte const* in, lanes (&q)[Count]) const {
    static_assert(Count % together == 0);
    HCOMP_UNROLL for (std::size_t i = 0; i < Count; ++i) {
      auto const& from = orders[width()][i % together];
      std::size_t const half = 2 * (i % together);
      std::byte const *const lower = in + begin(half), *const upper = in + begin(half + 1);
      lanes const up = of::load(from.up);
      q[i] = of::down((lanes)_mm256_shuffle_epi8(halves(lower, upper), bytes(from.all)), up);
      if constexpr (NextByte)
        q[i] |= of::up((lanes)_mm256_shuffle_epi8(halves(lower + 1, upper + 1), bytes(from.all)),
                       8 - up);
      if ((i + 1) % together == 0) in += width();
    }
  }
  /// Packs integers of less than 8 bits: a byte may hold several, and eight fit into a word.
  template <std::size_t Count>
  [[HCOMP_INLINE_AVX2]] void pack_short(lanes const (&q)[Count], std::byte* out) const {
    using of_words = lanes_256_of<std::uint64_t>;
    using words = typename of_words::lanes;
    auto const one = static_cast<std::uint64_t>(width_);
    words const places{0, one, 2 * one, 3 * one};
    HCOMP_UNROLL for (std::size_t i = 0; i < Count; i += together, out += width_) {
      lanes const first = alone(q[i]);
      words four = (words)first, behind;
      if constexpr (of::bits == 64) {
        behind = alone(q[i + 1]);
      } else {
        four = (words)_mm256_cvtepu32_epi64(_mm256_castsi256_si128((__m256i)first));
        behind = (words)_mm256_cvtepu32_epi64(_mm256_extracti128_si256((__m256i)first, 1));
      }
      four |= of_words::up(behind, 4 * width_);
      hcomp::store(out, 0, of_words::any_of(of_words::up(four, places)));
    }
  }

  int width_, left_out_;
};

#pragma GCC diagnostic pop

}  // namespace hcomp::detail
#endif
