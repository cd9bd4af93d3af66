#pragma once
/// @file
/// Fast paths of THC's kernels for simd_group, which process one vector register of coordinates at
/// a time. The same bits as kernels.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/float_cast/detail/simd.hpp>
#include <hcomp/codec/thc/detail/hadamard.hpp>
#include <hcomp/codec/thc/detail/kernels.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>

#if !defined(__CUDA_ARCH__)  // device code has no vectors, and no simd_group

namespace hcomp::detail::thc {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

// ---- Lookup: the only step that needs intrinsics
//
// Arguments are passed through memory, and inlining removes the copies. Vectors of 32 and 64 bytes
// have no ABI in common with callers that lack the instruction set.

#if defined(__x86_64__)
[[gnu::target("avx2")]] inline __m256i load_avx2(std::uint32_t const* from) {
  return _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from));
}
/// Looks up table[j] in 8 entries.
[[gnu::target("avx2")]] inline __m256 look_up_8_avx2(std::uint32_t const* table, __m256i j) {
  return _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(load_avx2(table), j));
}
/// Looks up table[j] in 32 entries, for 8 numbers below 32.
[[gnu::target("avx2")]] inline void look_up_few_avx2(std::uint32_t* out, std::uint32_t const* table,
                                                     std::uint32_t const* j) {
  __m256i const at = load_avx2(j);
  __m256 const by_8 = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28));
  __m256 const by_16 = _mm256_castsi256_ps(_mm256_slli_epi32(at, 27));
  __m256 const low =
      _mm256_blendv_ps(look_up_8_avx2(table, at), look_up_8_avx2(table + 8, at), by_8);
  __m256 const high =
      _mm256_blendv_ps(look_up_8_avx2(table + 16, at), look_up_8_avx2(table + 24, at), by_8);
  _mm256_storeu_ps(reinterpret_cast<float*>(out), _mm256_blendv_ps(low, high, by_16));
}
[[gnu::target("avx2")]] inline void look_up_avx2(std::uint32_t* out, std::uint32_t const* table,
                                                 std::uint32_t const* j) {
  __m256i const at = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(j));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                      _mm256_i32gather_epi32(reinterpret_cast<int const*>(table), at, 4));
}
/// The same for 16 numbers.
[[gnu::target("avx512f")]] inline void look_up_few_avx512(std::uint32_t* out,
                                                          std::uint32_t const* table,
                                                          std::uint32_t const* j) {
  _mm512_storeu_si512(out,
                      _mm512_permutex2var_epi32(_mm512_loadu_si512(table), _mm512_loadu_si512(j),
                                                _mm512_loadu_si512(table + 16)));
}
[[gnu::target("avx512f")]] inline void look_up_avx512(std::uint32_t* out,
                                                      std::uint32_t const* table,
                                                      std::uint32_t const* j) {
  // masked, because g++ 12 warns about the header of the unmasked form
  _mm512_storeu_si512(out, _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff,
                                                       _mm512_loadu_si512(j), table, 4));
}
#endif

/// entry = table[j], lane by lane; `Few`: all j are below 32.
template <int Lanes, bool Few, class Bits>
[[gnu::always_inline]] inline void look_up(Bits& entry, std::uint32_t const* table, Bits const& j) {
  std::uint32_t in[Lanes], out[Lanes];
  std::memcpy(in, &j, sizeof(j));
#if defined(__x86_64__)
  if constexpr (Lanes == 16 && Few)
    look_up_few_avx512(out, table, in);
  else if constexpr (Lanes == 16)
    look_up_avx512(out, table, in);
  else if constexpr (Lanes == 8 && Few)
    look_up_few_avx2(out, table, in);
  else if constexpr (Lanes == 8)
    look_up_avx2(out, table, in);
  else
#endif
    for (int i = 0; i < Lanes; ++i) out[i] = table[in[i]];
  std::memcpy(&entry, out, sizeof(entry));
}

#if defined(__x86_64__)
/// Half of a table of 32 bytes, repeated in every 16 bytes. A function, because nvcc ignores the
/// target attribute of a lambda.
[[gnu::target("avx2")]] inline __m256i half_of_table_avx2(std::uint8_t const* table, int k) {
  return _mm256_broadcastsi128_si256(
      _mm_loadu_si128(reinterpret_cast<__m128i const*>(table + 16 * k)));
}
[[gnu::target("avx512f,avx512bw")]] inline __m512i half_of_table_avx512(std::uint8_t const* table,
                                                                        int k) {
  return _mm512_maskz_broadcast_i32x4(
      0xffff, _mm_loadu_si128(reinterpret_cast<__m128i const*>(table + 16 * k)));
}

/// bytes[i] = table[bytes[i]] for 32 numbers below 32.
[[gnu::target("avx2")]] inline void exchange_bytes_avx2(std::byte* bytes,
                                                        std::uint8_t const* table) {
  auto* const at = reinterpret_cast<__m256i*>(bytes);
  __m256i const b = _mm256_loadu_si256(at);
  // numbers with their highest bit set give 0
  __m256i const low =
      _mm256_shuffle_epi8(half_of_table_avx2(table, 0), _mm256_add_epi8(b, _mm256_set1_epi8(0x70)));
  __m256i const high =
      _mm256_shuffle_epi8(half_of_table_avx2(table, 1), _mm256_sub_epi8(b, _mm256_set1_epi8(16)));
  _mm256_storeu_si256(at, _mm256_or_si256(low, high));
}
/// The same for 64 numbers.
[[gnu::target("avx512f,avx512bw")]] inline void exchange_bytes_avx512(std::byte* bytes,
                                                                      std::uint8_t const* table) {
  __m512i const b = _mm512_loadu_si512(bytes);
  __m512i const low = _mm512_shuffle_epi8(half_of_table_avx512(table, 0),
                                          _mm512_add_epi8(b, _mm512_set1_epi8(0x70)));
  __m512i const high =
      _mm512_shuffle_epi8(half_of_table_avx512(table, 1), _mm512_sub_epi8(b, _mm512_set1_epi8(16)));
  _mm512_storeu_si512(bytes, _mm512_or_si512(low, high));
}
#endif

/// The upper bytes of 16-bit lanes are 0, and 0 is mapped to 0.
template <class Lane, bool ToNumbers>
template <class Vector>
[[gnu::always_inline]] inline void level_numbers<Lane, ToNumbers>::vector(Vector& w) const {
  std::byte bytes[sizeof(Vector)];
  std::memcpy(bytes, &w, sizeof(w));
#if defined(__x86_64__)
  if constexpr (sizeof(Vector) == 64)
    exchange_bytes_avx512(bytes, few_);
  else if constexpr (sizeof(Vector) == 32)
    exchange_bytes_avx2(bytes, few_);
  else
#endif
    for (auto& byte : bytes) byte = static_cast<std::byte>(few_[static_cast<int>(byte) & 31]);
  std::memcpy(&w, bytes, sizeof(w));
}

// ---- Vectors of values, of draws, of signs

template <int Lanes> struct vector_types {
  using values = typename aligned_vector<float, Lanes>::type;
  using bits = typename aligned_vector<std::uint32_t, Lanes>::type;
  using ints = typename aligned_vector<std::int32_t, Lanes>::type;
  using word = typename aligned_vector<std::uint64_t, Lanes / 2>::type;

  /// Interleaves the 32-bit words of two counters.
  [[gnu::always_inline]] static void pack(bits& to, word const& low, word const& high) {
    word const both = (low & 0xffffffffu) | (high << 32);
    std::memcpy(&to, &both, sizeof(to));
  }

  /// Loads the values of x from `at` on; NaN and infinity become 0 and set bits of `special`.
  [[gnu::always_inline]] static void read(values& v, bits& special, float const* x,
                                          std::size_t at) {
    std::memcpy(&v, x + at, sizeof(v));
    remove_special(v, special);
  }
  [[gnu::always_inline]] static void read(values& v, bits& special, compensated<float> const& x,
                                          std::size_t at) {
    values c;
    std::memcpy(&v, x.x + at, sizeof(v));
    std::memcpy(&c, x.compensation + at, sizeof(c));
    v += c;
    remove_special(v, special);
  }

  /// Negates the lanes of v where the word's bits from `at` on are set.
  [[gnu::always_inline]] static void negate(values& v, std::uint64_t word, int at) {
    bits left;
    for (int i = 0; i < Lanes; ++i) left[i] = static_cast<std::uint32_t>(31 - i);
    bits const here = bits{} + static_cast<std::uint32_t>(word >> at);
    v = (values)((bits)v ^ ((here << left) & 0x80000000u));
  }

 private:
  [[gnu::always_inline]] static void remove_special(values& v, bits& special) {
    bits const b = (bits)v, mask = (bits)((b & 0x7f800000u) != 0x7f800000u);
    v = (values)(b & mask);
    special |= ~mask;
  }
};

/// The sign words of one transform.
template <int Lanes> class sign_words {
 public:
  [[gnu::always_inline]] sign_words(draw_place const& place, transform_range range) {
    using vectors = vector_types<Lanes>;
    using word = typename vectors::word;
    int const from = range.first / 64, end = from + range.size / 64;
    int const base = from / 16 * 16;
    first_ = from - base;
    for (int w = base; w < end; w += 16) {
      constexpr int turns = 16 / Lanes;
      philox_words<word> draws[turns];
      word index, domain;
      repeat(index, place.index);
      repeat(domain, domain_of_signs);
      for (int k = 0; k < turns; ++k) {
        count_from(draws[k].c0, static_cast<std::uint64_t>(w / 2 + k * Lanes / 2));
        draws[k].c1 = index;
        draws[k].c2 = word{};
        draws[k].c3 = domain;
      }
      philox4x32(draws, place.key);
      for (int k = 0; k < turns; ++k) {
        auto const& [c0, c1, c2, c3] = draws[k];
        typename vectors::bits low, high;
        vectors::pack(low, c0, c1);
        vectors::pack(high, c2, c3);
        std::memcpy(words_ + (w - base) + k * Lanes / 2, &low, sizeof(low));
        std::memcpy(words_ + (w - base) + 8 + k * Lanes / 2, &high, sizeof(high));
      }
    }
  }
  /// Signs of coordinates i to i + 63 of the transform, i a multiple of 64.
  std::uint64_t operator[](int i) const { return words_[first_ + i / 64]; }

 private:
  int first_;
  alignas(64) std::uint64_t words_[largest_transform / 64 + 16];
};

// ---- Sinks

template <class Lane, int Lanes, class Bits>
[[gnu::always_inline]] inline void store_narrow(std::byte* out, Bits const& b) {
  using narrow = typename aligned_vector<Lane, Lanes>::type;
  if constexpr (Lanes == 16) {
    narrow const n = __builtin_convertvector(b, narrow);
    std::memcpy(out, &n, sizeof(n));
  } else {
    // in two steps, through 16 bits: g++ 12 converts to 8 bits one value at a time
    using middle = typename aligned_vector<std::uint16_t, Lanes>::type;
    narrow const n = __builtin_convertvector(__builtin_convertvector(b, middle), narrow);
    std::memcpy(out, &n, sizeof(n));
  }
}
template <int Lanes, class Bits>
[[gnu::always_inline]] inline void put_vector(level_sink const& sink, int i, Bits const& entry,
                                              Bits const& upper) {
  auto const at = static_cast<std::size_t>(i);
  if (sink.kind == level_sink::indices) {
    store_narrow<std::uint8_t, Lanes>(sink.out + at, (entry >> 24) - upper);
    return;
  }
  Bits level = (entry >> 16 & 0xffu) + (upper & entry >> 8 & 0xffu);
  if (sink.weight != 1) level *= sink.weight;
  if (sink.kind == level_sink::lanes_8)
    store_narrow<std::uint8_t, Lanes>(sink.out + at, level);
  else
    store_narrow<std::uint16_t, Lanes>(sink.out + at * sizeof(std::uint16_t), level);
}

// ---- Kernels

/// Prefetches the values that are read or written next. Only scratch is accessed in between, so the
/// loads have time to complete. Without prefetching, every transform would wait for its first
/// values.
struct fetch_ahead {
  char const* first = nullptr;
  char const* second = nullptr;  ///< second range, of the same type
  int value_bytes = 0;

  fetch_ahead() = default;
  template <class Source> fetch_ahead(Source const&, int) {}
  template <class V>
  fetch_ahead(V* const& x, int at)
      : first(reinterpret_cast<char const*>(x + at)), value_bytes(sizeof(V)) {}
  template <class V> fetch_ahead(compensated<V> const& x, int at) : fetch_ahead(x.x, at) {
    if (sizeof(*x.x) == sizeof(*x.compensation))
      second = reinterpret_cast<char const*>(x.compensation + at);
  }

  [[gnu::always_inline]] void prefetch(int i, int count) const {
    if (!first) return;
    for (int byte = i * value_bytes; byte < (i + count) * value_bytes; byte += 64) {
      __builtin_prefetch(first + byte);
      if (second) __builtin_prefetch(second + byte);
    }
  }
};

template <class Source> struct rotate_vectors {
  float* scratch;
  Source x;  ///< range.size values
  transform_range range;
  float_scale scale;
  draw_place const& place;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using vectors = vector_types<Lanes>;
    using values = typename vectors::values;
    sign_words<Lanes> const signs(place, range);
    typename vectors::bits special{};
    hadamard_by<Lanes>::begin(
        scratch, range.size, [&](values & v, int i) __attribute__((always_inline)) {
          vectors::read(v, special, x, static_cast<std::size_t>(i));
          v *= scale.factor;
          vectors::negate(v, signs[i], i % 64);
          v *= scale.power;
        });
    return any_bit((typename vectors::word)special);
  }
};

struct round_vectors {
  float const* scratch;
  transform_range range;
  float limit;
  level_cells const& cells;
  draw_place const& place;
  level_sink sink;
  fetch_ahead ahead = {};

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    if (Lanes > 4 && limit < 32 << 15)  // four lanes look entries up one by one
      round<Lanes, (Lanes > 4)>();
    else
      round<Lanes, false>();
    return false;
  }

 private:
  template <int Lanes, bool Few> [[gnu::always_inline]] void round() const {
    typename vector_types<Lanes>::word counters;
    count_from(counters, static_cast<std::uint64_t>(range.first / 8));
    int i = 0;
    for (; i + 128 <= range.size; i += 128) tiles<Lanes, Few, 2>(i, counters);
    if (i < range.size) tiles<Lanes, Few, 1>(i, counters);
  }

  /// Rounds 64 coordinates, or 128, for which the Philox round keys are computed once.
  template <int Lanes, bool Few, int Tiles, class Word>
  [[gnu::always_inline]] void tiles(int i, Word& counters) const {
    using vectors = vector_types<Lanes>;
    using bits = typename vectors::bits;
    constexpr int turns = 16 / Lanes;  // vectors per row of 16 coordinates
    ahead.prefetch(i, Tiles * 64);
    Word index, rank, domain;
    repeat(index, place.index);
    repeat(rank, place.rank);
    repeat(domain, domain_of_rounding);
    philox_words<Word> draws[Tiles * turns];
    HCOMP_UNROLL
    for (int k = 0; k < Tiles * turns; ++k) {
      draws[k] = {counters, index, rank, domain};
      counters += Lanes / 2;
    }
    philox4x32(draws, place.key);
    // not unrolled: the draws of all turns do not fit into registers
    for (int k = 0; k < Tiles * turns; ++k) {
      auto const& [c0, c1, c2, c3] = draws[k];
      int const to = i + k / turns * 64 + k % turns * Lanes;
      bits first, second;
      vectors::pack(first, c0, c1);
      vectors::pack(second, c2, c3);
      quantize<Lanes, Few>(to, first & 0xffffu);
      quantize<Lanes, Few>(to + 16, first >> 16);
      quantize<Lanes, Few>(to + 32, second & 0xffffu);
      quantize<Lanes, Few>(to + 48, second >> 16);
    }
  }

  template <int Lanes, bool Few, class Bits>
  [[gnu::always_inline]] void quantize(int i, Bits const& draw) const {
    using vectors = vector_types<Lanes>;
    using values = typename vectors::values;
    using ints = typename vectors::ints;
    values c;
    std::memcpy(&c, scratch + i, sizeof(c));
    values const most = values{} + limit, least = values{} - limit;
    c = c < most ? c : most;
    c = c > least ? c : least;
    Bits const fixed = (Bits) __builtin_convertvector(c + (limit + 0.5f), ints);
    Bits entry;
    look_up<Lanes, Few>(entry, cells.entries.data(), fixed >> 16);
    Bits const upper =
        (Bits)((ints)(draw * (entry >> 8 & 0xffu)) < (ints)(fixed - (entry & 0x00ff00ffu)));
    put_vector<Lanes>(sink, range.first + i, entry, upper);
  }
};

template <class Lane> struct center_vectors {
  float* scratch;
  std::byte const* lanes;
  transform_range range;
  std::uint32_t offset;
  fetch_ahead ahead = {};

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using vectors = vector_types<Lanes>;
    using values = typename vectors::values;
    using bits = typename vectors::bits;
    using ints = typename vectors::ints;
    using narrow = typename aligned_vector<Lane, Lanes>::type;
    using sixteen = std::conditional_t<std::is_signed_v<Lane>, std::int16_t, std::uint16_t>;
    using wider = typename aligned_vector<sixteen, Lanes>::type;
    hadamard_by<Lanes>::begin(
        scratch, range.size, [&](values & v, int i) __attribute__((always_inline)) {
          ahead.prefetch(i, Lanes);
          narrow n;
          std::memcpy(&n, lanes + static_cast<std::size_t>(range.first + i) * sizeof(Lane),
                      sizeof(n));
          // in two steps, through 16 bits: g++ 12 converts from 8 bits one value at a time
          bits const sum = __builtin_convertvector(__builtin_convertvector(n, wider), bits);
          v = __builtin_convertvector((ints)(2 * sum - offset), values);
        });
    return false;
  }
};

/// The remaining stages after rotate_vectors or center_vectors.
struct hadamard_rest {
  float* x;
  int size;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    hadamard_by<Lanes>::end(x, size);
    return false;
  }
};

struct finish_vectors {
  float const* scratch;
  transform_range range;
  float_scale scale;
  draw_place const& place;
  float* x;

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using vectors = vector_types<Lanes>;
    sign_words<Lanes> const signs(place, range);
    for (int i = 0; i < range.count; i += Lanes) {
      typename vectors::values v;
      std::memcpy(&v, scratch + i, sizeof(v));
      v = v * scale.factor * scale.power;
      vectors::negate(v, signs[i], i % 64);
      std::size_t const left = static_cast<std::size_t>(range.count - i);
      if (left >= Lanes)
        std::memcpy(x + range.first + i, &v, sizeof(v));
      else
        std::memcpy(x + range.first + i, &v, left * sizeof(float));
    }
    return false;
  }
};

/// The 16 sums of squares of root_mean_square.
template <class Source> struct norm_vectors {
  Source x;  ///< `size` values
  int size;
  double (&sums)[16];

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    constexpr int half = Lanes / 2;  // doubles are twice as long
    using vectors = vector_types<half>;
    using doubles = typename aligned_vector<double, half>::type;
    doubles total[16 / half] = {};
    typename vectors::bits special{};
    for (int i = 0; i < size; i += 16) {
      HCOMP_UNROLL
      for (int k = 0; k < 16 / half; ++k) {
        typename vectors::values v;
        vectors::read(v, special, x, static_cast<std::size_t>(i + k * half));
        doubles const wide = __builtin_convertvector(v, doubles);
        total[k] += wide * wide;
      }
    }
    std::memcpy(sums, total, sizeof(sums));
    return false;
  }
};

template <class Lane> struct add_vectors {
  std::byte* acc;
  std::byte const* in;
  std::size_t bytes;  ///< a multiple of 64

  template <int Lanes> [[gnu::always_inline]] bool run() const {
    using vector = typename aligned_vector<Lane, Lanes * 4 / sizeof(Lane)>::type;
    for (std::size_t i = 0; i < bytes; i += sizeof(vector)) {
      vector a, b;
      std::memcpy(&a, acc + i, sizeof(a));
      std::memcpy(&b, in + i, sizeof(b));
      a += b;
      std::memcpy(acc + i, &a, sizeof(a));
    }
    return false;
  }
};

#pragma GCC diagnostic pop

/// Runs `work` at the best SIMD level of the processor. This is the slowest code of hcomp to
/// compile, so hcomp::compiled contains it for all files (instantiated under HCOMP_COMPILE_THC).
template <class Work> bool run_vectors(Work const& work) { return run_at(best_simd_level(), work); }

#if defined(HCOMP_COMPILE_THC)
#define HCOMP_COMPILE_VECTORS template
#elif defined(HCOMP_COMPILED) || defined(HCOMP_COMPILING)
#define HCOMP_COMPILE_VECTORS extern template
#endif
#if defined(HCOMP_COMPILE_VECTORS)
HCOMP_COMPILE_VECTORS bool run_vectors(rotate_vectors<float const*> const&);
HCOMP_COMPILE_VECTORS bool run_vectors(rotate_vectors<compensated<float>> const&);
HCOMP_COMPILE_VECTORS bool run_vectors(norm_vectors<float const*> const&);
HCOMP_COMPILE_VECTORS bool run_vectors(norm_vectors<compensated<float>> const&);
HCOMP_COMPILE_VECTORS bool run_vectors(round_vectors const&);
HCOMP_COMPILE_VECTORS bool run_vectors(center_vectors<std::uint8_t> const&);
HCOMP_COMPILE_VECTORS bool run_vectors(center_vectors<std::uint16_t> const&);
HCOMP_COMPILE_VECTORS bool run_vectors(center_vectors<std::int16_t> const&);
HCOMP_COMPILE_VECTORS bool run_vectors(hadamard_rest const&);
HCOMP_COMPILE_VECTORS bool run_vectors(finish_vectors const&);
HCOMP_COMPILE_VECTORS bool run_vectors(add_vectors<std::uint8_t> const&);
HCOMP_COMPILE_VECTORS bool run_vectors(add_vectors<std::uint16_t> const&);
#undef HCOMP_COMPILE_VECTORS
#endif

// ---- overloads of the templates in kernels.hpp for simd_group

/// Calls use(values, finite) with the values of one transform. Floats are read in place, also with
/// compensation. Values that need conversion or padding are first copied to memory, so vector code
/// is compiled for these two sources only.
template <class Source, class Use>
auto with_floats(Source const& x, transform_range range, Use const& use) {
  if (range.count == range.size) {
    auto const at = static_cast<std::size_t>(range.first);
    if constexpr (std::is_convertible_v<Source, float const*>)
      return use(static_cast<float const*>(x) + at, true);
    else if constexpr (std::is_same_v<Source, compensated<float>>)
      return use(x + at, true);
  }
  alignas(64) float values[largest_transform];
  bool finite = true;
  for (int i = 0; i < range.count; ++i)
    values[i] = finite_float(x[static_cast<std::size_t>(range.first + i)], finite);
  std::fill(values + range.count, values + range.size, 0.0f);
  return use(static_cast<float const*>(values), finite);
}

template <class Source>
measured_norm root_mean_square(simd_group, Source const& x, transform_range range) {
  return with_floats(x, range, [&]<class Floats>(Floats const& values, bool) {
    double sums[16];
    run_vectors(norm_vectors<Floats>{values, range.size, sums});
    return measured(sums, range.size);
  });
}
template <class Source>
bool rotate(simd_group, float* scratch, Source const& x, transform_range range, float_scale scale,
            draw_place const& place) {
  return with_floats(x, range, [&]<class Floats>(Floats const& values, bool finite) {
    bool const nonfinite =
        run_vectors(rotate_vectors<Floats>{scratch, values, range, scale, place});
    run_vectors(hadamard_rest{scratch, range.size});
    return nonfinite || !finite;
  });
}
template <class Source>
void round_to_levels(simd_group, float const* scratch, Source const& x, transform_range range,
                     float limit, level_cells const& cells, draw_place const& place,
                     level_sink const& sink) {
  run_vectors(round_vectors{scratch, range, limit, cells, place, sink,
                            fetch_ahead(x, range.first + range.size)});
}
template <class Lane, class Out>
void center_sums(simd_group, float* scratch, std::byte const* lanes, transform_range range,
                 std::uint32_t offset, Out* x) {
  run_vectors(center_vectors<Lane>{scratch, lanes, range, offset, fetch_ahead(x, range.first)});
  run_vectors(hadamard_rest{scratch, range.size});
}
template <class Out>
void finish_values(simd_group, float const* scratch, transform_range range, float_scale scale,
                   draw_place const& place, Out* x) {
  if constexpr (std::is_same_v<Out, float>) {
    run_vectors(finish_vectors{scratch, range, scale, place, x});
  } else {
    alignas(64) float values[largest_transform];
    run_vectors(finish_vectors{scratch, range, scale, place, values});
    for (int i = range.first; i < range.first + range.count; ++i)
      x[i] = static_cast<Out>(values[i]);
  }
}
template <class Lane> void add_lanes(simd_group, std::byte* acc, std::byte const* in, int count) {
  run_vectors(add_vectors<Lane>{acc, in, static_cast<std::size_t>(count) * sizeof(Lane)});
}

}  // namespace hcomp::detail::thc

#endif
