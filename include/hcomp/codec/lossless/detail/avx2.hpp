#pragma once
/// @file
/// AVX2 kernels of lossless for full blocks.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lanes_256.hpp>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/detail/packed_lanes_256.hpp>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/codec/lossless/detail/notes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>
#include <limits>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)

namespace hcomp::detail::lossless {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// A block of 64 values in registers, as value_block.
template <class T> class values_avx2 {
  using block = value_block<T>;
  using word = typename block::word;
  using of = lanes_256_of<word>;
  using lanes = typename of::lanes;
  static constexpr int each = of::count, registers = static_cast<int>(block::values) / each;
  static constexpr auto sign = static_cast<word>(block::sign);

 public:
  using form = block_form<T>;
  using front = typename block::front;

  [[HCOMP_INLINE_AVX2]] void read(void const* in) {
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) x_[r] =
        of::load(static_cast<std::byte const*>(in) + 32 * r);
  }
  [[HCOMP_INLINE_AVX2]] void write(void* out) const {
    HCOMP_UNROLL for (int r = 0; r < registers; ++r)
        of::store(static_cast<std::byte*>(out) + 32 * r, x_[r]);
  }
  /// Decodes; returns the end of the payload.
  [[HCOMP_INLINE_AVX2]] std::byte const* take(form what, std::byte const* in) {
    if (what.is_zeros())
      for (auto& x : x_) x = lanes{};
    else if (what.is_plain())
      read(in);
    else if (what.has_differences())
      take_differences(what, in);
    else
      take_offsets(what, in);
    return in + what.payload_bytes(block::values);
  }
  /// Adds another block. Every NaN becomes one_nan.
  [[HCOMP_INLINE_AVX2]] void add(values_avx2 const& other) {
    using floats = lanes_256<T>;
    lanes const nan = of::in_all(same_bits<word>(one_nan<T>())),
                infinity = of::in_all(same_bits<word>(std::numeric_limits<T>::max()) + 1),
                not_sign = of::in_all(static_cast<word>(~sign));
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      auto const sum = (lanes)((floats)x_[r] + (floats)other.x_[r]);
      x_[r] = of::chosen(of::above(sum & not_sign, infinity), nan, sum);
    }
  }

  /// See notes.hpp.
  struct notes {
    std::uint64_t negative, not_zero;
    word least_one, largest_one, differing_ones, steps_ones, step_sizes;

    word least() const { return least_one; }
    word largest() const { return largest_one; }
    word differing() const { return differing_ones; }
    word steps() const { return steps_ones; }
    word step_bits() const { return step_sizes; }
  };
  /// Collects the notes about magnitudes and signs, as value_block::look.
  [[HCOMP_INLINE_AVX2]] void look_at_magnitudes(notes& found) const {
    lanes const not_sign = of::in_all(static_cast<word>(~sign));
    lanes least = not_sign, largest{}, any{}, all = not_sign;
    std::uint64_t negative = 0, zeros = 0;
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes const magnitude = x_[r] & not_sign, zero = of::zero(magnitude),
                  counted = magnitude | (zero & not_sign);
      negative |= of::highest_bits(x_[r]) << r * each;
      zeros |= of::highest_bits(zero) << r * each;
      least = of::less(least, counted);
      largest = of::more(largest, magnitude);
      any |= magnitude;
      all &= counted;
    }
    found.negative = negative;
    found.not_zero = ~zeros;
    found.least_one = of::least_of(least);
    found.largest_one = of::largest_of(largest);
    found.differing_ones = of::any_of(any) & of::any_of(~all);
  }
  /// Collects the notes about steps.
  [[HCOMP_INLINE_AVX2]] void look_at_steps(notes& found) const {
    lanes steps{}, sizes{}, overflow{}, before = of::first_in_all(ordered(x_[0]));
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes const now = ordered(x_[r]), last = of::moved(before, now), step = now - last;
      steps |= step;
      sizes |= step ^ (step + step);
      overflow |= (now ^ last) & (now ^ step);
      before = now;
    }
    // frees the top bit, which marks steps too long for 32 bits
    sizes >>= 1;
    if constexpr (sizeof(word) == 4) sizes |= overflow & sign;
    found.steps_ones = of::any_of(steps);
    found.step_sizes = of::any_of(sizes);
  }

  /// Encodes; returns the end of the payload.
  [[HCOMP_INLINE_AVX2]] std::byte* put(front const& f, std::byte* out) const {
    auto const form = f.form;
    std::byte* const end = out + form.payload_bytes(block::values);
    if (form.is_zeros()) return end;
    if (form.is_plain()) {
      write(out);
      return end;
    }
    auto const first = static_cast<word>(f.first);
    // later stores overwrite fields that this form does not have
    store(out, 0, first);
    out += sizeof(first);
    store(out, 0, f.negative);
    out += form.has_signs() ? sizeof(f.negative) : 0;
    store(out, 0, f.zeros);
    out += form.has_zeros() ? sizeof(f.zeros) : 0;
    lanes q[registers];
    if (form.has_differences()) {
      lanes before = of::first_in_all(ordered(x_[0]));
      HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
        lanes const now = ordered(x_[r]);
        q[r] = now - of::moved(before, now);
        before = now;
      }
    } else {
      lanes const least = of::in_all(first), not_sign = of::in_all(static_cast<word>(~sign));
      HCOMP_UNROLL for (int r = 0; r < registers; ++r) q[r] = (x_[r] & not_sign) - least;
    }
    lanes_packer_256<word>(form.width(), form.left_out()).pack(q, out);
    return end;
  }

 private:
  /// As value_block::ordered.
  [[HCOMP_INLINE_AVX2]] static lanes ordered(lanes const& x) {
    lanes const below = of::negative(x);
    return ((x & ~of::in_all(sign)) ^ below) - below;
  }
  [[HCOMP_INLINE_AVX2]] void take_offsets(form what, std::byte const* in) {
    lanes const first = of::in_all(hcomp::load<word>(in)), all_signs = of::in_all(sign);
    in += sizeof(word);
    std::uint64_t negative = what.all_negative() ? ~std::uint64_t{0} : 0, zeros = 0;
    if (what.has_signs()) {
      negative = hcomp::load<std::uint64_t>(in);
      in += sizeof(negative);
    }
    if (what.has_zeros()) {
      zeros = hcomp::load<std::uint64_t>(in);
      in += sizeof(zeros);
    }
    lanes_packer_256<word> const packer(what.width(), what.left_out());
    packer.unpack(in, x_);
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes const zero = of::negative(of::to_highest_bits(zeros, r * each)),
                  magnitude = (packer.without_sign(x_[r]) + first) & ~(zero | all_signs);
      x_[r] = magnitude | (of::to_highest_bits(negative, r * each) & all_signs);
    }
  }
  [[HCOMP_INLINE_AVX2]] void take_differences(form what, std::byte const* in) {
    lanes at = of::in_all(hcomp::load<word>(in));
    lanes_packer_256<word> const packer(what.width(), what.left_out());
    packer.unpack(in + sizeof(word), x_);
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes const sum = of::summed_up(packer.with_sign(x_[r])), order = sum + at,
                  below = of::negative(order);
      at += of::last_in_all(sum);
      x_[r] = ((order ^ below) - below) | (below & of::in_all(sign));
    }
  }

  lanes x_[registers];  ///< bits of the values
};

#pragma GCC diagnostic pop

/// See block_kernels.
template <class T>
[[gnu::target("avx2")]] std::byte* put_blocks_avx2(T const* x, std::size_t blocks, bool is_cached,
                                                   std::byte* forms, std::byte* payload) {
  using values = values_avx2<T>;
  for (std::size_t first = 0; first < blocks; first += blocks_together) {
    typename values::notes notes[blocks_together];
    std::size_t const end = blocks - first < blocks_together ? blocks : first + blocks_together;
    for (std::size_t k = first; k < end; ++k) {
      if (!is_cached) prefetch_block<T>(x + k * block_values);
      values v;
      v.read(x + k * block_values);
      v.look_at_magnitudes(notes[k - first]);
    }
    for (std::size_t k = first; k < end; ++k) {
      auto& one = notes[k - first];
      // marks the steps as too long
      one.steps_ones = one.step_sizes = static_cast<decltype(one.steps_ones)>(~0ull);
      if (has_long_steps<T>(one)) continue;
      values v;
      v.read(x + k * block_values);
      v.look_at_steps(one);
    }
    for (std::size_t k = first; k < end; ++k) {
      prefetch_block<T>(payload);
      values v;
      v.read(x + k * block_values);
      auto const front = front_of(notes[k - first], x[k * block_values]);
      store(forms, k, front.form);
      payload = v.put(front, payload);
    }
  }
  return payload;
}
template <class T>
[[gnu::target("avx2")]] std::byte const* get_blocks_avx2(std::byte const* forms,
                                                         std::byte const* payload,
                                                         std::size_t blocks, T const* addends,
                                                         bool is_cached, T* out) {
  for (std::size_t k = 0; k < blocks; ++k) {
    prefetch_block<T>(payload);
    if (addends && !is_cached) prefetch_block<T>(addends + k * block_values);
    values_avx2<T> sum;
    payload = sum.take(hcomp::load<block_form<T>>(forms, k), payload);
    if (addends) {
      values_avx2<T> own;
      own.read(addends + k * block_values);
      sum.add(own);
    }
    sum.write(out + k * block_values);
  }
  return payload;
}

}  // namespace hcomp::detail::lossless
#endif
