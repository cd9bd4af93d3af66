#pragma once
/// @file
/// Packing of blocks of 32 integers to the smallest form, and unpacking. Reference for simd.hpp.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>

namespace hcomp::detail::error_bounded {

inline constexpr std::size_t block_values = 32;

/// Form of a block: the upper 2 bits of its mode byte. The lower 6 bits are a width.
enum class block_kind : std::uint8_t {
  plain,       ///< `width` bit planes: word b has bit b of all values, in two's complement
  difference,  ///< bit planes of the differences to the value before; only full blocks
  sparse,      ///< a word that marks nonzero values, then these in `width` bytes: 1, 2 or 4
  words        ///< a word of 32 bits per value, an integer or a float; width 0
};

/// Mode byte of a block, and the size of its payload.
struct block_mode {
  std::uint8_t byte;    ///< 0 if all values are 0
  std::uint32_t bytes;  ///< size of the payload

  HCOMP_HD block_kind kind() const { return static_cast<block_kind>(byte >> 6); }
  HCOMP_HD int width() const { return byte & 63; }
};
inline constexpr std::uint8_t words_mode = 3 << 6;

/// Properties of a block that determine its form. zigzag maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ...;
/// the bit length of an OR of zigzags is the width of all values in two's complement.
struct block_shape {
  std::uint32_t plain;       ///< OR of the zigzags of the values
  std::uint32_t difference;  ///< OR of the zigzags of the differences
  std::uint32_t nonzero;     ///< one bit per value: it is not 0
};

/// Smallest form of a block. It depends only on the integers, not on the order in which they were
/// summed.
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

/// Size in bytes of the payload of n values at `in`.
HCOMP_HD inline std::size_t payload_bytes(std::uint8_t byte, std::byte const* in, std::size_t n) {
  block_mode const mode{byte, 0};
  auto const width = static_cast<std::size_t>(mode.width());
  if (mode.kind() == block_kind::words) return 4 * n;
  if (mode.kind() != block_kind::sparse) return 4 * width;
  return 4 + width * static_cast<std::size_t>(ones(load<std::uint32_t>(in)));
}

/// Result of packing a block.
struct packed_block {
  block_mode mode;
  std::uint32_t magnitude;  ///< block_shape::plain
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
/// Calls f(i, value) for each nonzero value.
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

/// a + b modulo 2^32, because damaged input may overflow.
HCOMP_HD inline std::int32_t add_wrapping(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
HCOMP_HD inline std::uint32_t zigzag(std::int32_t q) {
  return static_cast<std::uint32_t>(q) << 1 ^ static_cast<std::uint32_t>(q >> 31);
}

/// Kernels for full blocks of 32 values; one set per simd_level.
struct block_kernels {
  /// q = x in steps. Returns false if a value is not an integer of the grid; its q exceeds the
  /// limit.
  /// @param error  raised to the largest |x - q| in steps, if all values are integers
  bool (*quantize)(step_grid const& grid, float const* x, std::int32_t* q, double& error);
  /// y = the values of q.
  void (*dequantize)(step_grid const& grid, std::int32_t const* q, float* y);
  /// Writes the payload. May overwrite 4 n bytes of `out`, also after the payload.
  /// @param q       0 after the n-th value
  /// @param before  the value before the first
  packed_block (*pack)(std::int32_t const* q, std::int32_t before, std::size_t n, std::byte* out);
  /// q = the values, or q += the values; returns the last value.
  /// @param mode  any kind but `words`, with a valid width
  std::int32_t (*unpack)(block_mode mode, std::byte const* in, std::int32_t before, bool add,
                         std::int32_t* q);
};

/// Accumulates integers; all() has the bit length of the OR of their zigzags.
class zigzag_bits {
 public:
#if defined(__CUDA_ARCH__)  // has an instruction for the maximum of three numbers
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

/// Largest magnitude of numbers from -1 to 1. Devices keep only the upper half of its bits;
/// header::parts_of returns the same for it.
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
  std::uint32_t magnitude = 0;  // as bits, NaN and infinity exceed every finite magnitude
  HCOMP_UNROLL_ON_DEVICE
  for (std::size_t i = 0; i < block_values; ++i) {
    double const multiple = static_cast<double>(x(i)) * grid.inverse;
    q[i] = rounded_multiple(multiple);
    largest.add(off_by(multiple, q[i]));
    std::uint32_t const bits = same_bits<std::uint32_t>(x(i)) & 0x7fffffffu;
    magnitude = bits > magnitude ? bits : magnitude;
    // rare; also keeps nvcc from loading later values to registers before the check
    if (i % 8 == 7 && magnitude >= 0x7f800000u) break;
  }
  if (nearest_integer(grid, same_bits<float>(magnitude)) == no_integer) return false;
  error = largest.value();  // all values have an integer
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

/// Value i minus the value before it.
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
/// Writes the payload of integers.
/// @param mode  result of best_mode
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
      // the highest plane is the sign and fills all bits above it
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
