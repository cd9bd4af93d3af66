#pragma once
/// @file
/// Whole blocks of lossless_dense by AVX-512 with VBMI.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/lanes_512.hpp>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/detail/packed_lanes.hpp>
#include <hcomp/codec/lossless_dense/detail/blocks.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <type_traits>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>

namespace hcomp::detail::lossless_dense {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// 64 values, as value_block.
template <class T> class values_avx512 {
 public:
  using block = value_block<T>;
  using form = block_form<T>;
  using front = typename block::front;

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void read(T const* x) {
    read(reinterpret_cast<std::byte const*>(x));
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void write(T* out) const {
    write(reinterpret_cast<std::byte*>(out));
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void take(block_payload<T> const& from) {
    if (from.form.is_zeros()) {
      HCOMP_UNROLL for (auto& x : x_) x = lanes{};
    } else if (from.form.is_plain()) {
      read(from.in);
    } else if (from.form.has_differences()) {
      take_differences(from);
    } else {
      take_offsets(from);
    }
  }
  /// Of all NaNs one, as with_one_nan.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void add(values_avx512 const& other) {
    using floats = lanes_512<T>;
    lanes const one_nan = lanes{} + same_bits<word>(with_one_nan(same_bits<T>(word(~word{0}))));
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      x_[r] = (lanes)((floats)x_[r] + (floats)other.x_[r]);
      of::set(x_[r], of::nan(x_[r]), one_nan);
    }
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] bool is_finite() const {
    mask found = 0;
    HCOMP_UNROLL for (auto const& x : x_) found = static_cast<mask>(found | of::nonfinite(x));
    return found == 0;
  }

  /// As value_block::look, of a whole block.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] front look() const {
    std::uint64_t negative = 0, not_zero = 0;
    // of magnitudes that are not zero; and bits that one has, and that all have
    lanes least = ~lanes{}, most{}, any{}, all = ~lanes{};
    lanes steps{}, sizes{}, overflow{}, before;
    first_ordered(before);
    auto const first = static_cast<std::uint64_t>(before[0]);
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes const magnitude = x_[r] & ~sign;
      mask const here = of::not_zero(magnitude);
      not_zero |= static_cast<std::uint64_t>(here) << r * each;
      negative |= static_cast<std::uint64_t>(of::signs(x_[r])) << r * each;
      of::keep_less(least, here, magnitude);
      of::keep_more(most, magnitude);
      any |= magnitude;
      of::keep_common(all, here, magnitude);
      lanes now, last;
      ordered(x_[r], now);
      of::template move<1>(before, now, last);
      lanes const step = now - last;
      steps |= step;
      sizes |= step ^ (lanes)((whole)step >> (lane_bits - 1));
      overflow |= (now ^ last) & (now ^ step);
      before = now;
    }
    std::uint64_t smallest[2], bits[4];
    of::least_of(least, ~most, smallest);
    bits_of(any, ~all, steps, sizes, bits);
    typename block::findings found{smallest[0], first, negative, ~not_zero, {}, {}};
    if (std::uint64_t const highest = static_cast<word>(~smallest[1]); highest > smallest[0])
      found.offsets = {lowest_one(bits[0] & bits[1]), bit_length(highest - smallest[0])};
    if (bits[2] != 0) found.steps = {lowest_one(bits[2]), 1 + bit_length(bits[3])};
    if (lane_bits == 32 && of::signs(overflow) != 0) found.steps.end = lane_bits + 1;
    return block::shortest(found, block::values);
  }

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void put(front const& f, std::byte* out) const {
    if (f.form.is_zeros()) return;
    if (f.form.is_plain()) return write(out);
    store(out, 0, static_cast<word>(f.first));
    out += sizeof(word);
    if (f.form.has_signs()) {
      store(out, 0, f.negative);
      out += sizeof(f.negative);
    }
    if (f.form.has_zeros()) {
      store(out, 0, f.zeros);
      out += sizeof(f.zeros);
    }
    lanes q[registers];
    if (f.form.has_differences()) {
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
      HCOMP_UNROLL for (int r = 0; r < registers; ++r) q[r] =
          (x_[r] & ~sign) - static_cast<word>(f.first);
    }
    lanes_packer<word> const packer(f.form.width());
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      of::shift_down(q[r], f.form.left_out());
      packer.pack(q[r], out + static_cast<std::size_t>(r) * packer.bytes());
    }
  }

 private:
  using word = typename block::word;
  using lanes = lanes_512<word>;
  using whole = lanes_512<std::make_signed_t<word>>;
  using of = float_lanes_of<word>;
  using mask = typename of::mask;
  static constexpr int lane_bits = block::value_bits, each = 512 / lane_bits,
                       registers = static_cast<int>(block::values) / each;
  static constexpr word sign = static_cast<word>(block::sign);

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void read(std::byte const* in) {
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) memcpy(&x_[r], in + 64 * r, 64);
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void write(std::byte* out) const {
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) memcpy(out + 64 * r, &x_[r], 64);
  }
  /// As value_block::ordered.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void ordered(lanes const& x, lanes& order) {
    auto const negative = (lanes)((whole)x >> (lane_bits - 1));
    order = ((x & ~sign) ^ negative) - negative;
  }
  /// What is in front of the first value: the same.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void first_ordered(lanes& order) const {
    lanes first;
    ordered(x_[0], first);
    of::template repeat<0>(first, order);
  }
  /// All bits of four vectors.
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void bits_of(lanes const& a, lanes const& b,
                                                                lanes const& c, lanes const& d,
                                                                std::uint64_t (&bits)[4]) {
    __m512i const first = halves_of(a, b), second = halves_of(c, d);
    auto all = (lanes_512<std::uint64_t>)_mm512_or_si512(
        _mm512_maskz_shuffle_i64x2(0xff, first, second, 0x88),
        _mm512_maskz_shuffle_i64x2(0xff, first, second, 0xdd));
    all |=
        (lanes_512<std::uint64_t>)_mm512_maskz_shuffle_epi32(0xffff, (__m512i)all, _MM_PERM_BADC);
    if constexpr (lane_bits == 32) all = (all | all >> 32) & 0xffffffffu;
    HCOMP_UNROLL for (int i = 0; i < 4; ++i) bits[i] = all[2 * i];
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] static __m512i halves_of(lanes const& a,
                                                                     lanes const& b) {
    return _mm512_or_si512(_mm512_maskz_shuffle_i64x2(0xff, (__m512i)a, (__m512i)b, 0x44),
                           _mm512_maskz_shuffle_i64x2(0xff, (__m512i)a, (__m512i)b, 0xee));
  }

  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void take_offsets(block_payload<T> const& from) {
    std::byte const* in = from.in;
    auto const first = hcomp::load<word>(in);
    in += sizeof(word);
    std::uint64_t negative = from.form.all_negative() ? ~std::uint64_t{0} : 0, zeros = 0;
    if (from.form.has_signs()) {
      negative = hcomp::load<std::uint64_t>(in);
      in += sizeof(negative);
    }
    if (from.form.has_zeros()) {
      zeros = hcomp::load<std::uint64_t>(in);
      in += sizeof(zeros);
    }
    lanes_packer<word> const packer(from.form.width());
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes q, is_negative, is_zero;
      packer.unpack(in + static_cast<std::size_t>(r) * packer.bytes(), q);
      packer.without_sign(q);
      of::shift_up(q, from.form.left_out());
      of::where(static_cast<mask>(negative >> r * each), is_negative);
      of::where(static_cast<mask>(zeros >> r * each), is_zero);
      x_[r] = ((q + first) & ~is_zero & ~sign) | (is_negative & sign);
    }
  }
  [[gnu::always_inline, HCOMP_TARGET_VBMI]] void take_differences(block_payload<T> const& from) {
    std::byte const* const in = from.in + sizeof(word);
    lanes at = lanes{} + hcomp::load<word>(from.in);
    lanes_packer<word> const packer(from.form.width());
    HCOMP_UNROLL for (int r = 0; r < registers; ++r) {
      lanes q, last;
      packer.unpack(in + static_cast<std::size_t>(r) * packer.bytes(), q);
      packer.with_sign(q);
      of::shift_up(q, from.form.left_out());
      add_before<1>(q);
      add_before<2>(q);
      add_before<4>(q);
      if constexpr (each == 16) add_before<8>(q);
      of::template repeat<each - 1>(q, last);
      q += at;
      at += last;
      auto const negative = (lanes)((whole)q >> (lane_bits - 1));
      x_[r] = (((q ^ negative) - negative) & ~sign) | (negative & sign);
    }
  }
  /// To each lane, what is in the one so many before.
  template <int By> [[gnu::always_inline, HCOMP_TARGET_VBMI]] static void add_before(lanes& q) {
    lanes moved;
    of::template move<By>(lanes{}, q, moved);
    q += moved;
  }

  lanes x_[registers];  ///< bits of values
};

#pragma GCC diagnostic pop

template <class T>
[[HCOMP_TARGET_VBMI]] void look_at_block_avx512(T const* x, typename value_block<T>::front& found) {
  values_avx512<T> values;
  values.read(x);
  found = values.look();
}
template <class T>
[[HCOMP_TARGET_VBMI]] void put_block_avx512(T const* x, typename value_block<T>::front const& found,
                                            std::byte* out) {
  values_avx512<T> values;
  values.read(x);
  values.put(found, out);
}
template <class T>
[[HCOMP_TARGET_VBMI]] void get_block_avx512(block_payload<T> from, T const* addends, T* out) {
  values_avx512<T> sum;
  sum.take(from);
  if (addends) {
    values_avx512<T> own;
    own.read(addends);
    sum.add(own);
  }
  sum.write(out);
}
template <class T> [[HCOMP_TARGET_VBMI]] bool is_finite_block_avx512(block_payload<T> from) {
  values_avx512<T> values;
  values.take(from);
  return values.is_finite();
}

}  // namespace hcomp::detail::lossless_dense
#endif
