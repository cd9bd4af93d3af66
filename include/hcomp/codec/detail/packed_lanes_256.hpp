#pragma once
/// @file
/// Packed integers by vectors of 32 bytes, by AVX2: the bytes of packed_integers.hpp.

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

/// Packs and unpacks integers of 32 or 64 bits, of which so many of the lowest bits are left out.
///
/// AVX2 moves bytes only within 16 bytes. These are a half of a vector, and what is packed of it
/// begins in some byte, which it may share with the last integer of the half before it.
template <std::unsigned_integral Lane> class lanes_packer_256 {
  using of = lanes_256_of<Lane>;
  static constexpr std::size_t lane_bytes = sizeof(Lane), per_half = 16 / lane_bytes;
  /// Vectors of eight integers, behind which bytes begin as in front of them.
  static constexpr std::size_t together = 8 / (2 * per_half);

 public:
  using lanes = typename of::lanes;

  /// @param width     of each integer, 0 to all bits - left_out
  /// @param left_out  bits below those
  [[HCOMP_INLINE_AVX2]] explicit lanes_packer_256(int width, int left_out = 0)
      : width_(width), left_out_(left_out) {}

  /// Writes vectors, one behind the other, and up to 16 bytes behind them. Other bits of q may be
  /// anything.
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

  /// Reads vectors, one behind the other, and up to 17 bytes behind them. The lowest `width` bits of
  /// q become those of integers, and above there may be others: with_sign or without_sign goes next.
  template <std::size_t Count>
  [[HCOMP_INLINE_AVX2]] void unpack(std::byte const* in, lanes (&q)[Count]) const {
    if (width_ <= of::bits - 7)  // which are in the bytes of a lane wherever they begin
      unpack_from<false>(in, q);
    else
      unpack_from<true>(in, q);
  }
  /// What unpack has set becomes two's complements, with zeros for what is left out.
  [[HCOMP_INLINE_AVX2]] lanes with_sign(lanes const& q) const {
    return of::down_with_sign(of::up(q, unused()), unused() - left_out_);
  }
  [[HCOMP_INLINE_AVX2]] lanes without_sign(lanes const& q) const {
    return of::down(of::up(q, unused()), unused() - left_out_);
  }

 private:
  /// Where the bytes of a vector are. Packed, an integer begins in some bit of its first byte: of it
  /// moved up so far, that byte is the lowest, and the rest is moved down by 8 bits.
  struct order {
    Lane up[of::count] = {};    ///< by so many bits
    std::uint8_t all[32] = {};  ///< of each integer, packed, as many bytes as a lane has
    // of each packed byte; from 128 on, there is none
    std::uint8_t first[32] = {};  ///< which integer begins there
    std::uint8_t rest[32] = {};   ///< which byte of a rest it is
    std::uint8_t last[32] = {};  ///< the byte of a rest in which the next half begins, as its first
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
  /// In which byte so many halves end.
  std::size_t begin(std::size_t halves) const { return halves * per_half * width() / 8; }

  [[HCOMP_INLINE_AVX2]] static __m256i bytes(std::uint8_t const (&places)[32]) {
    return _mm256_loadu_si256((__m256i const*)places);
  }
  [[HCOMP_INLINE_AVX2]] static __m256i halves(std::byte const* lower, std::byte const* upper) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((__m128i const*)lower)),
                                   _mm_loadu_si128((__m128i const*)upper), 1);
  }
  /// The bits that are packed, lowest.
  [[HCOMP_INLINE_AVX2]] lanes alone(lanes const& q) const {
    return of::down(of::up(q, unused() - left_out_), unused());
  }
  /// @tparam NextByte  an integer may be in one byte more than a lane has
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
  /// Of less than 8 bits: many may be in a byte, and eight are in a word.
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
