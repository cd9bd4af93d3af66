#pragma once
/// @file
/// 32 integers in as few bytes as they need, and back: the reference of simd.hpp.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::error_bounded {

inline constexpr std::size_t block_values = 32;

/// How the integers of a block are stored: the upper 2 bits of its byte. The lower 6 are a width.
enum class block_kind : std::uint8_t {
  plain,       ///< `width` words of 32 bits; word b has bit b of all values, in two's complement
  difference,  ///< the same of what each value is more than the one before; in whole blocks
  sparse,      ///< a word that tells which are not 0, then these in `width` bytes: 1, 2 or 4
  words        ///< a word of 32 bits each, an integer or a float; width 0
};

/// How a block is stored, and what that takes.
struct block_mode {
  std::uint8_t byte;    ///< 0: nothing but zeros
  std::uint32_t bytes;  ///< of the payload

  HCOMP_HD block_kind kind() const { return static_cast<block_kind>(byte >> 6); }
  HCOMP_HD int width() const { return byte & 63; }
};
inline constexpr std::uint8_t words_mode = 3 << 6;

/// Bits that tell how a block is best stored. Of positive and negative numbers in turn, 0, -1, 1,
/// -2, ..., the places in this order: OR of them all has as many bits as two's complement needs.
struct block_shape {
  std::uint32_t plain;       ///< OR over the values
  std::uint32_t difference;  ///< and over the differences
  std::uint32_t nonzero;     ///< which values are not 0
};

/// The smallest form; it depends on nothing but the integers, in the order that they are summed in
/// least of all.
[[gnu::always_inline]] HCOMP_HD inline block_mode best_mode(block_shape const& shape,
                                                            std::size_t n) {
  auto const mode = [](block_kind kind, unsigned width, unsigned bytes) {
    return block_mode{static_cast<std::uint8_t>(static_cast<unsigned>(kind) << 6 | width), bytes};
  };
  auto const plain = static_cast<unsigned>(bit_length(shape.plain));
  auto best = mode(block_kind::plain, plain, 4 * plain);
  auto const difference = static_cast<unsigned>(bit_length(shape.difference));
  if (n == block_values && difference < plain)
    best = mode(block_kind::difference, difference, 4 * difference);
  unsigned const each = plain <= 8 ? 1 : plain <= 16 ? 2 : 4;
  unsigned const sparse = 4 + each * static_cast<unsigned>(ones(shape.nonzero));
  if (sparse < best.bytes) best = mode(block_kind::sparse, each, sparse);
  if (4 * n < best.bytes) best = {words_mode, static_cast<std::uint32_t>(4 * n)};
  return best;
}

/// Bytes of the payload at `in`, of n values.
HCOMP_HD inline std::size_t payload_bytes(std::uint8_t byte, std::byte const* in, std::size_t n) {
  block_mode const mode{byte, 0};
  auto const width = static_cast<std::size_t>(mode.width());
  if (mode.kind() == block_kind::words) return 4 * n;
  if (mode.kind() != block_kind::sparse) return 4 * width;
  return 4 + width * static_cast<std::size_t>(ones(load<std::uint32_t>(in)));
}

/// What packing found; `magnitude` has no bit that 2 |value| has not for some value, but the
/// lowest.
struct packed_block {
  block_mode mode;
  std::uint32_t magnitude;
};

[[gnu::always_inline]] HCOMP_HD inline void put_sparse(std::int32_t const* q, std::uint32_t nonzero,
                                                       int width, std::byte* out) {
  store(out, 0, nonzero);
  out += 4;
  for (; nonzero != 0; nonzero &= nonzero - 1, out += width) {
    std::int32_t const value = q[lowest_one(nonzero)];
    if (width == 1)
      store(out, 0, static_cast<std::int8_t>(value));
    else if (width == 2)
      store(out, 0, static_cast<std::int16_t>(value));
    else
      store(out, 0, value);
  }
}
/// f(i, value) for the values that are not 0.
template <class F>
[[gnu::always_inline]] HCOMP_HD inline void for_sparse(std::byte const* in, int width, F const& f) {
  auto nonzero = load<std::uint32_t>(in);
  in += 4;
  for (; nonzero != 0; nonzero &= nonzero - 1, in += width)
    f(lowest_one(nonzero), width == 1   ? load<std::int8_t>(in)
                           : width == 2 ? load<std::int16_t>(in)
                                        : load<std::int32_t>(in));
}
HCOMP_HD inline void put_words(std::int32_t const* q, std::size_t n, std::byte* out) {
  for (std::size_t i = 0; i < n; ++i) store(out, i, word_of(q[i]));
}

/// a + b without undefined behaviour: damaged codes may say anything.
HCOMP_HD inline std::int32_t add_wrapping(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
HCOMP_HD inline std::uint32_t zigzag(std::int32_t q) {
  return static_cast<std::uint32_t>(q) << 1 ^ static_cast<std::uint32_t>(q >> 31);
}

/// What is done with whole blocks of 32 values, once for every simd_level.
struct block_kernels {
  /// q = x in steps; false if some x is no integer of the grid: its q is beyond the limit.
  /// @param error  becomes the largest |x - q| seen, in steps, where it is less, if all are
  /// integers
  bool (*quantize)(step_grid const& grid, float const* x, std::int32_t* q, double& error);
  /// y = q in floats.
  void (*dequantize)(step_grid const& grid, std::int32_t const* q, float* y);
  /// May overwrite what is behind the bytes of the mode that it returns, up to 4 n of them.
  /// @param q       behind n values, zeros
  /// @param before  the value before the first
  packed_block (*pack)(std::int32_t const* q, std::int32_t before, std::size_t n, std::byte* out);
  /// q = the values, or q += the values; returns the last of them.
  /// @param mode  any but `words`; of a width that is possible
  std::int32_t (*unpack)(block_mode mode, std::byte const* in, std::int32_t before, bool add,
                         std::int32_t* q);
};

/// As many bits as `zigzag` of any of the added has.
class zigzag_bits {
 public:
#if defined(__CUDA_ARCH__)  // finds the larger of three numbers by one instruction
  HCOMP_HD void add(std::int32_t q) {
    least_ = q < least_ ? q : least_;
    most_ = q > most_ ? q : most_;
  }
  HCOMP_HD std::uint32_t all() const { return zigzag(least_) | zigzag(most_); }

 private:
  std::int32_t least_ = 0, most_ = 0;
#else
  void add(std::int32_t q) {
    upper_ |= static_cast<std::uint32_t>(q ^ q >> 31);
    signs_ |= static_cast<std::uint32_t>(q);
  }
  std::uint32_t all() const { return upper_ << 1 | signs_ >> 31; }

 private:
  std::uint32_t upper_ = 0, signs_ = 0;
#endif
};

/// The largest of the magnitudes of numbers from -1 to 1; on devices the upper half of its bits:
/// header::parts_of says the same of it.
class largest_part {
 public:
#if defined(__CUDA_ARCH__)
  HCOMP_HD explicit largest_part(double known) : upper_(upper_half(known)) {}
  HCOMP_HD void add(double number) {
    std::uint32_t const upper = upper_half(number);
    upper_ = upper > upper_ ? upper : upper_;
  }
  HCOMP_HD double value() const { return same_bits<double>(std::uint64_t{upper_} << 32); }

 private:
  HCOMP_HD static std::uint32_t upper_half(double number) {
    return static_cast<std::uint32_t>(same_bits<std::uint64_t>(number) >> 32) & 0x7fffffffu;
  }
  std::uint32_t upper_;
#else
  explicit largest_part(double known) : value_(known) {}
  void add(double number) {
    double const magnitude = std::fabs(number);
    value_ = magnitude > value_ ? magnitude : value_;
  }
  double value() const { return value_; }

 private:
  double value_;
#endif
};

// ---- Reference

/// @param x  x(i) is value i
template <class X>
HCOMP_HD bool quantize_values(step_grid const& grid, X const& x, std::int32_t* q, double& error) {
  largest_part largest(error);
  std::uint32_t magnitude = 0;  // in the order of bits NaN and infinity are larger than all others
  HCOMP_UNROLL_ON_DEVICE
  for (std::size_t i = 0; i < block_values; ++i) {
    double const multiple = static_cast<double>(x(i)) * grid.inverse;
    q[i] = rounded_multiple(multiple);
    largest.add(off_by(multiple, q[i]));
    std::uint32_t const bits = same_bits<std::uint32_t>(x(i)) & 0x7fffffffu;
    magnitude = bits > magnitude ? bits : magnitude;
    // seldom; and nvcc does not bring more values to registers before it knows
    if (i % 8 == 7 && magnitude >= 0x7f800000u) break;
  }
  if (nearest_integer(grid, same_bits<float>(magnitude)) == no_integer) return false;
  error = largest.value();  // all have one
  return true;
}
/// As block_kernels::quantize.
inline bool quantize_block(step_grid const& grid, float const* x, std::int32_t* q, double& error) {
  if (quantize_values(
          grid, [=](std::size_t i) { return x[i]; }, q, error))
    return true;
  for (std::size_t i = 0; i < block_values; ++i) q[i] = nearest_integer(grid, x[i]);
  return false;
}

inline void dequantize_block(step_grid const& grid, std::int32_t const* q, float* y) {
  for (std::size_t i = 0; i < block_values; ++i) y[i] = float_of(grid, q[i]);
}

/// What value i is more than the one before.
HCOMP_HD inline std::int32_t difference_at(std::int32_t const* q, std::int32_t before,
                                           std::size_t i) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(q[i]) -
                                   static_cast<std::uint32_t>(i == 0 ? before : q[i - 1]));
}
HCOMP_HD inline block_shape shape_of_block(std::int32_t const* q, std::int32_t before) {
  block_shape shape{};
  zigzag_bits plain, difference;
  HCOMP_UNROLL_ON_DEVICE
  for (std::size_t i = 0; i < block_values; ++i) {
    plain.add(q[i]);
    difference.add(difference_at(q, before, i));
    shape.nonzero |= static_cast<std::uint32_t>(q[i] != 0) << i;
  }
  shape.plain = plain.all();
  shape.difference = difference.all();
  return shape;
}
/// The payload of integers.
/// @param mode  what best_mode says of them
HCOMP_HD inline void put_block(std::int32_t const* q, std::int32_t before, std::size_t n,
                               block_mode mode, std::uint32_t nonzero, std::byte* out) {
  if (mode.kind() == block_kind::sparse) {
    put_sparse(q, nonzero, mode.width(), out);
  } else if (mode.kind() == block_kind::words) {
    put_words(q, n, out);
  } else {
    std::int32_t difference[block_values];
    bool const is_plain = mode.kind() == block_kind::plain;
    for (std::size_t i = 0; !is_plain && i < block_values; ++i)
      difference[i] = difference_at(q, before, i);
    std::int32_t const* const from = is_plain ? q : difference;
    for (int b = 0; b < mode.width(); ++b) {
      std::uint32_t plane = 0;
      for (std::size_t i = 0; i < block_values; ++i)
        plane |= (static_cast<std::uint32_t>(from[i]) >> b & 1u) << i;
      store(out, static_cast<std::size_t>(b), plane);
    }
  }
}
inline packed_block pack_block(std::int32_t const* q, std::int32_t before, std::size_t n,
                               std::byte* out) {
  auto const shape = shape_of_block(q, before);
  auto const mode = best_mode(shape, n);
  put_block(q, before, n, mode, shape.nonzero, out);
  return {mode, shape.plain};
}

HCOMP_HD inline std::int32_t unpack_block(block_mode mode, std::byte const* in, std::int32_t before,
                                          bool add, std::int32_t* q) {
  constexpr std::size_t values = block_values;
  std::uint32_t bits[values] = {};
  if (mode.kind() == block_kind::sparse)
    for_sparse(in, mode.width(),
               [&](int i, std::int32_t value) { bits[i] = static_cast<std::uint32_t>(value); });
  else
    for (int b = 0; b < mode.width(); ++b) {
      auto const plane = load<std::uint32_t>(in, static_cast<std::size_t>(b));
      // the highest bit is the sign, and all above it
      std::uint32_t const bit = b + 1 < mode.width() ? 1u << b : ~std::uint32_t{0} << b;
      for (std::size_t i = 0; i < values; ++i) bits[i] |= (0u - (plane >> i & 1u)) & bit;
    }
  if (mode.kind() == block_kind::difference) {
    auto sum = static_cast<std::uint32_t>(before);
    for (auto& value : bits) value = sum += value;
  }
  for (std::size_t i = 0; i < values; ++i)
    q[i] = add_wrapping(add ? q[i] : 0, static_cast<std::int32_t>(bits[i]));
  return static_cast<std::int32_t>(bits[values - 1]);
}

}  // namespace hcomp::detail::error_bounded
