#pragma once
/// @file
/// AVX-512 VBMI kernels of error_bounded_fallback for full blocks of integers of up to 48 bits.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/detail/packed_lanes.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_format.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_lanes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail::error_bounded {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// A block of 32 integers in registers, in lanes of 16, 32 or 64 bits. Counterpart of
/// integers_avx2.
template <class Lane> class integers_avx512 {
 public:
  /// Bits of an integer such that the sum of two fits in a lane.
  static constexpr int most_bits = 8 * static_cast<int>(sizeof(Lane)) - 1;

  /// Quantizes x to the nearest integers. Returns false if one is too large or x is not finite.
  /// @param error  raised to the largest error in steps
  template <class T>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] bool set(fallback_grid<T> const& grid, T const* x,
                                                     __m512d& error) {
    static_assert(sizeof(Lane) == 8);
    __m512d const inverse = _mm512_set1_pd(grid.inverse),
                  bound = _mm512_set1_pd(grid.most_by_vectors());
    __mmask8 fits = all;
    __m512d most = error;
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) {
      __m512d const multiple = _mm512_mul_pd(load(x + 8 * i), inverse);
      fits = _mm512_mask_cmp_pd_mask(fits, _mm512_abs_pd(multiple), bound, _CMP_LT_OQ);
      __m512i const steps = _mm512_maskz_cvt_roundpd_epi64(
          all, multiple, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      __m512d const whole = _mm512_maskz_cvtepi64_pd(all, steps);
      most = _mm512_maskz_max_pd(all, most, _mm512_abs_pd(_mm512_sub_pd(multiple, whole)));
      q_[i] = (lanes)steps;
    }
    if (fits != all) return false;
    error = most;
    return true;
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void take(fallback_payload const& from) {
    if constexpr (sizeof(Lane) > 2) {
      using narrow = integers_avx512<std::uint16_t>;
      if (from.mode.bits() <= narrow::most_bits) {
        narrow q;
        q.take(from);
        return widen<0>(q);
      }
    }
    if (from.mode.is_sparse()) return take_sparse(from);
    lanes_packer<Lane> const packer(from.mode.width());
    packer.unpack(from.in, q_);
    HCOMP_UNROLL for (auto& q : q_) packer.with_sign(q);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void add(integers_avx512 const& other) {
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) q_[i] += other.q_[i];
  }
  /// Properties of the block that determine its mode.
  /// @param rest  raised to the largest error of rounding to T, in steps
  template <class T>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void look(std::uint64_t& zigzags,
                                                      std::uint32_t& not_zero,
                                                      __m512d& rest) const {
    lanes most{};
    std::uint32_t marked = 0;
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) {
      of::keep_more(most, (q_[i] << 1) ^ (lanes)((whole)q_[i] >> (8 * sizeof(Lane) - 1)));
      marked |= static_cast<std::uint32_t>(of::not_zero(q_[i])) << each * i;
    }
    zigzags = of::largest_of(most);
    not_zero = marked;
    // integers of 24 bits and a sign are exact as floats
    if constexpr (std::is_same_v<T, float> && sizeof(Lane) > 2)
      if (zigzags >> 25 != 0) note_rest<0>(rest);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void read(std::byte const* in) {
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) memcpy(&q_[i], in + 64 * i, 64);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void write(std::byte* out) const {
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) memcpy(out + 64 * i, &q_[i], 64);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void put(fallback_mode mode, std::byte* out) const {
    if constexpr (sizeof(Lane) == 8) {
      using narrow = integers_avx512<std::uint16_t>;
      if (mode.bits() <= 16) {
        narrow q;
        narrow_to<0>(q);
        return q.put(mode, out);
      }
    }
    if (mode.is_sparse()) return put_sparse(mode, out);
    lanes_packer<Lane> const packer(mode.width());
    packer.pack(q_, out);
  }
  template <class T>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void get(fallback_grid<T> const& grid, T* out) const {
    write<0>(grid, out);
  }

 private:
  using lanes = lanes_512<Lane>;
  using whole = lanes_512<std::make_signed_t<Lane>>;
  using of = lanes_of<Lane>;
  static constexpr int each = 64 / static_cast<int>(sizeof(Lane)),
                       registers = static_cast<int>(block_values) / each;
  static constexpr __mmask8 all = 0xff;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void take_sparse(fallback_payload const& from) {
    std::size_t const bytes = from.mode.sparse_bytes();
    auto not_zero = hcomp::load<std::uint32_t>(from.in);
    lanes left[1];
    lanes_packer<Lane> const packer(static_cast<int>(8 * bytes));
    packer.unpack(from.in + sizeof(not_zero), left);
    packer.with_sign(left[0]);
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) {
      auto const here = static_cast<typename of::mask>(not_zero >> each * i);
      q_[i] = left[0];
      of::expand(here, q_[i]);
      if (i + 1 < registers) of::rotate(left[0], _mm_popcnt_u32(here));
    }
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void put_sparse(fallback_mode mode,
                                                            std::byte* out) const {
    Lane q[each + fallback_mode::most_sparse];
    std::uint32_t not_zero = 0;
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) {
      auto const here = of::not_zero(q_[i]);
      lanes first = q_[i];
      of::compress(here, first);
      memcpy(q + _mm_popcnt_u32(not_zero), &first, sizeof(first));
      not_zero |= static_cast<std::uint32_t>(here) << each * i;
    }
    lanes first[1];
    memcpy(first, q, sizeof(first));
    store(out, 0, not_zero);
    lanes_packer<Lane>(static_cast<int>(8 * mode.sparse_bytes()))
        .pack(first, out + sizeof(not_zero));
  }

  template <class Other> friend class integers_avx512;

  /// Converts integers of 16-bit lanes, from the I-th vector on.
  template <int I>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void widen(integers_avx512<std::uint16_t> const& from) {
    __m512i const shorts = (__m512i)from.q_[0];
    if constexpr (sizeof(Lane) == 8)
      q_[I] =
          (lanes)_mm512_maskz_cvtepi16_epi64(all, _mm512_maskz_extracti64x2_epi64(3, shorts, I));
    else
      q_[I] = (lanes)_mm512_maskz_cvtepi16_epi32(0xffff,
                                                 _mm512_maskz_extracti64x4_epi64(15, shorts, I));
    if constexpr (I + 1 < registers) widen<I + 1>(from);
  }
  /// Converts integers of up to 16 bits to 16-bit lanes, from the I-th vector on.
  template <int I>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void narrow_to(
      integers_avx512<std::uint16_t>& to) const {
    if constexpr (I == 0) to.q_[0] = lanes_512<std::uint16_t>{};
    to.q_[0] = (lanes_512<std::uint16_t>)_mm512_maskz_inserti64x2(
        all, (__m512i)to.q_[0], _mm512_maskz_cvtepi64_epi16(all, (__m512i)q_[I]), I);
    if constexpr (I + 1 < registers) narrow_to<I + 1>(to);
  }
  /// Writes the values from the I-th vector on.
  template <int I>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void write(fallback_grid<double> const& grid,
                                                       double* out) const {
    _mm512_storeu_pd(out + 8 * I, _mm512_mul_pd(doubles<I>(), _mm512_set1_pd(grid.step)));
    if constexpr (I < 3) write<I + 1>(grid, out);
  }
  template <int I>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void write(fallback_grid<float> const& grid,
                                                       float* out) const {
    _mm256_storeu_ps(out + 8 * I, _mm256_mul_ps(_mm512_maskz_cvtpd_ps(all, doubles<I>()),
                                                _mm256_set1_ps(static_cast<float>(grid.step))));
    if constexpr (I < 3) write<I + 1>(grid, out);
  }
  /// Raises `rest` to the largest error of converting integers to float, from the I-th vector on.
  template <int I> [[gnu::always_inline, HCOMP_TARGET_VBMI]] void note_rest(__m512d& rest) const {
    __m512d const exact = doubles<I>();
    __m512d const rounded = _mm512_maskz_cvtps_pd(all, _mm512_maskz_cvtpd_ps(all, exact));
    rest = _mm512_maskz_max_pd(all, rest, _mm512_abs_pd(_mm512_sub_pd(exact, rounded)));
    if constexpr (I < 3) note_rest<I + 1>(rest);
  }
  /// Integers 8 I to 8 I + 7 as doubles, exact.
  template <int I> [[gnu::always_inline, HCOMP_TARGET_VBMI]] __m512d doubles() const {
    if constexpr (sizeof(Lane) == 8)
      return _mm512_maskz_cvtepi64_pd(all, (__m512i)q_[I]);
    else if constexpr (sizeof(Lane) == 4)
      return _mm512_maskz_cvtepi32_pd(
          all, _mm512_maskz_extracti64x4_epi64(15, (__m512i)q_[I / 2], I % 2));
    else
      return _mm512_maskz_cvtepi32_pd(
          all,
          _mm256_maskz_cvtepi16_epi32(all, _mm512_maskz_extracti64x2_epi64(3, (__m512i)q_[0], I)));
  }

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512d load(double const* x) {
    return _mm512_loadu_pd(x);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512d load(float const* x) {
    return _mm512_maskz_cvtps_pd(all, _mm256_loadu_ps(x));
  }
  lanes q_[registers];
};

#pragma GCC diagnostic pop

/// Largest of non-negative numbers.
[[gnu::always_inline, HCOMP_TARGET_VBMI]] inline double largest_of(__m512d const& numbers) {
  using words = std::uint64_t;  // have the same order as the numbers
  return same_bits<double>(lanes_of<words>::largest_of((lanes_512<words>)numbers));
}

/// Sum of a block, stored until the modes of all earlier blocks are known.
struct fallback_sum_512 {
  alignas(64) std::byte integers[block_values * sizeof(std::int64_t)];
  std::uint64_t zigzags;   ///< largest zigzag
  std::uint32_t not_zero;  ///< one bit per integer: it is not 0
  int bytes;               ///< size of a lane
};
/// Largest errors in steps, per lane.
struct fallback_errors_512 {
  __m512d of_steps, of_rounding;
};

template <class Lane, class T>
[[gnu::always_inline, HCOMP_TARGET_VBMI]] inline bool sum_block_in(fallback_summands<T> const& from,
                                                                   std::size_t k,
                                                                   fallback_sum_512& sum,
                                                                   fallback_errors_512& errors) {
  integers_avx512<Lane> q;
  auto const [first, second] = from.of(k);
  if (first) {
    q.take(*first);
  } else if constexpr (sizeof(Lane) == 8) {
    if (!q.set(from.grid, from.x + k * block_values, errors.of_steps)) return false;
  }
  if (second) {
    integers_avx512<Lane> other;
    other.take(*second);
    q.add(other);
  }
  q.template look<T>(sum.zigzags, sum.not_zero, errors.of_rounding);
  q.write(sum.integers);
  sum.bytes = sizeof(Lane);
  return true;
}
template <class Lane>
[[gnu::always_inline, HCOMP_TARGET_VBMI]] inline void put_block_in(fallback_sum_512 const& sum,
                                                                   fallback_mode mode,
                                                                   std::byte* out) {
  integers_avx512<Lane> q;
  q.read(sum.integers);
  q.put(mode, out);
}
template <class Lane, class T>
[[gnu::always_inline, HCOMP_TARGET_VBMI]] inline void get_block_in(fallback_grid<T> const& grid,
                                                                   fallback_payload const& from,
                                                                   T* out) {
  integers_avx512<Lane> q;
  q.take(from);
  q.get(grid, out);
}

/// See fallback_kernels.
template <class T>
[[HCOMP_TARGET_VBMI]] std::size_t sum_blocks_avx512(fallback_summands<T> const& from,
                                                    std::size_t blocks, fallback_sums& to) {
  fallback_sum_512 sums[fallback_most_blocks];
  fallback_errors_512 errors{_mm512_setzero_pd(), _mm512_setzero_pd()};
  // loops skip blocks of zeros without a branch per block, which would be mispredicted
  std::uint32_t not_zero = from.not_zero(blocks);
  std::size_t done = blocks;
  for (std::uint32_t left = not_zero; left != 0; left &= left - 1) {
    auto const k = static_cast<std::size_t>(lowest_one(left));
    int const a = from.a ? from.a[k].mode.bits() : most_vector_bits,
              b = from.b ? from.b[k].mode.bits() : 0, bits = a > b ? a : b;
    bool is_one = false;
    if (bits <= integers_avx512<std::uint16_t>::most_bits)
      is_one = sum_block_in<std::uint16_t>(from, k, sums[k], errors);
    else if (bits <= integers_avx512<std::uint32_t>::most_bits)
      is_one = sum_block_in<std::uint32_t>(from, k, sums[k], errors);
    else
      is_one = bits <= most_vector_bits && sum_block_in<std::uint64_t>(from, k, sums[k], errors);
    if (!is_one) {
      done = k;
      not_zero &= (std::uint32_t{1} << k) - 1;
      break;
    }
  }
  std::uint64_t zigzags = 0;
  std::byte* const modes = to.modes;
  memset(modes, 0, done);
  for (std::uint32_t left = not_zero; left != 0; left &= left - 1) {
    auto const k = static_cast<std::size_t>(lowest_one(left));
    auto const& sum = sums[k];
    auto const mode = fallback_mode::of(
        sum.zigzags, static_cast<std::size_t>(_mm_popcnt_u32(sum.not_zero)), block_values);
    zigzags = sum.zigzags > zigzags ? sum.zigzags : zigzags;
    if (sum.bytes == 2)
      put_block_in<std::uint16_t>(sum, mode, to.payload);
    else if (sum.bytes == 4)
      put_block_in<std::uint32_t>(sum, mode, to.payload);
    else
      put_block_in<std::uint64_t>(sum, mode, to.payload);
    to.modes = modes + k;
    to.put(mode, block_values);
  }
  to.modes = modes + done;
  std::uint64_t const largest = (zigzags >> 1) + (zigzags & 1);
  to.largest = largest > to.largest ? largest : to.largest;
  fallback_findings::raise(to.found.error, largest_of(errors.of_steps) * from.grid.step);
  fallback_roundings<T>::note_in(from.grid, static_cast<std::int64_t>(largest),
                                 largest_of(errors.of_rounding), to.found);
  return done;
}
template <class T>
[[HCOMP_TARGET_VBMI]] std::size_t get_blocks_avx512(fallback_grid<T> const& grid,
                                                    fallback_payload const* from,
                                                    std::size_t blocks, T* out) {
  for (std::size_t k = 0; k < blocks; ++k, out += block_values) {
    int const bits = from[k].mode.bits();
    if (bits <= integers_avx512<std::uint16_t>::most_bits)
      get_block_in<std::uint16_t>(grid, from[k], out);
    else if (bits <= integers_avx512<std::uint32_t>::most_bits)
      get_block_in<std::uint32_t>(grid, from[k], out);
    else if (bits <= most_vector_bits)
      get_block_in<std::uint64_t>(grid, from[k], out);
    else
      return k;
  }
  return blocks;
}

}  // namespace hcomp::detail::error_bounded
#endif
