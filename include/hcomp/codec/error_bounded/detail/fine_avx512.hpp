#pragma once
/// @file
/// Whole blocks of error_bounded_fine, of integers of up to 48 bits, by AVX-512 with VBMI.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/packed_integers.hpp>
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

/// 32 integers, as integers_avx2.
class integers_avx512 {
 public:
  template <class T>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] bool set(fine_grid<T> const& grid, T const* x,
                                                     fine_findings& found) {
    __m512d const inverse = _mm512_set1_pd(grid.inverse),
                  bound = _mm512_set1_pd(grid.most_by_vectors());
    __mmask8 fits = all;
    __m512d error = _mm512_setzero_pd();
    for (int i = 0; i < registers; ++i) {
      __m512d const multiple = _mm512_mul_pd(load(x + 8 * i), inverse);
      fits = _mm512_mask_cmp_pd_mask(fits, _mm512_abs_pd(multiple), bound, _CMP_LT_OQ);
      q_[i] = _mm512_maskz_cvt_roundpd_epi64(all, multiple,
                                             _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      __m512d const whole = _mm512_maskz_cvtepi64_pd(all, q_[i]);
      error = _mm512_maskz_max_pd(all, error, _mm512_abs_pd(_mm512_sub_pd(multiple, whole)));
    }
    if (fits != all) return false;
    fine_findings::raise(found.error, largest_of(error) * grid.step);
    return true;
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void take(fine_payload const& from) {
    if (from.mode.is_sparse()) return take_sparse(from);
    eight_integers_packer const packer(from.mode.width());
    for (int i = 0; i < registers; ++i)
      packer.unpack(from.in + static_cast<std::size_t>(i) * packer.bytes(), q_[i]);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void add(integers_avx512 const& other) {
    for (int i = 0; i < registers; ++i) q_[i] = _mm512_add_epi64(q_[i], other.q_[i]);
  }
  /// Notes what fine_block::note_rounding does.
  template <class T>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] fine_sizes look(fine_grid<T> const& grid,
                                                            fine_findings& found) const {
    __m512i largest = _mm512_setzero_si512(), zigzags = largest;
    __m512d rest = _mm512_setzero_pd();
    std::size_t not_zero = 0;
    for (int i = 0; i < registers; ++i) {
      largest = _mm512_maskz_max_epi64(all, largest, _mm512_maskz_abs_epi64(all, q_[i]));
      zigzags = _mm512_or_si512(zigzags, _mm512_xor_si512(_mm512_maskz_slli_epi64(all, q_[i], 1),
                                                          _mm512_maskz_srai_epi64(all, q_[i], 63)));
      not_zero += static_cast<std::size_t>(_mm_popcnt_u32(_mm512_test_epi64_mask(q_[i], q_[i])));
      if constexpr (std::is_same_v<T, float>) {
        __m512d const rounded = _mm512_maskz_cvtps_pd(all, _mm512_maskz_cvtepi64_ps(all, q_[i]));
        rest = _mm512_maskz_max_pd(
            all, rest, _mm512_abs_pd(_mm512_sub_pd(_mm512_maskz_cvtepi64_pd(all, q_[i]), rounded)));
      }
    }
    std::int64_t const most = largest_of(largest);
    fine_block<T>::note_largest_steps(grid, most, largest_of(rest), found);
    return {static_cast<std::uint64_t>(most), bits_of(zigzags), not_zero};
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void put(fine_mode mode, std::byte* out) const {
    if (mode.is_sparse()) return put_sparse(mode, out);
    eight_integers_packer const packer(mode.width());
    for (int i = 0; i < registers; ++i)
      packer.pack(q_[i], out + static_cast<std::size_t>(i) * packer.bytes());
  }
  template <class T>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void get(fine_grid<T> const& grid, T* out) const {
    for (int i = 0; i < registers; ++i)
      if constexpr (std::is_same_v<T, float>)
        _mm256_storeu_ps(out + 8 * i, _mm256_mul_ps(_mm512_maskz_cvtepi64_ps(all, q_[i]),
                                                    _mm256_set1_ps(static_cast<float>(grid.step))));
      else
        _mm512_storeu_pd(out + 8 * i, _mm512_mul_pd(_mm512_maskz_cvtepi64_pd(all, q_[i]),
                                                    _mm512_set1_pd(grid.step)));
  }

 private:
  static constexpr int registers = 4;
  static constexpr __mmask8 all = 0xff;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void take_sparse(fine_payload const& from) {
    std::size_t const bytes = from.mode.sparse_bytes();
    auto not_zero = hcomp::load<std::uint32_t>(from.in);
    __m512i left;
    eight_integers_packer(static_cast<int>(8 * bytes))
        .unpack(from.in + sizeof(not_zero), bytes * from.mode.sparse_values(), left);
    __m512i const places = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    for (int i = 0; i < registers; ++i, not_zero >>= 8) {
      auto const here = static_cast<__mmask8>(not_zero);
      q_[i] = _mm512_maskz_expand_epi64(here, left);
      __m512i const taken = _mm512_set1_epi64(_mm_popcnt_u32(here));
      left = _mm512_maskz_permutexvar_epi64(all, _mm512_add_epi64(places, taken), left);
    }
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void put_sparse(fine_mode mode, std::byte* out) const {
    std::int64_t q[8 + fine_mode::most_sparse];
    std::uint32_t not_zero = 0;
    for (int i = 0; i < registers; ++i) {
      __mmask8 const here = _mm512_test_epi64_mask(q_[i], q_[i]);
      _mm512_storeu_si512(q + _mm_popcnt_u32(not_zero), _mm512_maskz_compress_epi64(here, q_[i]));
      not_zero |= static_cast<std::uint32_t>(here) << 8 * i;
    }
    store(out, 0, not_zero);
    eight_integers_packer(static_cast<int>(8 * mode.sparse_bytes()))
        .pack(_mm512_loadu_si512(q), out + sizeof(not_zero));
  }

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512d load(double const* x) {
    return _mm512_loadu_pd(x);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512d load(float const* x) {
    return _mm512_maskz_cvtps_pd(all, _mm256_loadu_ps(x));
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static std::int64_t largest_of(__m512i const& of) {
    __m256i const four = _mm256_maskz_max_epi64(15, half<0>(of), half<1>(of));
    __m128i const two =
        _mm_maskz_max_epi64(3, _mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return _mm_cvtsi128_si64(_mm_maskz_max_epi64(3, two, _mm_unpackhi_epi64(two, two)));
  }
  /// Of numbers that are not negative.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static double largest_of(__m512d const& of) {
    return same_bits<double>(largest_of(_mm512_castpd_si512(of)));  // in the same order
  }
  /// By OR.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static std::uint64_t bits_of(__m512i const& of) {
    __m256i const four = _mm256_or_si256(half<0>(of), half<1>(of));
    __m128i const two =
        _mm_or_si128(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return static_cast<std::uint64_t>(
        _mm_cvtsi128_si64(_mm_or_si128(two, _mm_unpackhi_epi64(two, two))));
  }
  template <int Upper>
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m256i half(__m512i const& of) {
    return _mm512_maskz_extracti64x4_epi64(15, of, Upper);
  }

  __m512i q_[registers];
};

#pragma GCC diagnostic pop

/// False if x has other values.
/// @param out  room for integers of 64 bits, and another
template <class T>
[[HCOMP_TARGET_VBMI]] bool sum_block_avx512(fine_summands<T> const& from, std::byte* out,
                                            fine_findings& found, fine_sum& made) {
  integers_avx512 q;
  if (from.a.in)
    q.take(from.a);
  else if (!q.set(from.grid, from.x, found))
    return false;
  if (from.b.in) {
    integers_avx512 other;
    other.take(from.b);
    q.add(other);
  }
  auto const sizes = q.look(from.grid, found);
  made = {sizes.mode(block_values), sizes.largest};
  q.put(made.mode, out);
  return true;
}
template <class T>
[[HCOMP_TARGET_VBMI]] void get_block_avx512(fine_grid<T> const& grid, fine_payload const& from,
                                            T* out) {
  integers_avx512 q;
  q.take(from);
  q.get(grid, out);
}

}  // namespace hcomp::detail::error_bounded
#endif
