#pragma once
/// @file
/// AVX-512 VBMI kernels of lossless for full blocks.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/detail/packed_lanes.hpp>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/codec/lossless/detail/notes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail::lossless {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// A block of 64 values in registers, as value_block.
template <class T> class values_avx512 {
  using block = value_block<T>;
  using word = typename block::word;
  using lanes = lanes_512<word>;
  using of = float_lanes_of<word>;
  using mask = typename of::mask;
  static constexpr int lane_bits = block::value_bits, each = 512 / lane_bits,
                       registers = static_cast<int>(block::values) / each;
  static constexpr word sign = static_cast<word>(block::sign);

 public:
  using form = block_form<T>;
  using front = typename block::front;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void read(T const* x) {
    read(reinterpret_cast<std::byte const*>(x));
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void write(T* out) const {
    write(reinterpret_cast<std::byte*>(out));
  }
  /// Decodes; returns the end of the payload.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] std::byte const* take(form what, std::byte const* in) {
    if (what.is_zeros()) {
      HCOMP_UNROLL for (auto& x : x_) x = lanes{};
      return in;
    }
    if (what.is_plain()) {
      read(in);
      return in + sizeof(x_);
    }
    return what.has_differences() ? take_differences(what, in) : take_offsets(what, in);
  }
  /// Adds another block. Every NaN becomes one_nan.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void add(values_avx512 const& other) {
    using floats = lanes_512<T>;
    lanes const nan = lanes{} + same_bits<word>(one_nan<T>());
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      x_[r] = (lanes)((floats)x_[r] + (floats)other.x_[r]);
      of::set(x_[r], of::nan(x_[r]), nan);
    }
  }

  /// See notes.hpp. Notes stay in memory until a group of blocks is inspected. Each vector holds
  /// one result in its lower half and one in its upper half.
  struct notes {
    std::uint64_t negative, not_zero;
    lanes magnitudes;  ///< smallest nonzero magnitude; ~largest magnitude
    lanes bits;        ///< OR of nonzero magnitudes; ~AND of them
    lanes of_steps;    ///< steps(); step_bits()

    word least() const { return magnitudes[0]; }
    word largest() const { return ~magnitudes[each / 2]; }
    word differing() const { return bits[0] & bits[each / 2]; }
    word steps() const { return of_steps[0]; }
    word step_bits() const { return of_steps[each / 2]; }
  };

  /// Collects the notes about magnitudes and signs, as value_block::look.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void look_at_magnitudes(notes& found) const {
    std::uint64_t negative = 0, not_zero = 0;
    lanes least = ~lanes{}, most{}, any{}, all = ~lanes{};
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes const magnitude = x_[r] & ~sign;
      mask const here = of::not_zero(magnitude);
      not_zero |= static_cast<std::uint64_t>(here) << r * each;
      negative |= static_cast<std::uint64_t>(of::signs(x_[r])) << r * each;
      of::keep_less(least, here, magnitude);
      of::keep_more(most, magnitude);
      any |= magnitude;
      of::keep_common(all, here, magnitude);
    }
    of::reduce_to_least(least, ~most, found.magnitudes);
    of::reduce_to_bits(any, ~all, found.bits);
    found.negative = negative;
    found.not_zero = not_zero;
  }
  /// Collects the notes about steps.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void look_at_steps(notes& found) const {
    lanes steps{}, sizes{}, overflow{}, before;
    first_ordered(before);
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes now, last;
      ordered(x_[r], now);
      of::template move<1>(before, now, last);
      lanes const step = now - last;
      steps |= step;
      sizes |= step ^ (step + step);
      overflow |= (now ^ last) & (now ^ step);
      before = now;
    }
    // frees the top bit, which marks steps too long for 32 bits
    sizes >>= 1;
    if constexpr (lane_bits == 32) sizes |= overflow & sign;
    of::reduce_to_bits(steps, sizes, found.of_steps);
  }
  /// Encodes; returns the end of the payload.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] std::byte* put(front const& f, std::byte* out) const {
    auto const form = f.form;
    if (form.is_zeros()) return out;
    if (form.is_plain()) {
      write(out);
      return out + sizeof(x_);
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
      lanes before;
      first_ordered(before);
      HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
        lanes now, last;
        ordered(x_[r], now);
        of::template move<1>(before, now, last);
        q[r] = now - last;
        before = now;
      }
    } else {
      HCOMP_UNROLL for (int r = 0; r < registers; ++r) q[r] = (x_[r] & ~sign) - first;
    }
    lanes_packer<word> const packer(form.width(), form.left_out());
    packer.pack(q, out);
    return out + registers * packer.bytes();
  }

 private:
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void read(std::byte const* in) {
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) memcpy(&x_[r], in + 64 * r, 64);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void write(std::byte* out) const {
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) memcpy(out + 64 * r, &x_[r], 64);
  }
  /// As value_block::ordered.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void ordered(lanes const& x, lanes& order) {
    order = x;
    of::subtract_from(lanes{} + sign, of::signs(x), order);
  }
  /// Predecessor of the first value: the first value itself, so its step is 0.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void first_ordered(lanes& order) const {
    lanes first;
    ordered(x_[0], first);
    of::template repeat<0>(first, order);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] std::byte const* take_offsets(form what,
                                                                          std::byte const* in) {
    lanes const first = lanes{} + hcomp::load<word>(in);
    in += sizeof(word);
    auto const signs = hcomp::load<std::uint64_t>(in);
    in += what.has_signs() ? sizeof(signs) : 0;
    auto const marked = hcomp::load<std::uint64_t>(in);
    in += what.has_zeros() ? sizeof(marked) : 0;
    std::uint64_t const same = what.all_negative() ? ~std::uint64_t{0} : 0,
                        negative = what.has_signs() ? signs : same,
                        zeros = what.has_zeros() ? marked : 0;
    lanes_packer<word> const packer(what.width(), what.left_out());
    packer.unpack(in, x_);
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      packer.without_sign(x_[r]);
      of::add_or_clear(x_[r], static_cast<mask>(~zeros >> r * each), first);
      x_[r] &= ~sign;
      of::set_bits(x_[r], static_cast<mask>(negative >> r * each), lanes{} + sign);
    }
    return in + registers * packer.bytes();
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] std::byte const* take_differences(form what,
                                                                              std::byte const* in) {
    lanes at = lanes{} + hcomp::load<word>(in);
    in += sizeof(word);
    lanes_packer<word> const packer(what.width(), what.left_out());
    packer.unpack(in, x_);
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes q = x_[r], last;
      packer.with_sign(q);
      add_before<1>(q);
      add_before<2>(q);
      add_before<4>(q);
      if constexpr (each == 16) add_before<8>(q);
      of::template repeat<each - 1>(q, last);
      x_[r] = q + at;
      at += last;
      mask const below = of::signs(x_[r]);
      of::subtract_from(lanes{}, below, x_[r]);
      of::set_bits(x_[r], below, lanes{} + sign);
    }
    return in + registers * packer.bytes();
  }
  /// Adds to each lane the lane `By` positions before it.
  template <int By> [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void add_before(lanes& q) {
    lanes moved;
    of::template move<By>(lanes{}, q, moved);
    q += moved;
  }

  lanes x_[registers];  ///< bits of the values
};

#pragma GCC diagnostic pop

/// Encodes up to `blocks_together` blocks; returns the end of the payloads.
template <class T>
[[gnu::always_inline, HCOMP_TARGET_VBMI]] inline std::byte* put_together(
    T const* x, std::size_t blocks, bool is_cached, std::byte* forms, std::byte* payload) {
  using values = values_avx512<T>;
  typename values::notes notes[blocks_together];
  for (std::size_t k = 0; k < blocks; ++k) {
    if (!is_cached) prefetch_block<T>(x + k * block_values);
    values v;
    v.read(x + k * block_values);
    v.look_at_magnitudes(notes[k]);
  }
  for (std::size_t k = 0; k < blocks; ++k) {
    notes[k].of_steps = ~decltype(notes[k].of_steps){};  // marks the steps as too long
    if (has_long_steps<T>(notes[k])) continue;
    values v;
    v.read(x + k * block_values);
    v.look_at_steps(notes[k]);
  }
  for (std::size_t k = 0; k < blocks; ++k) {
    prefetch_block<T>(payload);
    values v;
    v.read(x + k * block_values);
    auto const front = front_of(notes[k], x[k * block_values]);
    store(forms, k, front.form);
    payload = v.put(front, payload);
  }
  return payload;
}
template <class T>
[[HCOMP_TARGET_VBMI]] std::byte* put_blocks_avx512(T const* x, std::size_t blocks, bool is_cached,
                                                   std::byte* forms, std::byte* payload) {
  for (std::size_t k = 0; k < blocks; k += blocks_together)
    payload = put_together(x + k * block_values,
                           blocks - k < blocks_together ? blocks - k : blocks_together, is_cached,
                           forms + k * sizeof(block_form<T>), payload);
  return payload;
}
template <class T>
[[HCOMP_TARGET_VBMI]] std::byte const* get_blocks_avx512(std::byte const* forms,
                                                         std::byte const* payload,
                                                         std::size_t blocks, T const* addends,
                                                         bool is_cached, T* out) {
  for (std::size_t k = 0; k < blocks; ++k) {
    prefetch_block<T>(payload);
    if (addends && !is_cached) prefetch_block<T>(addends + k * block_values);
    values_avx512<T> sum;
    payload = sum.take(hcomp::load<block_form<T>>(forms, k), payload);
    if (addends) {
      values_avx512<T> own;
      own.read(addends + k * block_values);
      sum.add(own);
    }
    sum.write(out + k * block_values);
  }
  return payload;
}

}  // namespace hcomp::detail::lossless
#endif
