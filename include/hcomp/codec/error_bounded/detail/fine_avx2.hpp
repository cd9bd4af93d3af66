#pragma once
/// @file
/// Whole blocks of error_bounded_fine, of integers of up to 48 bits, by AVX2.

#include <cstddef>
#include <cstdint>
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

/// 32 integers of up to `most_bits` bits, or sums of two.
class integers_avx2 {
 public:
  /// The nearest integers of x in steps; false if one is too large, or x not finite.
  template <class T>
  [[gnu::always_inline, gnu::target("avx2")]] bool set(fine_grid<T> const& grid, T const* x,
                                                       fine_findings& found) {
    double const limit = grid.most_by_vectors();
    __m256d const inverse = _mm256_set1_pd(grid.inverse), bound = _mm256_set1_pd(limit),
                  bias = _mm256_set1_pd(magic), not_sign = without_sign();
    __m256d fits = _mm256_cmp_pd(bias, bias, _CMP_EQ_OQ), error = _mm256_setzero_pd();
    for (int i = 0; i < registers; ++i) {
      __m256d const multiple = _mm256_mul_pd(load(x + 4 * i), inverse);
      __m256d const whole =
          _mm256_round_pd(multiple, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      fits =
          _mm256_and_pd(fits, _mm256_cmp_pd(_mm256_and_pd(multiple, not_sign), bound, _CMP_LT_OQ));
      error = _mm256_max_pd(error, _mm256_and_pd(_mm256_sub_pd(multiple, whole), not_sign));
      q_[i] = _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(whole, bias)),
                               _mm256_castpd_si256(bias));
    }
    if (_mm256_movemask_pd(fits) != 15) return false;
    fine_findings::raise(found.error, largest_of(error) * grid.step);
    return true;
  }
  [[gnu::always_inline, gnu::target("avx2")]] void take(fine_payload const& from) {
    std::int64_t q[4 * registers];
    take_integers(from.in, from.mode, 4 * registers, q);
    for (int i = 0; i < registers; ++i)
      q_[i] = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(q + 4 * i));
  }
  [[gnu::always_inline, gnu::target("avx2")]] void add(integers_avx2 const& other) {
    for (int i = 0; i < registers; ++i) q_[i] = _mm256_add_epi64(q_[i], other.q_[i]);
  }

  /// Notes what fine_block::note_rounding does.
  template <class T>
  [[gnu::always_inline, gnu::target("avx2")]] fine_sizes look(fine_grid<T> const& grid,
                                                              fine_findings& found) const {
    __m256d least = as_doubles(q_[0]), greatest = least, rest = _mm256_setzero_pd();
    __m256i zeros = _mm256_setzero_si256();
    for (int i = 0; i < registers; ++i) {
      __m256d const value = as_doubles(q_[i]);
      least = _mm256_min_pd(least, value);
      greatest = _mm256_max_pd(greatest, value);
      zeros = _mm256_sub_epi64(zeros, _mm256_cmpeq_epi64(q_[i], _mm256_setzero_si256()));
      if constexpr (std::is_same_v<T, float>)
        rest = _mm256_max_pd(
            rest, _mm256_and_pd(_mm256_sub_pd(value, _mm256_cvtps_pd(_mm256_cvtpd_ps(value))),
                                without_sign()));
    }
    double const most = largest_of(greatest),
                 fewest = -largest_of(_mm256_sub_pd(_mm256_setzero_pd(), least));
    auto const largest = static_cast<std::int64_t>(most > -fewest ? most : -fewest);
    fine_roundings<T>::note_in(grid, largest, largest_of(rest), found);
    __m128i const two =
        _mm_add_epi64(_mm256_castsi256_si128(zeros), _mm256_extracti128_si256(zeros, 1));
    return {static_cast<std::uint64_t>(largest),
            fine_mode::zigzag(static_cast<std::int64_t>(most)) |
                fine_mode::zigzag(static_cast<std::int64_t>(fewest)),
            static_cast<std::size_t>(4 * registers - _mm_cvtsi128_si64(two) -
                                     _mm_extract_epi64(two, 1))};
  }
  [[gnu::always_inline, gnu::target("avx2")]] void put(fine_mode mode, std::byte* out) const {
    std::int64_t q[4 * registers];
    for (int i = 0; i < registers; ++i)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + 4 * i), q_[i]);
    put_integers(q, mode, 4 * registers, out);
  }
  /// out[i] = fine_block::value(i)
  template <class T>
  [[gnu::always_inline, gnu::target("avx2")]] void get(fine_grid<T> const& grid, T* out) const {
    for (int i = 0; i < registers; ++i) {
      __m256d const value = as_doubles(q_[i]);
      if constexpr (std::is_same_v<T, float>)
        _mm_storeu_ps(out + 4 * i, _mm_mul_ps(_mm256_cvtpd_ps(value),
                                              _mm_set1_ps(static_cast<float>(grid.step))));
      else
        _mm256_storeu_pd(out + 4 * i, _mm256_mul_pd(value, _mm256_set1_pd(grid.step)));
    }
  }

 private:
  static constexpr int registers = 8;
  static constexpr double magic = 0x1.8p52;  ///< the last bits of its sums are integers

  [[gnu::always_inline, gnu::target("avx2")]] static __m256d without_sign() {
    return _mm256_castsi256_pd(_mm256_set1_epi64x(0x7fff'ffff'ffff'ffff));
  }
  [[gnu::always_inline, gnu::target("avx2")]] static __m256d load(double const* x) {
    return _mm256_loadu_pd(x);
  }
  [[gnu::always_inline, gnu::target("avx2")]] static __m256d load(float const* x) {
    return _mm256_cvtps_pd(_mm_loadu_ps(x));
  }
  /// Of less than 51 bits.
  [[gnu::always_inline, gnu::target("avx2")]] static __m256d as_doubles(__m256i const& q) {
    __m256d const bias = _mm256_set1_pd(magic);
    return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_add_epi64(q, _mm256_castpd_si256(bias))), bias);
  }
  [[gnu::always_inline, gnu::target("avx2")]] static double largest_of(__m256d const& of) {
    __m128d const two = _mm_max_pd(_mm256_castpd256_pd128(of), _mm256_extractf128_pd(of, 1));
    return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
  }
  __m256i q_[registers];
};

#pragma GCC diagnostic pop

/// See fine_kernels.
template <class T>
[[gnu::target("avx2")]] std::size_t sum_blocks_avx2(fine_summands<T> const& from,
                                                    std::size_t blocks, fine_sums& to) {
  for (std::size_t k = 0; k < blocks; ++k) {
    integers_avx2 q;
    if (!from.are_fast(k)) return k;
    if (from.a)
      q.take(from.a[k]);
    else if (!q.set(from.grid, from.x + k * block_values, to.found))
      return k;
    if (from.b) {
      integers_avx2 other;
      other.take(from.b[k]);
      q.add(other);
    }
    auto const sizes = q.look(from.grid, to.found);
    if (sizes.largest > to.largest) to.largest = sizes.largest;
    auto const mode = sizes.mode(block_values);
    q.put(mode, to.payload);
    to.put(mode, block_values);
  }
  return blocks;
}
template <class T>
[[gnu::target("avx2")]] std::size_t get_blocks_avx2(fine_grid<T> const& grid,
                                                    fine_payload const* from, std::size_t blocks,
                                                    T* out) {
  for (std::size_t k = 0; k < blocks; ++k) {
    if (!from[k].is_fast()) return k;
    integers_avx2 q;
    q.take(from[k]);
    q.get(grid, out + k * block_values);
  }
  return blocks;
}

}  // namespace hcomp::detail::error_bounded
#endif
