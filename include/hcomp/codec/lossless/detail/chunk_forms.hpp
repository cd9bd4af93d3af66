#pragma once
/// @file
/// Validation of the forms of a full chunk of lossless with AVX2.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/core/simd.hpp>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
namespace hcomp::detail::lossless {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// Validates a chunk of `most_blocks` full blocks: block_form::is_valid for each form, and payloads
/// that add up to `bytes`. Reads no payload.
template <class T>
[[gnu::target("avx2")]] inline bool is_whole_chunk(std::byte const* chunk, std::size_t bytes) {
  using form = block_form<T>;
  using shorts = typename aligned_vector<std::int16_t, most_blocks>::type;
  using words = typename aligned_vector<std::uint64_t, most_blocks / 4>::type;
  static_assert(sizeof(shorts) == most_blocks * sizeof(form) && sizeof(words) == sizeof(shorts));
  if (bytes < sizeof(shorts)) return false;
  shorts forms;
  std::memcpy(&forms, chunk, sizeof(forms));
  constexpr auto plain_bytes = static_cast<std::int16_t>(block_values * sizeof(T));
  shorts const zeros = forms == static_cast<std::int16_t>(form::zeros),
               plain = forms == static_cast<std::int16_t>(form::plain), differences = forms >> 15,
               sign = forms >> 12 & 3, has_zeros = forms >> 14 & 1, width = forms & 63;
  shorts const is_one = (differences & ((forms & 0x7000) == 0)) | (~differences & (sign < 3));
  shorts const fits = width + (forms >> 6 & 63) <= static_cast<std::int16_t>(8 * sizeof(T));
  // integer_bytes: 64 integers of `width` bits, and one bit each for signs and for zeros
  shorts const has_signs = (sign == 1) & 1;
  shorts const payload =
      static_cast<std::int16_t>(sizeof(T)) + ((width + has_signs + has_zeros) << 3);
  auto const all = (words)((plain & plain_bytes) | (~plain & ~zeros & payload));
  auto const invalid = (words) ~(plain | zeros | (is_one & fits));
  std::uint64_t sums = 0;
  for (std::size_t i = 0; i < most_blocks / 4; ++i) sums += all[i];
  // the product adds four 16-bit lanes in its upper 16 bits; valid forms cannot overflow a lane
  return !any_bit(invalid) && sizeof(forms) + (sums * 0x0001000100010001 >> 48) == bytes;
}

#pragma GCC diagnostic pop

}  // namespace hcomp::detail::lossless
#endif
