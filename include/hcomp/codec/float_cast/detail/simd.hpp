#pragma once
/// @file
/// Fast path of float_cast for simd_group, which processes one vector register at a time. It gives
/// the same bits as half.hpp and float_cast.hpp, without branches.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/half.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

namespace hcomp::detail {

template <class Wire, class Source> struct encode_floats;
template <class Wire, class From = Wire, class To = Wire> struct merge_floats;
template <class Wire> struct decode_floats;

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// `Lanes` floats, and their wire format in the lower bits of 32-bit lanes.
template <class Wire, int Lanes> struct wire_vector {
  using values = typename aligned_vector<float, Lanes>::type;
  using bits = typename aligned_vector<std::uint32_t, Lanes>::type;
  using ints = typename aligned_vector<std::int32_t, Lanes>::type;
  using stored =
      typename aligned_vector<std::conditional_t<sizeof(Wire) == 2, std::uint16_t, std::uint32_t>,
                              Lanes>::type;

  /// Bit mask whose bits are all set in infinity and NaN only.
  static constexpr std::uint32_t exponent = std::is_same_v<Wire, float>     ? 0x7f800000u
                                            : std::is_same_v<Wire, float16> ? 0x7c00u
                                                                            : 0x7f80u;

  [[gnu::always_inline]] static void narrow(bits& wire, values const& v) {
    bits const f = (bits)v;
    if constexpr (std::is_same_v<Wire, float>) {
      wire = f;
    } else if constexpr (std::is_same_v<Wire, bfloat16>) {
      bits const nan = (bits)((f & 0x7fffffffu) > 0x7f800000u);
      wire = (f + 0x7fffu + (f >> 16 & 1u)) >> 16;
      replace(wire, nan, f >> 16 | 0x40u);
    } else {
      bits const magnitude = f & 0x7fffffffu;
      bits const denormal = (bits)((values)magnitude + 0.5f) - 0x3f000000u;
      wire = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
      replace(wire, (bits)(magnitude < 0x38800000u), denormal);
      replace(wire, (bits)(magnitude >= 0x477ff000u), bits{} + 0x7c00u);
      replace(wire, (bits)(magnitude > 0x7f800000u), 0x7e00u | (magnitude >> 13 & 0x1ffu));
      wire |= f >> 16 & 0x8000u;
    }
  }

  [[gnu::always_inline]] static void widen(values& v, bits const& wire) {
    if constexpr (std::is_same_v<Wire, float>) {
      v = (values)wire;
    } else if constexpr (std::is_same_v<Wire, bfloat16>) {
      v = (values)(wire << 16);
    } else {
      bits const magnitude = wire & 0x7fffu;
      values const tiny = __builtin_convertvector((ints)magnitude, values) * 0x1p-24f;
      bits f = (magnitude << 13) + 0x38000000u;
      replace(f, (bits)(magnitude < 0x400u), (bits)tiny);
      replace(f, (bits)(magnitude >= 0x7c00u), 0x7f800000u | (magnitude & 0x3ffu) << 13);
      v = (values)(f | (wire & 0x8000u) << 16);
    }
  }

  [[gnu::always_inline]] static void load(bits& wire, std::byte const* from, std::size_t count) {
    stored s{};
    std::memcpy(&s, from, count * sizeof(Wire));
    wire = __builtin_convertvector(s, bits);
  }
  [[gnu::always_inline]] static void store(std::byte* to, bits const& wire, std::size_t count) {
    stored const s = __builtin_convertvector(wire, stored);
    std::memcpy(to, &s, count * sizeof(Wire));
  }

 private:
  [[gnu::always_inline]] static void replace(bits& target, bits const& where, bits const& by) {
    target = (target & ~where) | (by & where);
  }
};

/// Calls f(i, count) for each group of `Lanes` values, and for the remainder.
template <int Lanes, class F>
[[gnu::always_inline]] inline void for_each_vector(int n, F const& f) {
  constexpr auto lanes = static_cast<std::size_t>(Lanes);
  int i = 0;
  for (; i + Lanes <= n; i += Lanes) f(static_cast<std::size_t>(i), lanes);
  if (i < n) f(static_cast<std::size_t>(i), static_cast<std::size_t>(n - i));
}

/// Encodes out = x * weight. Returns whether an encoded value is NaN or infinity.
template <class Wire, class Source> struct encode_floats {
  Source x;
  int n;
  float weight;
  std::byte* out;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using wire = wire_vector<Wire, Lanes>;
    typename wire::bits special{};
    for_each_vector<Lanes>(
        n, [&](std::size_t i, std::size_t count) __attribute__((always_inline)) {
          typename wire::values v{};
          if constexpr (std::is_pointer_v<Source>) {
            std::memcpy(&v, x + i, count * sizeof(float));
          } else {
            for (std::size_t k = 0; k < count; ++k) v[k] = x[static_cast<int>(i + k)];
          }
          typename wire::bits b;
          wire::narrow(b, v * weight);
          special |= (typename wire::bits)((b & wire::exponent) == wire::exponent);
          wire::store(out + i * sizeof(Wire), b, count);
        });
    return any_bit(special);
  }
};

/// to = acc + in. `to` may be `acc`. Returns whether a sum in `to` is NaN or infinity.
template <class Wire, class From, class To> struct merge_floats {
  std::byte const* acc;
  std::byte const* in;
  std::byte* to;
  int n;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using wire = wire_vector<Wire, Lanes>;
    using from = wire_vector<From, Lanes>;
    using sum = wire_vector<To, Lanes>;
    typename wire::bits special{};
    for_each_vector<Lanes>(
        n, [&](std::size_t i, std::size_t count) __attribute__((always_inline)) {
          typename wire::bits mine, other;
          typename wire::values a, b;
          from::load(mine, acc + i * sizeof(From), count);
          wire::load(other, in + i * sizeof(Wire), count);
          from::widen(a, mine);
          wire::widen(b, other);
          sum::narrow(mine, a + b);
          special |= (typename wire::bits)((mine & sum::exponent) == sum::exponent);
          sum::store(to + i * sizeof(To), mine, count);
        });
    return any_bit(special);
  }
};

/// x = in / divisor.
template <class Wire> struct decode_floats {
  std::byte const* in;
  int n;
  float divisor;
  float* x;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using wire = wire_vector<Wire, Lanes>;
    for_each_vector<Lanes>(
        n, [&](std::size_t i, std::size_t count) __attribute__((always_inline)) {
          typename wire::bits b;
          typename wire::values v;
          wire::load(b, in + i * sizeof(Wire), count);
          wire::widen(v, b);
          if (divisor != 1) v /= divisor;
          std::memcpy(x + i, &v, count * sizeof(float));
        });
    return false;
  }
};

#pragma GCC diagnostic pop

#endif

}  // namespace hcomp::detail
