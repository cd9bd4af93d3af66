#pragma once
/// @file
/// SIMD addition of words, each an integer or a float.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/error_bounded/detail/blocks.hpp>
#include <hcomp/codec/float_cast/detail/simd.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::error_bounded {

/// Result of adding the words of a block.
struct added_words {
  std::int32_t words[block_values];
  std::int32_t rare[block_values];  ///< not 0: this word needs sum_of_words instead
  std::uint32_t floats;             ///< number of additions of two floats
  std::uint32_t largest_float;      ///< bits of the largest magnitude of their results
  bool any_rare;
};

#if !defined(__CUDA_ARCH__)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// a + b for two integers, and for two floats whose sum is a float.
struct add_words_of_block {
  std::int32_t const* a;
  std::byte const* b;
  std::int32_t first_float;
  added_words* out;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using ints = typename aligned_vector<std::int32_t, Lanes>::type;
    ints floats{}, any_rare{}, largest{};
    for (std::size_t i = 0; i < block_values; i += Lanes) {
      ints rare, both_floats, sizes;
      add<Lanes, ints>(i, rare, both_floats, sizes);
      floats -= both_floats;
      any_rare |= rare;
      ints const larger = (ints)(sizes > largest);
      largest = (sizes & larger) | (largest & ~larger);
    }
    std::int32_t lanes[3][Lanes];
    std::memcpy(lanes[0], &floats, sizeof(floats));
    std::memcpy(lanes[1], &any_rare, sizeof(any_rare));
    std::memcpy(lanes[2], &largest, sizeof(largest));
    std::int32_t count = 0, any = 0, most = 0;
    for (int lane = 0; lane < Lanes; ++lane) {
      count += lanes[0][lane];
      any |= lanes[1][lane];
      most = std::max(most, lanes[2][lane]);
    }
    out->floats = static_cast<std::uint32_t>(count);
    out->any_rare = any != 0;
    out->largest_float = static_cast<std::uint32_t>(most);
    return true;
  }

 private:
  template <int Lanes, class ints>
  [[gnu::always_inline]] void add(std::size_t i, ints& rare, ints& both_floats, ints& sizes) const {
    using floats = typename aligned_vector<float, Lanes>::type;
    constexpr std::int32_t not_sign = 0x7fffffff;
    ints mine, other;
    std::memcpy(&mine, a + i, sizeof(mine));
    std::memcpy(&other, b + 4 * i, sizeof(other));
    ints const sign = mine >> 31, other_sign = other >> 31;
    ints const size = mine & not_sign, other_size = other & not_sign;
    ints const both_small = (ints)((size | other_size) < 1 << 28);
    // operands that are not small become 0, so that the unused result cannot overflow
    ints const q = (((size & both_small) ^ sign) - sign) +
                   (((other_size & both_small) ^ other_sign) - other_sign);
    ints const q_sign = q >> 31;
    ints const integer = ((q ^ q_sign) - q_sign) | (q_sign & ~not_sign);

    floats const sum = (floats)mine + (floats)other;
    ints bits = (ints)sum;
    ints const sum_size = bits & not_sign;
    ints const nan = (ints)(sum_size > 0x7f800000);
    bits = (bits & ~nan) | (nan & 0x7fc00000);

    ints const is_integer = (ints)(size < first_float), is_other = (ints)(other_size < first_float);
    ints const integers = is_integer & is_other & both_small;
    both_floats = ~(is_integer | is_other) & (ints)(sum_size >= first_float);
    ints const words = (integers & integer) | (~integers & bits);
    rare = ~(integers | both_floats);
    sizes = bits & not_sign & both_floats;
    std::memcpy(out->words + i, &words, sizeof(words));
    std::memcpy(out->rare + i, &rare, sizeof(rare));
  }
};

#pragma GCC diagnostic pop

#endif

/// Adds the words of a block.
/// @param a  in memory of its own
/// @param b  in an encoded chunk
inline void add_words([[maybe_unused]] simd_level level, [[maybe_unused]] std::int32_t const* a,
                      [[maybe_unused]] std::byte const* b,
                      [[maybe_unused]] std::uint32_t first_float,
                      [[maybe_unused]] added_words& out) {
#if !defined(__CUDA_ARCH__)
  // g++ 12 compiles 512-bit comparisons lane by lane
  run_at(std::min(level, simd_level::avx2),
         add_words_of_block{a, b, static_cast<std::int32_t>(first_float), &out});
#endif
}

}  // namespace hcomp::detail::error_bounded
