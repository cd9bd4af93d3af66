#pragma once
/// @file
/// Chunks of error_bounded_fine as fast as a CPU can: whole blocks of integers of up to 48 bits by
/// AVX2. What is not such a block is done as elsewhere, and the bytes are the same.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/chunked_code.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/detail/fine_lanes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail::error_bounded {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// 32 integers of up to `most_bytes` bytes.
class integers_avx2 {
 public:
  static constexpr std::size_t most_bytes = 6;
  /// Bytes behind a payload that may be read or overwritten.
  static constexpr std::size_t beyond = 16;

  /// The nearest integers of x in steps; false if one is too large, or x not finite.
  template <class T>
  [[gnu::always_inline, gnu::target("avx2")]] bool set(fine_grid<T> const& grid, T const* x,
                                                       fine_findings& found) {
    double const limit = grid.beyond < 0x1p46 ? grid.beyond : 0x1p46;
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
  [[gnu::always_inline, gnu::target("avx2")]] void take(std::size_t bytes, std::byte const* in) {
    __m256i const places = twice(tables.spread[bytes]), sign = sign_of(bytes);
    for (int i = 0; i < registers; ++i) {
      std::byte const* const from = in + static_cast<std::size_t>(4 * i) * bytes;
      __m256i const both = _mm256_inserti128_si256(
          _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from))),
          _mm_loadu_si128(reinterpret_cast<__m128i const*>(from + 2 * bytes)), 1);
      q_[i] = _mm256_sub_epi64(_mm256_xor_si256(_mm256_shuffle_epi8(both, places), sign), sign);
    }
  }
  [[gnu::always_inline, gnu::target("avx2")]] void add(integers_avx2 const& other) {
    for (int i = 0; i < registers; ++i) q_[i] = _mm256_add_epi64(q_[i], other.q_[i]);
  }

  struct range {
    std::int64_t least, greatest;
  };
  /// Notes what fine_block::note_rounding does.
  template <class T>
  [[gnu::always_inline, gnu::target("avx2")]] range look(fine_grid<T> const& grid,
                                                         fine_findings& found) const {
    __m256d least = as_doubles(q_[0]), greatest = least, rest = _mm256_setzero_pd();
    for (int i = 0; i < registers; ++i) {
      __m256d const value = as_doubles(q_[i]);
      least = _mm256_min_pd(least, value);
      greatest = _mm256_max_pd(greatest, value);
      if constexpr (std::is_same_v<T, float>)
        rest = _mm256_max_pd(
            rest, _mm256_and_pd(_mm256_sub_pd(value, _mm256_cvtps_pd(_mm256_cvtpd_ps(value))),
                                without_sign()));
    }
    double const most = largest_of(greatest),
                 fewest = -largest_of(_mm256_sub_pd(_mm256_setzero_pd(), least));
    auto const size = static_cast<std::int64_t>(most > -fewest ? most : -fewest);
    fine_block<T>::note_largest(static_cast<double>(fine_block<T>::rounded(grid, size)),
                                std::is_same_v<T, float> ? largest_of(rest) * grid.step : 0, found);
    return {static_cast<std::int64_t>(fewest), static_cast<std::int64_t>(most)};
  }
  [[gnu::always_inline, gnu::target("avx2")]] void put(std::size_t bytes, std::byte* out) const {
    __m256i const places = twice(tables.packed[bytes]);
    for (int i = 0; i < registers; ++i) {
      __m256i const packed = _mm256_shuffle_epi8(q_[i], places);
      std::byte* const to = out + static_cast<std::size_t>(4 * i) * bytes;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(packed));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * bytes),
                       _mm256_extracti128_si256(packed, 1));
    }
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
  /// Of shuffles that make 8 bytes of each of two values of some bytes, and the opposite.
  struct shuffles {
    alignas(16) std::uint8_t spread[9][16], packed[9][16];
  };
  static constexpr shuffles tables = [] {
    shuffles all{};
    for (std::size_t bytes = 0; bytes <= 8; ++bytes)
      for (std::size_t i = 0; i < 16; ++i) {
        constexpr std::size_t zero = 128;
        std::size_t const to = i % 8 < bytes ? i / 8 * bytes + i % 8 : zero;
        std::size_t const from = i < bytes ? i : i < 2 * bytes ? i - bytes + 8 : zero;
        all.spread[bytes][i] = static_cast<std::uint8_t>(to);
        all.packed[bytes][i] = static_cast<std::uint8_t>(from);
      }
    return all;
  }();
  [[gnu::always_inline, gnu::target("avx2")]] static __m256i twice(std::uint8_t const* places) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<__m128i const*>(places)));
  }
  [[gnu::always_inline, gnu::target("avx2")]] static __m256i sign_of(std::size_t bytes) {
    return _mm256_set1_epi64x(bytes == 0 ? 0 : std::int64_t{1} << (8 * bytes - 1));
  }

  __m256i q_[registers];
};

#pragma GCC diagnostic pop

}  // namespace hcomp::detail::error_bounded
#endif
