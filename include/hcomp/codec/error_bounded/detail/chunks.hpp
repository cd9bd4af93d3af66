#pragma once
/// @file
/// A chunk of error_bounded: the integer before the first, a byte per block of 32 values,
/// then the blocks' payloads.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/error_bounded/detail/blocks.hpp>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/codec/error_bounded/detail/words.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/simd.hpp>
#include <string>

namespace hcomp::detail::error_bounded {

inline constexpr std::size_t chunk_values = 4096;

[[noreturn]] inline void refuse_damaged(std::string const& text) {
  throw wire_error("error_bounded: " + text);
}

HCOMP_HD constexpr std::size_t blocks_of(std::size_t values) {
  return (values + block_values - 1) / block_values;
}
/// Number of values of a block, in a chunk of `values` values.
HCOMP_HD inline std::size_t values_of_block(std::size_t block, std::size_t values) {
  std::size_t const left = values - block * block_values;
  return left < block_values ? left : block_values;
}
/// Bytes before the payloads of a chunk.
HCOMP_HD constexpr std::size_t front_bytes(std::size_t values) {
  return sizeof(std::int32_t) + blocks_of(values);
}

/// A block of up to 32 values; q is 0 after the last value.
struct value_block {
  enum class state { zeros, integers, words };

  state is = state::zeros;                   ///< with `zeros`, q is not set
  alignas(64) std::int32_t q[block_values];  ///< integers, or words

  HCOMP_HD std::uint32_t word(std::size_t i) const { return static_cast<std::uint32_t>(q[i]); }
  HCOMP_HD void set_word(std::size_t i, std::uint32_t word) {
    q[i] = static_cast<std::int32_t>(word);
  }
  /// Converts integers to words.
  HCOMP_HD void make_words() {
    HCOMP_UNROLL_ON_DEVICE
    for (auto& value : q) value = static_cast<std::int32_t>(word_of(value));
    is = state::words;
  }
  /// Converts words to integers if no word is a float.
  HCOMP_HD void simplify(step_grid const& grid) {
    bool all = true;
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t i = 0; i < block_values; ++i) all &= is_integer(grid, word(i));
    if (!all) return;
    HCOMP_UNROLL_ON_DEVICE
    for (auto& value : q) value = integer_of(static_cast<std::uint32_t>(value));
    is = state::integers;
  }
};

/// Converts a block to words; values that are not integers of the grid stay floats.
/// @param x      x(i) is value i
/// @param v      holds the integers, and numbers beyond the limit for values without one
/// @param error  as in block_coder::quantize
template <class X>
HCOMP_HD void keep_floats(step_grid const& grid, X const& x, value_block& v, double& error) {
  v.is = value_block::state::words;
  std::uint32_t rounded = 0;
  HCOMP_UNROLL_ON_DEVICE
  for (std::size_t i = 0; i < block_values; ++i) {
    std::int32_t const q = v.q[i];
    bool const is_one = q <= grid.limit && q >= -grid.limit;
    rounded |= is_one ? same_bits<std::uint32_t>(x(i)) << 1 : 0;
    v.set_word(i, is_one ? word_of(q) : bits_of_sum(x(i)));
  }
  if (rounded != 0) error = 0.5;
}

/// Range of the sum of `weight` ranks.
struct sum_range {
  std::uint32_t weight;
  std::uint32_t largest;  ///< largest magnitude in steps
  std::uint32_t beyond;   ///< smallest packed_block::magnitude out of range

  HCOMP_HD sum_range(step_grid const& grid, std::uint32_t ranks)
      : weight(ranks),
        largest(ranks * static_cast<std::uint32_t>(grid.limit)),
        beyond(1u << bit_length(2 * largest)) {}

  /// True if every word is a float or in range.
  HCOMP_HD bool has(step_grid const& grid, value_block const& words) const {
    bool beyond_it = false;
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t i = 0; i < block_values; ++i) {
      std::uint32_t const size = words.word(i) & 0x7fffffffu;
      beyond_it |= size > largest && size < grid.first_float;
    }
    return !beyond_it;
  }

  [[noreturn]] void refuse() const {
    refuse_damaged("a sum of more than " + std::to_string(largest) + " steps, the most that " +
                   std::to_string(weight) + " ranks can have");
  }
};
[[noreturn]] inline void refuse_impossible(std::int64_t sum) {
  refuse_damaged("a sum of " + std::to_string(sum) + " steps, which no ranks have");
}

struct block_coder {
  step_grid grid;
  block_kernels kernels;
  simd_level level;

  /// Quantizes n values of x to a block.
  /// @param error  raised to the largest error in steps; to half a step in a block with floats
  [[gnu::always_inline]] void quantize(float const* x, std::size_t n, value_block& v,
                                       double& error) const {
    float padded[block_values];
    if (n < block_values) {
      std::memset(padded, 0, sizeof(padded));
      std::memcpy(padded, x, n * sizeof(float));
      x = padded;
    }
    v.is = value_block::state::integers;
    if (kernels.quantize(grid, x, v.q, error)) return;
    keep_floats(
        grid, [=](std::size_t i) { return x[i]; }, v, error);
  }

  /// y = the values of the block.
  [[gnu::always_inline]] void dequantize(value_block const& v, std::size_t n, float* y) const {
    if (v.is == value_block::state::zeros) {
      std::memset(y, 0, n * sizeof(float));
    } else if (v.is == value_block::state::words) {
      dequantize_words(v, n, y);
    } else if (n == block_values) {
      kernels.dequantize(grid, v.q, y);
    } else {
      float padded[block_values];
      kernels.dequantize(grid, v.q, padded);
      std::memcpy(y, padded, n * sizeof(float));
    }
  }

  void dequantize_words(value_block const& v, std::size_t n, float* y) const {
    std::int32_t q[block_values];
    float of_integers[block_values];
    for (std::size_t i = 0; i < block_values; ++i) {
      std::int32_t const integer = integer_of(v.word(i));
      q[i] = is_integer(grid, v.word(i)) ? integer : 0;
    }
    kernels.dequantize(grid, q, of_integers);
    for (std::size_t i = 0; i < n; ++i)
      y[i] = is_integer(grid, v.word(i)) ? of_integers[i] : value_of(grid, v.word(i));
  }

  /// True if `bytes` at `chunk` are a valid chunk of `values` values.
  HCOMP_HD static bool valid(std::byte const* chunk, std::size_t bytes, std::size_t values) {
    if (bytes < front_bytes(values)) return false;
    std::byte const* const modes = chunk + sizeof(std::int32_t);
    std::size_t at = front_bytes(values);
    for (std::size_t i = 0; i < blocks_of(values); ++i) {
      auto const byte = static_cast<unsigned>(modes[i]);
      std::size_t const left = values - i * block_values;
      std::size_t const n = left < block_values ? left : block_values;
      unsigned const width = byte & 63u;
      switch (static_cast<block_kind>(byte >> 6)) {
        case block_kind::difference:
          if (n < block_values) return false;
          [[fallthrough]];
        case block_kind::plain:
          if (width > 30) return false;
          break;
        case block_kind::sparse:
          if ((width != 1 && width != 2 && width != 4) || bytes - at < 4) return false;
          if (n < block_values && load<std::uint32_t>(chunk + at) >> n != 0) return false;
          break;
        case block_kind::words:
          if (width != 0) return false;
      }
      at += payload_bytes(static_cast<std::uint8_t>(byte), chunk + at, n);
      if (at > bytes) return false;
    }
    return at == bytes &&
           zeros_behind(chunk + bytes, static_cast<unsigned>(chunk[front_bytes(values) - 1]),
                        values);
  }
  /// True if the bit planes of the last block are 0 after its last value. Other bits would not fit
  /// when the block is packed again.
  /// @param end  end of the chunk
  HCOMP_HD static bool zeros_behind(std::byte const* end, unsigned mode, std::size_t values) {
    std::size_t const n = values % block_values;
    if (n == 0 || static_cast<block_kind>(mode >> 6) != block_kind::plain) return true;
    std::uint32_t all = 0;
    for (unsigned plane = 1; plane <= mode; ++plane) all |= load<std::uint32_t>(end - 4 * plane);
    return all >> n == 0;
  }
};

/// Reads the blocks of a valid chunk in order.
class block_reader {
 public:
  block_reader(block_coder const& coder, std::byte const* chunk, std::size_t values)
      : coder_(&coder),
        before_(load<std::int32_t>(chunk)),
        modes_(chunk + sizeof(std::int32_t)),
        at_(chunk + front_bytes(values)) {}

  /// v = the next block, which has n values.
  [[gnu::always_inline]] void take(std::size_t n, value_block& v) {
    v.is = value_block::state::zeros;
    word_sums none;
    add(n, v, none);
  }

  /// v += the next block, which has n values.
  [[gnu::always_inline]] void add(std::size_t n, value_block& v, word_sums& sums) {
    using state = value_block::state;
    auto const byte = static_cast<std::uint8_t>(*modes_++);
    if (byte == 0) {
      before_ = 0;
    } else if (byte != words_mode && v.is != state::words) {
      block_mode const mode{byte, 0};
      before_ = coder_->kernels.unpack(mode, at_, before_, v.is == state::integers, v.q);
      v.is = state::integers;
      at_ += payload_bytes(byte, at_, n);
    } else {
      add_with_words(byte, n, v, sums);
    }
  }

 private:
  void add_with_words(std::uint8_t byte, std::size_t n, value_block& v, word_sums& met) {
    using state = value_block::state;
    constexpr std::size_t whole = block_values * sizeof(std::uint32_t);
    std::byte words[whole];
    std::byte const* in = words;
    if (byte != words_mode) {
      block_mode const mode{byte, 0};
      value_block integers;
      before_ = coder_->kernels.unpack(mode, at_, before_, false, integers.q);
      at_ += payload_bytes(byte, at_, n);
      integers.is = state::integers;
      integers.make_words();
      std::memcpy(words, integers.q, whole);
    } else if (n == block_values) {
      in = at_;
      at_ += whole;
      before_ = 0;
    } else {
      std::memset(words, 0, whole);
      std::memcpy(words, at_, n * sizeof(std::uint32_t));
      at_ += n * sizeof(std::uint32_t);
      before_ = 0;
    }
    if (v.is == state::zeros) {
      v.is = state::words;
      std::memcpy(v.q, in, whole);
      return;
    }
    if (v.is == state::integers) v.make_words();
    added_words sums;
    add_words(coder_->level, v.q, in, coder_->grid.first_float, sums);
    met.float_additions += sums.floats;
    met.largest_float = std::max(met.largest_float, sums.largest_float);
    for (std::size_t i = 0; sums.any_rare && i < block_values; ++i)
      if (sums.rare[i] != 0)
        sums.words[i] = static_cast<std::int32_t>(
            sum_of_words(coder_->grid, v.word(i), load<std::uint32_t>(in, i), met));
    std::memcpy(v.q, sums.words, whole);
  }

  block_coder const* coder_;
  std::int32_t before_;
  std::byte const* modes_;
  std::byte const* at_;
};

/// Writes the blocks of a chunk in order.
class block_writer {
 public:
  /// @param weight  number of ranks in the sum
  block_writer(block_coder const& coder, std::byte* chunk, std::size_t values, std::uint32_t weight)
      : coder_(&coder),
        range_(coder.grid, weight),
        chunk_(chunk),
        modes_(chunk + sizeof(std::int32_t)),
        at_(chunk + front_bytes(values)) {
    store(chunk, 0, std::int32_t{0});
  }

  /// Appends a block of n values. Returns false if a value is out of range for the sum of `weight`
  /// ranks; the chunk is then invalid.
  [[gnu::always_inline]] bool put(value_block& v, std::size_t n) {
    using state = value_block::state;
    if (v.is == state::words) v.simplify(coder_->grid);
    if (v.is == state::integers) {
      if (modes_ == chunk_ + sizeof(std::int32_t)) store(chunk_, 0, before_ = v.q[0]);
      auto const packed = coder_->kernels.pack(v.q, before_, n, at_);
      *modes_++ = static_cast<std::byte>(packed.mode.byte);
      at_ += packed.mode.bytes;
      before_ = v.q[block_values - 1];
      magnitude_ |= packed.magnitude;
      return packed.magnitude < range_.beyond;
    }
    before_ = 0;
    bool const zeros = v.is == state::zeros;
    has_floats_ |= !zeros;
    *modes_++ = static_cast<std::byte>(zeros ? 0 : words_mode);
    if (zeros) return true;
    std::memcpy(at_, v.q, n * sizeof(std::uint32_t));
    at_ += n * sizeof(std::uint32_t);
    return range_.has(coder_->grid, v);
  }

  /// End of the chunk so far.
  std::byte* end() const { return at_; }
  /// Width of the largest integer in two's complement, except in blocks with floats.
  std::uint32_t largest_bits() const { return static_cast<std::uint32_t>(bit_length(magnitude_)); }
  /// True if a block has a float.
  bool has_floats() const { return has_floats_; }

 private:
  block_coder const* coder_;
  sum_range range_;
  std::uint32_t magnitude_ = 0;  ///< OR of packed_block::magnitude
  bool has_floats_ = false;
  std::int32_t before_ = 0;
  std::byte* chunk_;
  std::byte* modes_;
  std::byte* at_;
};

}  // namespace hcomp::detail::error_bounded
