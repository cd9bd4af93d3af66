#pragma once
/// @file
/// AVX2 kernels of error_bounded_fallback for full blocks of integers of up to 48 bits.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lanes_256.hpp>
#include <hcomp/codec/detail/packed_integers.hpp>
#include <hcomp/codec/detail/packed_lanes_256.hpp>
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

/// A block of 32 integers in registers, in lanes of 32 or 64 bits. Counterpart of integers_avx512.
template <std::unsigned_integral Lane> class integers_avx2 {
  using of = lanes_256_of<Lane>;
  using lanes = typename of::lanes;
  static constexpr int each = of::count, registers = static_cast<int>(block_values) / each;

 public:
  /// Bits of an integer such that the sum of two fits in a lane.
  static constexpr int most_bits = of::bits - 1;

  /// Quantizes x to the nearest integers. Returns false if one is too large or x is not finite.
  /// @param error  raised to the largest error in steps
  template <class T>
  [[HCOMP_INLINE_AVX2]] bool set(fallback_grid<T> const& grid, T const* x, __m256d& error) {
    double const limit = grid.most_by_vectors();
    constexpr auto most_in_lane = static_cast<double>(~Lane{0} >> 2);  // largest of most_bits
    __m256d const inverse = _mm256_set1_pd(grid.inverse), bias = _mm256_set1_pd(magic),
                  bound = _mm256_set1_pd(limit < most_in_lane ? limit : most_in_lane);
    __m256d fits = _mm256_cmp_pd(bias, bias, _CMP_EQ_OQ), most = error;
    lanes_256<std::uint64_t> four[in_fours];
    HCOMP_UNROLL for (int i = 0; i < in_fours; ++i) {
      __m256d const multiple = _mm256_mul_pd(load(x + 4 * i), inverse);
      __m256d const whole =
          _mm256_round_pd(multiple, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      fits = _mm256_and_pd(fits, _mm256_cmp_pd(size(multiple), bound, _CMP_LT_OQ));
      most = _mm256_max_pd(most, size(_mm256_sub_pd(multiple, whole)));
      auto const sum = (__m256i)_mm256_add_pd(whole, bias);
      if constexpr (of::bits == 64)
        q_[i] = (lanes)sum - (lanes)bias;
      else
        four[i] = (lanes_256<std::uint64_t>)sum;
    }
    if (_mm256_movemask_pd(fits) != 15) return false;
    if constexpr (of::bits == 32) {
      HCOMP_UNROLL for (int i = 0; i < registers; ++i) {
        __m256 const low = _mm256_shuffle_ps((__m256)four[2 * i], (__m256)four[2 * i + 1], 0x88);
        q_[i] = (lanes)_mm256_permute4x64_epi64((__m256i)low, 0xd8);
      }
    }
    error = most;
    return true;
  }
  [[HCOMP_INLINE_AVX2]] void take(fallback_payload const& from) {
    if (from.mode.bits() == 0) {  // as most blocks of a sparse vector
      for (auto& q : q_) q = lanes{};
      return;
    }
    if (from.mode.is_sparse()) return take_sparse(from);
    lanes_packer_256<Lane> const packer(from.mode.width());
    packer.unpack(from.in, q_);
    HCOMP_UNROLL for (auto& q : q_) q = packer.with_sign(q);
  }
  [[HCOMP_INLINE_AVX2]] void add(integers_avx2 const& other) {
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) q_[i] += other.q_[i];
  }

  /// Properties of the block that determine its mode.
  /// @param rest  raised to the largest error of rounding to T, in steps
  template <class T> [[HCOMP_INLINE_AVX2]] fallback_sizes look(__m256d& rest) const {
    lanes most{}, zeros{};
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) {
      most = of::more(most, (q_[i] + q_[i]) ^ of::negative(q_[i]));
      zeros -= of::zero(q_[i]);
    }
    std::uint64_t const zigzags = of::largest_of(most);
    // integers of 24 bits and a sign are exact as floats
    if (std::is_same_v<T, float> && zigzags >> 25 != 0) note_rest(rest);
    return {(zigzags >> 1) + (zigzags & 1), zigzags,
            block_values - static_cast<std::size_t>(of::summed_up(zeros)[each - 1])};
  }
  [[HCOMP_INLINE_AVX2]] void read(std::byte const* in) {
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) q_[i] = of::load(in + 32 * i);
  }
  [[HCOMP_INLINE_AVX2]] void write(std::byte* out) const {
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) of::store(out + 32 * i, q_[i]);
  }
  [[HCOMP_INLINE_AVX2]] void put(fallback_mode mode, std::byte* out) const {
    if (mode.bits() == 0) return;
    if (mode.is_sparse()) return put_sparse(mode, out);
    lanes_packer_256<Lane>(mode.width()).pack(q_, out);
  }
  /// out[i] = fallback_block::value(i)
  template <class T> [[HCOMP_INLINE_AVX2]] void get(fallback_grid<T> const& grid, T* out) const {
    auto const step = static_cast<T>(grid.step);
    if constexpr (std::is_same_v<T, float> && of::bits == 32)
      HCOMP_UNROLL for (int i = 0; i < registers; ++i) _mm256_storeu_ps(
          out + 8 * i, _mm256_mul_ps(_mm256_cvtepi32_ps((__m256i)q_[i]), _mm256_set1_ps(step)));
    else if constexpr (std::is_same_v<T, float>)
      HCOMP_UNROLL for (int i = 0; i < in_fours; ++i)
          _mm_storeu_ps(out + 4 * i, _mm_mul_ps(_mm256_cvtpd_ps(doubles(i)), _mm_set1_ps(step)));
    else
      HCOMP_UNROLL for (int i = 0; i < in_fours; ++i)
          _mm256_storeu_pd(out + 4 * i, _mm256_mul_pd(doubles(i), _mm256_set1_pd(step)));
  }

 private:
  static constexpr double magic = 0x1.8p52;  ///< see rounded_multiple
  static constexpr int in_fours = static_cast<int>(block_values) / 4;

  [[HCOMP_INLINE_AVX2]] static __m256d size(__m256d const& of_value) {
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), of_value);
  }
  [[HCOMP_INLINE_AVX2]] static __m256d load(double const* x) { return _mm256_loadu_pd(x); }
  [[HCOMP_INLINE_AVX2]] static __m256d load(float const* x) {
    return _mm256_cvtps_pd(_mm_loadu_ps(x));
  }
  /// Integers 4 i to 4 i + 3 as doubles; exact below 51 bits.
  [[HCOMP_INLINE_AVX2]] __m256d doubles(int i) const {
    __m256d const bias = _mm256_set1_pd(magic);
    if constexpr (of::bits == 64)
      return _mm256_sub_pd((__m256d)(q_[i] + (lanes)bias), bias);
    else {
      auto const two = (__m256i)q_[i / 2];
      return _mm256_cvtepi32_pd(i % 2 == 0 ? _mm256_castsi256_si128(two)
                                           : _mm256_extracti128_si256(two, 1));
    }
  }
  /// Raises `rest` to the largest error of converting the integers to float.
  [[HCOMP_INLINE_AVX2]] void note_rest(__m256d& rest) const {
    HCOMP_UNROLL for (int i = 0; i < in_fours; ++i) {
      __m256d const exact = doubles(i), rounded = _mm256_cvtps_pd(_mm256_cvtpd_ps(exact));
      rest = _mm256_max_pd(rest, size(_mm256_sub_pd(exact, rounded)));
    }
  }

  [[HCOMP_INLINE_AVX2]] void take_sparse(fallback_payload const& from) {
    Lane q[block_values] = {};
    std::size_t const bytes = from.mode.sparse_bytes();
    std::byte const* in = from.in + sizeof(std::uint32_t);
    for (auto left = hcomp::load<std::uint32_t>(from.in); left != 0; left &= left - 1, in += bytes)
      q[lowest_one(left)] =
          static_cast<Lane>(with_sign(hcomp::load<std::uint64_t>(in), static_cast<int>(8 * bytes)));
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) q_[i] = of::load(q + each * i);
  }
  /// May write up to 7 bytes after the payload.
  [[HCOMP_INLINE_AVX2]] void put_sparse(fallback_mode mode, std::byte* out) const {
    Lane q[block_values];
    std::uint64_t zeros = 0;
    HCOMP_UNROLL for (int i = 0; i < registers; ++i) {
      of::store(q + each * i, q_[i]);
      zeros |= of::highest_bits(of::zero(q_[i])) << each * i;
    }
    auto const not_zero = static_cast<std::uint32_t>(~zeros);
    hcomp::store(out, 0, not_zero);
    out += sizeof(not_zero);
    for (auto left = not_zero; left != 0; left &= left - 1, out += mode.sparse_bytes())
      hcomp::store(out, 0, std::uint64_t{q[lowest_one(left)]});
  }

  lanes q_[registers];
};

/// Largest errors in steps, per lane.
struct fallback_errors_256 {
  __m256d of_steps, of_rounding;
};
/// Largest of non-negative numbers.
[[HCOMP_INLINE_AVX2]] inline double largest_of(__m256d const& numbers) {
  using words = std::uint64_t;  // have the same order as the numbers
  return same_bits<double>(lanes_256_of<words>::largest_of((lanes_256<words>)numbers));
}

/// Sum of a block, stored until the modes of all earlier blocks are known.
struct fallback_sum_256 {
  alignas(32) std::byte integers[block_values * sizeof(std::int64_t)];
  fallback_sizes sizes;
  bool is_short;  ///< `integers` has lanes of 32 bits
};
template <class Lane, class T>
[[HCOMP_INLINE_AVX2]] inline bool sum_block_avx2(fallback_summands<T> const& from, std::size_t k,
                                                 fallback_sum_256& sum,
                                                 fallback_errors_256& errors) {
  integers_avx2<Lane> q;
  auto const [first, second] = from.of(k);
  if (first) {
    q.take(*first);
  } else if (!q.set(from.grid, from.x + k * block_values, errors.of_steps)) {
    return false;
  }
  if (second) {
    integers_avx2<Lane> other;
    other.take(*second);
    q.add(other);
  }
  sum.sizes = q.template look<T>(errors.of_rounding);
  q.write(sum.integers);
  sum.is_short = sizeof(Lane) == 4;
  return true;
}
template <class Lane>
[[HCOMP_INLINE_AVX2]] inline void put_block_avx2(fallback_sum_256 const& sum, fallback_mode mode,
                                                 std::byte* out) {
  integers_avx2<Lane> q;
  q.read(sum.integers);
  q.put(mode, out);
}
template <class Lane, class T>
[[HCOMP_INLINE_AVX2]] inline void get_block_avx2(fallback_grid<T> const& grid,
                                                 fallback_payload const& from, T* out) {
  integers_avx2<Lane> q;
  q.take(from);
  q.get(grid, out);
}

#pragma GCC diagnostic pop

/// See fallback_kernels.
template <class T>
[[gnu::target("avx2")]] std::size_t sum_blocks_avx2(fallback_summands<T> const& from,
                                                    std::size_t blocks, fallback_sums& to) {
  fallback_sum_256 sums[fallback_most_blocks];
  fallback_errors_256 errors{_mm256_setzero_pd(), _mm256_setzero_pd()};
  // loops skip blocks of zeros without a branch per block, which would be mispredicted
  std::uint32_t not_zero = from.not_zero(blocks);
  std::size_t done = blocks;
  for (std::uint32_t left = not_zero; left != 0; left &= left - 1) {
    auto const k = static_cast<std::size_t>(lowest_one(left));
    int const a = from.a ? from.a[k].mode.bits() : 0, b = from.b ? from.b[k].mode.bits() : 0,
              bits = a > b ? a : b;
    bool const is_one =
        (bits <= integers_avx2<std::uint32_t>::most_bits &&
         sum_block_avx2<std::uint32_t>(from, k, sums[k], errors)) ||
        (bits <= most_vector_bits && sum_block_avx2<std::uint64_t>(from, k, sums[k], errors));
    if (!is_one) {
      done = k;
      not_zero &= (std::uint32_t{1} << k) - 1;
      break;
    }
  }
  std::byte* const modes = to.modes;
  memset(modes, 0, done);
  for (std::uint32_t left = not_zero; left != 0; left &= left - 1) {
    auto const k = static_cast<std::size_t>(lowest_one(left));
    auto const& sum = sums[k];
    auto const mode = sum.sizes.mode(block_values);
    to.largest = sum.sizes.largest > to.largest ? sum.sizes.largest : to.largest;
    if (sum.is_short)
      put_block_avx2<std::uint32_t>(sum, mode, to.payload);
    else
      put_block_avx2<std::uint64_t>(sum, mode, to.payload);
    to.modes = modes + k;
    to.put(mode, block_values);
  }
  to.modes = modes + done;
  fallback_findings::raise(to.found.error, largest_of(errors.of_steps) * from.grid.step);
  fallback_roundings<T>::note_in(from.grid, static_cast<std::int64_t>(to.largest),
                                 largest_of(errors.of_rounding), to.found);
  return done;
}
template <class T>
[[gnu::target("avx2")]] std::size_t get_blocks_avx2(fallback_grid<T> const& grid,
                                                    fallback_payload const* from,
                                                    std::size_t blocks, T* out) {
  for (std::size_t k = 0; k < blocks; ++k, out += block_values) {
    int const bits = from[k].mode.bits();
    if (bits <= integers_avx2<std::uint32_t>::most_bits)
      get_block_avx2<std::uint32_t>(grid, from[k], out);
    else if (bits <= most_vector_bits)
      get_block_avx2<std::uint64_t>(grid, from[k], out);
    else
      return k;
  }
  return blocks;
}

}  // namespace hcomp::detail::error_bounded
#endif
