#pragma once
/// @file
/// Whole blocks of error_bounded_fine, of integers of up to 48 bits, by AVX-512 with VBMI.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/detail/packed_lanes.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/detail/fine_format.hpp>
#include <hcomp/codec/error_bounded/detail/fine_lanes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail::error_bounded {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// 32 integers, as integers_avx2, in lanes of 16, 32 or 64 bits.
template <class Lane> class integers_avx512 {
 public:
  /// A lane has room for the sum of two such integers.
  static constexpr int most_bits = 8 * static_cast<int>(sizeof(Lane)) - 1;

  template <class T>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] bool set(fine_grid<T> const& grid, T const* x,
                                                     fine_findings& found) {
    static_assert(sizeof(Lane) == 8);
    __m512d const inverse = _mm512_set1_pd(grid.inverse),
                  bound = _mm512_set1_pd(grid.most_by_vectors());
    __mmask8 fits = all;
    __m512d error = _mm512_setzero_pd();
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) {
      __m512d const multiple = _mm512_mul_pd(load(x + 8 * i), inverse);
      fits = _mm512_mask_cmp_pd_mask(fits, _mm512_abs_pd(multiple), bound, _CMP_LT_OQ);
      __m512i const steps = _mm512_maskz_cvt_roundpd_epi64(
          all, multiple, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      __m512d const whole = _mm512_maskz_cvtepi64_pd(all, steps);
      error = _mm512_maskz_max_pd(all, error, _mm512_abs_pd(_mm512_sub_pd(multiple, whole)));
      q_[i] = (lanes)steps;
    }
    if (fits != all) return false;
    fine_findings::raise(found.error, largest_of(error) * grid.step);
    return true;
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void take(fine_payload const& from) {
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
  /// Notes what fine_block::note_rounding does.
  template <class T>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] fine_sizes look(fine_grid<T> const& grid,
                                                            fine_findings& found) const {
    lanes zigzags{};
    std::uint32_t not_zero = 0;
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) {
      of::keep_more(zigzags, (q_[i] << 1) ^ (lanes)((whole)q_[i] >> (8 * sizeof(Lane) - 1)));
      not_zero |= static_cast<std::uint32_t>(of::not_zero(q_[i])) << each * i;
    }
    std::uint64_t const largest = of::largest_of(zigzags), steps = (largest >> 1) + (largest & 1);
    double rest = 0;
    if constexpr (std::is_same_v<T, float> && sizeof(Lane) > 2) {
      __m512d rests = _mm512_setzero_pd();
      note_rest<0>(rests);
      rest = largest_of(rests);
    }
    fine_block<T>::note_largest_steps(grid, static_cast<std::int64_t>(steps), rest, found);
    return {steps, largest, static_cast<std::size_t>(_mm_popcnt_u32(not_zero))};
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void put(fine_mode mode, std::byte* out) const {
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
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void get(fine_grid<T> const& grid, T* out) const {
    write<0>(grid, out);
  }

 private:
  using lanes = lanes_512<Lane>;
  using whole = lanes_512<std::make_signed_t<Lane>>;
  using of = lanes_of<Lane>;
  static constexpr int each = 64 / static_cast<int>(sizeof(Lane)),
                       registers = static_cast<int>(block_values) / each;
  static constexpr __mmask8 all = 0xff;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void take_sparse(fine_payload const& from) {
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
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void put_sparse(fine_mode mode, std::byte* out) const {
    Lane q[each + fine_mode::most_sparse];
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

  /// The same integers as those of narrower lanes, from the I-th vector on.
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
  /// The opposite, for integers of no more than 16 bits.
  template <int I>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void narrow_to(
      integers_avx512<std::uint16_t>& to) const {
    if constexpr (I == 0) to.q_[0] = lanes_512<std::uint16_t>{};
    to.q_[0] = (lanes_512<std::uint16_t>)_mm512_maskz_inserti64x2(
        all, (__m512i)to.q_[0], _mm512_maskz_cvtepi64_epi16(all, (__m512i)q_[I]), I);
    if constexpr (I + 1 < registers) narrow_to<I + 1>(to);
  }
  /// Values from the I-th vector on.
  template <int I>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void write(fine_grid<double> const& grid,
                                                       double* out) const {
    _mm512_storeu_pd(out + 8 * I, _mm512_mul_pd(doubles<I>(), _mm512_set1_pd(grid.step)));
    if constexpr (I < 3) write<I + 1>(grid, out);
  }
  template <int I>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void write(fine_grid<float> const& grid,
                                                       float* out) const {
    _mm256_storeu_ps(out + 8 * I, _mm256_mul_ps(_mm512_maskz_cvtpd_ps(all, doubles<I>()),
                                                _mm256_set1_ps(static_cast<float>(grid.step))));
    if constexpr (I < 3) write<I + 1>(grid, out);
  }
  /// Raises it to how far integers from the I-th vector on are off when they become floats.
  template <int I> [[gnu::always_inline, HCOMP_TARGET_VBMI]] void note_rest(__m512d& rest) const {
    __m512d const exact = doubles<I>();
    __m512d const rounded = _mm512_maskz_cvtps_pd(all, _mm512_maskz_cvtpd_ps(all, exact));
    rest = _mm512_maskz_max_pd(all, rest, _mm512_abs_pd(_mm512_sub_pd(exact, rounded)));
    if constexpr (I < 3) note_rest<I + 1>(rest);
  }
  /// Integers 8 I to 8 I + 7, exact.
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
  /// Of numbers that are not negative.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static double largest_of(__m512d const& numbers) {
    using words = std::uint64_t;  // in the same order
    return same_bits<double>(lanes_of<words>::largest_of((lanes_512<words>)numbers));
  }

  lanes q_[registers];
};

#pragma GCC diagnostic pop

template <class Lane, class T>
[[gnu::always_inline, HCOMP_TARGET_VBMI]] inline bool sum_block_in(fine_summands<T> const& from,
                                                                   std::byte* out,
                                                                   fine_findings& found,
                                                                   fine_sum& made) {
  integers_avx512<Lane> q;
  if (from.a.in) {
    q.take(from.a);
  } else if constexpr (sizeof(Lane) == 8) {
    if (!q.set(from.grid, from.x, found)) return false;
  }
  if (from.b.in) {
    integers_avx512<Lane> other;
    other.take(from.b);
    q.add(other);
  }
  auto const sizes = q.look(from.grid, found);
  made = {sizes.mode(block_values), sizes.largest};
  q.put(made.mode, out);
  return true;
}
template <class Lane, class T>
[[gnu::always_inline, HCOMP_TARGET_VBMI]] inline void get_block_in(fine_grid<T> const& grid,
                                                                   fine_payload const& from,
                                                                   T* out) {
  integers_avx512<Lane> q;
  q.take(from);
  q.get(grid, out);
}

/// False if x has other values.
template <class T>
[[HCOMP_TARGET_VBMI]] bool sum_block_avx512(fine_summands<T> const& from, std::byte* out,
                                            fine_findings& found, fine_sum& made) {
  int const a = from.a.mode.bits(), b = from.b.mode.bits(), bits = a > b ? a : b;
  if (from.a.in && bits <= integers_avx512<std::uint16_t>::most_bits)
    return sum_block_in<std::uint16_t>(from, out, found, made);
  if (from.a.in && bits <= integers_avx512<std::uint32_t>::most_bits)
    return sum_block_in<std::uint32_t>(from, out, found, made);
  return sum_block_in<std::uint64_t>(from, out, found, made);
}
template <class T>
[[HCOMP_TARGET_VBMI]] void get_block_avx512(fine_grid<T> const& grid, fine_payload const& from,
                                            T* out) {
  if (from.mode.bits() <= integers_avx512<std::uint16_t>::most_bits)
    return get_block_in<std::uint16_t>(grid, from, out);
  if (from.mode.bits() <= integers_avx512<std::uint32_t>::most_bits)
    return get_block_in<std::uint32_t>(grid, from, out);
  get_block_in<std::uint64_t>(grid, from, out);
}

}  // namespace hcomp::detail::error_bounded
#endif
