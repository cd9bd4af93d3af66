#pragma once
/// @file
/// Encodes and decodes a chunk of inceptionn with a group of any number of workers. The bytes equal
/// those of cpu_coder.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/inceptionn/detail/chunks.hpp>
#include <hcomp/codec/inceptionn/detail/values.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <type_traits>

namespace hcomp::detail::inceptionn {

// Payloads are kept in the upper bytes of a 32-bit word, with the sign in the top bit. That takes
// fewer instructions and no branch.

/// Table lookup for four tags, one result byte per tag: byte t of `bytes` for tag t.
HCOMP_HD inline std::uint32_t bytes_of_tags(std::uint32_t bytes, unsigned tags) {
  unsigned const pairs = (tags | tags << 4) & 0x0f0fu, each = (pairs | pairs << 2) & 0x3333u;
  return pick_bytes(bytes, 0, each);
}
/// Ends of the payloads of four tags, one byte per tag. The first payload begins at 0.
HCOMP_HD inline std::uint32_t ends_of_payloads(unsigned tags) {
  return bytes_of_tags(0x04020100u, tags) * 0x01010101u;
}
/// Number of bits of each payload, one byte per tag.
HCOMP_HD inline std::uint32_t bits_of_payloads(unsigned tags) {
  return bytes_of_tags(0x20100800u, tags);
}
/// Number of bits below each payload in its word, one byte per tag.
HCOMP_HD inline std::uint32_t bits_below_payloads(unsigned tags) {
  return bytes_of_tags(0x00101820u, tags);
}
/// Bit 2i is set if tag i is 3: the value has all 32 bits.
HCOMP_HD inline unsigned whole_ones(unsigned tags) { return tags & tags >> 1 & 0x55u; }
HCOMP_HD inline unsigned byte_of(std::uint32_t word, int i) { return word >> 8 * i & 255u; }

/// Smallest magnitudes, as bits of floats, with a payload of 8, 16 and 32 bits.
struct tag_limits {
  std::uint32_t of8, of16, whole;

  HCOMP_HD explicit tag_limits(value_rule const& rule)
      : of8(static_cast<std::uint32_t>(rule.lowest - rule.prescale) << 23),
        of16(static_cast<std::uint32_t>(rule.middle - rule.prescale) << 23),
        whole(static_cast<std::uint32_t>(whole_exponent - rule.prescale) << 23) {}
};

/// Rounds towards 0; unspecified for values that do not fit in 32 bits.
HCOMP_HD inline std::uint32_t truncated(float value) {
#if defined(__CUDA_ARCH__)
  return __float2uint_rz(value);
#else
  return value < 0x1p32f ? static_cast<std::uint32_t>(value) : 0;
#endif
}
/// Payload size of a value: none, at least 8 bits, at least 16 bits, all 32 bits.
struct value_size {
  bool is_nonzero, in16, is_whole;

  HCOMP_HD value_size(tag_limits const& from, std::uint32_t magnitude)
      : is_nonzero(magnitude >= from.of8),
        in16(magnitude >= from.of16),
        is_whole(magnitude >= from.whole) {}
};
/// payload_of in the upper bits of the word. The bits below are unspecified; with tag 0 all are.
template <bool Nearest>
HCOMP_HD std::uint32_t upper_payload(value_rule const& rule, std::uint32_t bits, value_size size) {
  if constexpr (Nearest) {
    auto const tag = static_cast<unsigned>(size.is_nonzero) + static_cast<unsigned>(size.in16) +
                     static_cast<unsigned>(size.is_whole);
    return payload_of(rule, bits, tag) << (size.is_whole ? 0 : size.in16 ? 16 : 24);
  }
  float const to8 = power_of_two(rule.unit8 + rule.prescale + 24);
  float const to16 = power_of_two(rule.unit16 + rule.prescale + 16);
  auto const magnitude = same_bits<float>(bits & 0x7fffffffu);
  std::uint32_t const few = truncated(magnitude * (size.in16 ? to16 : to8)) | (bits & 0x80000000u);
  return size.is_whole ? bits : few;
}
/// value_of for a payload in the upper bits. The bits below must be 0; with tag 0 all bits.
/// @tparam IsShort  the tag is not 3
template <bool Grace, bool IsShort>
HCOMP_HD float value_of_upper(value_rule const& rule, unsigned tag, std::uint32_t upper) {
  if constexpr (Grace) return value_of(rule, tag, upper >> (tag == 3 ? 0 : tag == 2 ? 16 : 24));
  float const from8 = power_of_two(-rule.unit8 - rule.prescale - 24);
  float const from16 = power_of_two(-rule.unit16 - rule.prescale - 16);
  auto const magnitude = static_cast<std::int32_t>(upper & 0x7fffffffu);
  float const value =
      static_cast<float>(upper >> 31 != 0 ? -magnitude : magnitude) * (tag == 1 ? from8 : from16);
  return !IsShort && tag == 3 ? same_bits<float>(upper) : value;
}

/// Left shift by 0 to 32 bits.
HCOMP_HD inline std::uint32_t moved_up(std::uint32_t word, unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_lc(0, word, bits);
#else
  return static_cast<std::uint32_t>(std::uint64_t{word} << bits);
#endif
}
/// Funnel shift: the upper word of (high, low) after a left shift by 0 to 32 bits.
HCOMP_HD inline std::uint32_t moved_up(std::uint32_t low, std::uint32_t high, unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_lc(low, high, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) << bits >> 32);
#endif
}
/// Funnel shift by bits % 32.
HCOMP_HD inline std::uint32_t moved_up_within(std::uint32_t low, std::uint32_t high,
                                              unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_l(low, high, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) << bits % 32 >> 32);
#endif
}

/// Number of rounds to read a chunk; each worker takes four consecutive values per round.
template <class Group>
inline constexpr std::size_t rounds_of_fours =
    (chunk_values / 4 + Group::workers - 1) / Group::workers;

/// The fours (groups of four values) of a worker in registers, one per round.
template <class Group> struct fours_in_registers {
  static constexpr bool are_overwritten = false;

  float values[rounds_of_fours<Group>][4];

  HCOMP_HD void put(std::size_t r, float const (&four)[4]) {
    memcpy(values[r], four, sizeof(four));
  }
  HCOMP_HD void get(std::size_t r, float (&four)[4]) const {
    memcpy(four, values[r], sizeof(four));
  }
};
/// The fours of a worker in shared memory, each 16-byte aligned.
///
/// A chunk that begins tag_bytes(chunk_values) bytes before the fours may be assembled in place:
/// after all workers have read their fours of a round, the chunk ends within the memory read so
/// far.
template <class Group> struct fours_in_memory {
  static_assert(chunk_values / 4 % Group::workers == 0, "every round has a four for every worker");
  static constexpr bool are_overwritten = true;

  std::byte* first;  ///< first four of this worker

  HCOMP_HD fours_in_memory(Group group, std::byte* memory)
      : first(memory + 16 * static_cast<std::size_t>(group.worker())) {}
  HCOMP_HD void put(std::size_t r, float const (&four)[4]) {
    memcpy(__builtin_assume_aligned(first + 16 * Group::workers * r, 16), four, sizeof(four));
  }
  HCOMP_HD void get(std::size_t r, float (&four)[4]) const {
    memcpy(four, __builtin_assume_aligned(first + 16 * Group::workers * r, 16), sizeof(four));
  }
};

/// The values of a chunk that one worker holds.
///
/// In each round, consecutive workers take consecutive fours, so memory accesses are coalesced. The
/// tags of a four are one byte. Zeros, which have no payload, follow the n values of the chunk. All
/// workers of a group call the same functions with the same arguments.
template <class Group, class Kept = fours_in_registers<Group>> class worker_values {
  static constexpr auto workers = static_cast<std::size_t>(Group::workers);
  static constexpr std::size_t fours = chunk_values / 4;
  static constexpr std::size_t rounds = rounds_of_fours<Group>;

 public:
  worker_values() = default;
  HCOMP_HD explicit worker_values(Kept const& kept) : kept_(kept) {}

  HCOMP_HD void read(Group group, float const* x, std::size_t n) {
    read_each(group, x, n, [&](std::size_t r, float const(&four)[4]) { kept_.put(r, four); });
  }
  /// Adds x[i] to value i, for a chunk of n values.
  HCOMP_HD void add(Group group, float const* x, std::size_t n) {
    read_each(group, x, n, [&](std::size_t r, float const(&addends)[4]) {
      change(r, [&](int j, float value) { return sum_of(addends[j], value); });
    });
  }
  HCOMP_HD void divide(float by) {
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r)
      change(r, [&](int, float value) { return divided(value, by); });
  }
  HCOMP_HD void write(Group group, float* out, std::size_t n) const {
    bool const is_whole = is_whole_chunk(out, n);
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      float four[4];
      kept_.get(r, four);
      if (is_whole)
        write_whole(four, four_at(group, r), out);
      else
        write_some(four, four_at(group, r), n, out);
    }
  }

  /// Offsets of the payloads of a chunk of n values, and the size of the chunk.
  struct layout {
    unsigned places[rounds];  ///< offsets of the payloads of this worker's fours
    unsigned n, bytes;        ///< n, bytes and are_short are equal in all workers
    bool are_short;           ///< no value has all 32 bits
  };
  /// First of two steps that encode a chunk: writes the tags and computes the layout.
  /// @param out  has n * 4 bytes
  HCOMP_HD layout put_tags(Group group, value_rule const& rule, std::size_t n,
                           std::byte* out) const {
    tag_limits const from(rule);
    layout made;
    made.n = static_cast<unsigned>(n);
    unsigned tags[rounds];
    unsigned whole = 0;
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      float four[4];
      kept_.get(r, four);
      tags[r] = 0;
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) {
        value_size const size(from, same_bits<std::uint32_t>(four[j]) & 0x7fffffffu);
        if (size.is_nonzero) tags[r] += 1u << 2 * j;
        if (size.in16) tags[r] += 1u << 2 * j;
        if (size.is_whole) tags[r] += 1u << 2 * j;
      }
      whole |= whole_ones(tags[r]);
      unsigned const at = four_at(group, r);
      if (4 * at < made.n) out[at] = static_cast<std::byte>(tags[r]);
    }
    unsigned const bytes = find_places(group, tags, tag_bytes(n), made.places);
    made.bytes = bytes < 4 * made.n ? bytes : 4 * made.n;
    made.are_short = !group.any(whole != 0);
    return made;
  }
  /// Second step: writes the payloads. If these are not shorter, writes the decoded values instead.
  HCOMP_HD void put_payloads(Group group, value_rule const& rule, layout const& made,
                             std::byte* out) const {
    if (made.bytes == 4 * made.n)
      write_decoded(group, rule, made.n, out);
    else if (rule.nearest)
      write_payloads<true, false>(group, rule, made, out);
    else if (made.are_short)
      write_payloads<false, true>(group, rule, made, out);
    else
      write_payloads<false, false>(group, rule, made, out);
  }

  /// Decodes the n values of a chunk.
  /// @param chunk  valid
  HCOMP_HD void decode(Group group, value_rule const& rule, std::byte const* chunk,
                       std::size_t bytes, std::size_t n) {
    coded_fours const coded = find_fours(group, chunk, bytes, n);
    read_each_payload(rule, coded, [chunk](unsigned place, unsigned tag) {
      return load_payload(chunk + place, tag);
    });
  }
  /// decode with aligned 32-bit loads. They begin at the last multiple of 4 before the chunk and
  /// end up to 12 bytes after it; these bytes must be readable.
  HCOMP_HD void decode_words(Group group, value_rule const& rule, std::byte const* chunk,
                             std::size_t bytes, std::size_t n) {
    auto const skipped = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(chunk) % 4);
    std::byte const* const words = chunk - skipped;
    coded_fours const coded = find_fours(group, chunk, bytes, n);
    auto const word = [words](unsigned i) { return load_aligned<std::uint32_t>(words, i); };
    if (group.any(coded.whole != 0)) {
      read_each_payload(rule, coded, [&](unsigned place, unsigned) {
        unsigned const at = skipped + place;
        return moved_down(word(at / 4), word(at / 4 + 1), 8 * at);
      });
    } else {
      read_short_payloads(rule, coded, [&](unsigned place, std::uint32_t(&bytes)[2]) {
        unsigned const at = skipped + place;
        std::uint32_t const between = word(at / 4 + 1);
        bytes[0] = moved_down(word(at / 4), between, 8 * at);
        bytes[1] = moved_down(between, word(at / 4 + 2), 8 * at);
      });
    }
  }

  /// One bit per 64 values of the chunk, set if they contain NaN or infinity; equal in all workers.
  HCOMP_HD unsigned nonfinite(Group group) const {
    unsigned mine = 0;
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      float four[4];
      kept_.get(r, four);
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j)
        if (!is_finite(four[j])) mine |= 1u << four_at(group, r) / 16;
    }
    if (!group.any(mine != 0)) return 0;
    unsigned all = 0;
    for (unsigned i = 0; i < chunk_values / 64; ++i)
      if (group.any((mine >> i & 1u) != 0)) all |= 1u << i;
    return all;
  }

 private:
  /// Calls f(r, four) for each of the worker's fours of x.
  template <class F>
  HCOMP_HD static void read_each(Group group, float const* x, std::size_t n, F const& f) {
    constexpr std::size_t at_once = 4;  // loads in flight, to hide memory latency
    auto const each = [&](auto const& read) {
      HCOMP_UNROLL
      for (std::size_t first = 0; first < rounds; first += at_once) {
        float found[at_once][4];
        HCOMP_UNROLL
        for (std::size_t k = 0; k < at_once; ++k)
          if (first + k < rounds) read(four_at(group, first + k), found[k]);
        HCOMP_UNROLL
        for (std::size_t k = 0; k < at_once; ++k)
          if (first + k < rounds) f(first + k, found[k]);
      }
    };
    if (is_whole_chunk(x, n))
      each([&](unsigned at, float(&four)[4]) { read_whole(x, at, four); });
    else
      each([&](unsigned at, float(&four)[4]) { read_some(x, at, n, four); });
  }
  /// value = f(j, value) for the four of round r.
  template <class F> HCOMP_HD void change(std::size_t r, F const& f) {
    float four[4];
    kept_.get(r, four);
    HCOMP_UNROLL
    for (int j = 0; j < 4; ++j) four[j] = f(j, four[j]);
    kept_.put(r, four);
  }

  /// Tags and payload offsets of this worker's fours in an encoded chunk.
  struct coded_fours {
    unsigned tags[rounds], places[rounds];
    unsigned whole;  ///< not 0 if a value has all 32 bits
  };
  HCOMP_HD static coded_fours find_fours(Group group, std::byte const* chunk, std::size_t bytes,
                                         std::size_t n) {
    bool const is_plain = bytes == n * sizeof(float);  // all values have tag 3; no tags are stored
    coded_fours coded;
    coded.whole = 0;
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      std::size_t const first = 4 * four_at(group, r);
      unsigned const all = first >= n ? 0 : first + 4 <= n ? 255u : (1u << 2 * (n - first)) - 1;
      coded.tags[r] = is_plain || first >= n ? all : static_cast<unsigned>(chunk[first / 4]);
      coded.whole |= whole_ones(coded.tags[r]);
    }
    find_places(group, coded.tags, is_plain ? 0 : tag_bytes(n), coded.places);
    return coded;
  }
  /// Decodes payloads one by one.
  /// @param load  load(place, tag) returns the payload there; the bits above it are unspecified
  template <class Load>
  HCOMP_HD void read_each_payload(value_rule const& rule, coded_fours const& coded,
                                  Load const& load) {
    read_coded<false>(rule, coded, [&](std::size_t r, auto const& put) {
      std::uint32_t const begins = ends_of_payloads(coded.tags[r]) << 8;
      std::uint32_t const below = bits_below_payloads(coded.tags[r]);
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) {
        std::uint32_t const found =
            load(coded.places[r] + byte_of(begins, j), coded.tags[r] >> 2 * j & 3u);
        put(j, moved_up(found, byte_of(below, j)));
      }
    });
  }
  /// Decodes payloads if no value has all 32 bits: a four then has at most 8 bytes.
  /// @param load  load(place, bytes) reads these 8 bytes
  template <class Load>
  HCOMP_HD void read_short_payloads(value_rule const& rule, coded_fours const& coded,
                                    Load const& load) {
    read_coded<true>(rule, coded, [&](std::size_t r, auto const& put) {
      std::uint32_t const lengths = bits_of_payloads(coded.tags[r]);
      std::uint32_t bytes[2];
      load(coded.places[r], bytes);
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) {
        put(j, moved_up(bytes[0], 32 - byte_of(lengths, j)));
        bytes[0] = moved_down(bytes[0], bytes[1], lengths >> 8 * j);
        bytes[1] = moved_down(bytes[1], 0, lengths >> 8 * j);
      }
    });
  }
  /// Decodes all rounds.
  /// @param find  find(r, put) calls put(j, payload) for each value of round r; the payload is in
  ///              the upper bits
  template <bool AreShort, class Find>
  HCOMP_HD void read_coded(value_rule const& rule, coded_fours const& coded, Find const& find) {
    auto const read = [&](auto grace) {
      HCOMP_UNROLL
      for (std::size_t r = 0; r < rounds; ++r) {
        float four[4];
        find(r, [&](int j, std::uint32_t upper) {
          unsigned const tag = coded.tags[r] >> 2 * j & 3u;
          four[j] = value_of_upper<grace.value, AreShort>(rule, tag, upper);
        });
        kept_.put(r, four);
      }
    };
    if (rule.grace)
      read(std::true_type{});
    else
      read(std::false_type{});
  }

  /// Writes payloads to their places. The payloads of a four are packed in words first.
  /// @tparam AreShort  no value has all 32 bits
  template <bool Nearest, bool AreShort>
  HCOMP_HD void write_payloads(Group group, value_rule const& rule, layout const& made,
                               std::byte* out) const {
    tag_limits const from(rule);
    constexpr unsigned most = AreShort ? 2 : 4;
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      float four[4];
      get_to_overwrite(group, r, four);
      unsigned const at_four = four_at(group, r);
      unsigned const tags = 4 * at_four < made.n ? static_cast<unsigned>(out[at_four]) : 0;
      std::uint32_t const lengths = bits_of_payloads(tags);
      std::uint32_t words[most] = {};
      HCOMP_UNROLL
      for (unsigned put = 0; put < 4; ++put) {  // the last value first
        auto const j = static_cast<int>(3 - put);
        auto const bits = same_bits<std::uint32_t>(four[j]);
        value_size size(from, bits & 0x7fffffffu);
        if (AreShort) size.is_whole = false;
        std::uint32_t const upper = upper_payload<Nearest>(rule, bits, size);
        auto const move = [&](std::uint32_t low, std::uint32_t high) {
          if constexpr (AreShort) return moved_up_within(low, high, lengths >> 8 * j);
          return moved_up(low, high, byte_of(lengths, j));
        };
        HCOMP_UNROLL
        for (unsigned w = most - 1; w > 0; --w)
          if (w <= put) words[w] = move(words[w - 1], words[w]);
        words[0] = move(upper, words[0]);
      }
      unsigned const bytes = ends_of_payloads(tags) >> 24;
      std::byte* const at = out + made.places[r];
      HCOMP_UNROLL
      for (unsigned w = 0; w < most; ++w) {
        if (w > 0 && bytes <= 4 * w) break;
        HCOMP_UNROLL
        for (unsigned b = 0; b < 4; ++b)
          if (4 * w + b < bytes) at[4 * w + b] = static_cast<std::byte>(words[w] >> 8 * b);
      }
    }
  }

  HCOMP_HD void get_to_overwrite(Group group, std::size_t r, float (&four)[4]) const {
    kept_.get(r, four);
    if constexpr (Kept::are_overwritten) group.sync();
  }

  HCOMP_HD static unsigned four_at(Group group, std::size_t round) {
    return static_cast<unsigned>(round * workers) + static_cast<unsigned>(group.worker());
  }

  /// Computes where the payloads of the worker's fours begin; returns the end of all payloads. One
  /// prefix sum covers four rounds, because the bytes of a round fit in 16 bits.
  /// @param begin  begin of the first payload
  HCOMP_HD static unsigned find_places(Group group, unsigned const (&tags)[rounds], unsigned begin,
                                       unsigned (&places)[rounds]) {
    static_assert(16 * workers < 1 << 16);
    HCOMP_UNROLL
    for (std::size_t first = 0; first < rounds; first += 4) {
      std::uint64_t mine = 0;
      HCOMP_UNROLL
      for (std::size_t j = 0; j < 4; ++j)
        if (first + j < rounds)
          mine |= std::uint64_t{ends_of_payloads(tags[first + j]) >> 24} << 16 * j;
      auto const sums = group.running_sum(mine);
      HCOMP_UNROLL
      for (std::size_t j = 0; j < 4; ++j)
        if (first + j < rounds) {
          places[first + j] = begin + (sums.before >> 16 * j & 0xffffu);
          begin += sums.all >> 16 * j & 0xffffu;
        }
    }
    return begin;
  }

  /// Writes the decoded values, as a receiver would see them.
  HCOMP_HD void write_decoded(Group group, value_rule const& rule, std::size_t n,
                              std::byte* out) const {
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      float four[4];
      get_to_overwrite(group, r, four);
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) {
        std::size_t const i = 4 * four_at(group, r) + static_cast<std::size_t>(j);
        auto const bits = same_bits<std::uint32_t>(four[j]);
        unsigned const tag = tag_of(rule, bits);
        if (i < n) store(out, i, value_of(rule, tag, payload_of(rule, bits, tag)));
      }
    }
  }

  // Full chunks of 16-byte aligned floats are read and written in units of 16 bytes.
  HCOMP_HD static bool is_whole_chunk(float const* x, std::size_t n) {
    return fours % workers == 0 && n == chunk_values &&
           reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  }
  HCOMP_HD static void read_whole(float const* x, unsigned four, float (&values)[4]) {
    auto const* const from = reinterpret_cast<std::byte const*>(x + 4 * four);
    memcpy(values, __builtin_assume_aligned(from, 16), sizeof(values));
  }
  HCOMP_HD static void write_whole(float const (&values)[4], unsigned four, float* out) {
    auto* const to = reinterpret_cast<std::byte*>(out + 4 * four);
    memcpy(__builtin_assume_aligned(to, 16), values, sizeof(values));
  }
  HCOMP_HD static void read_some(float const* x, unsigned four, std::size_t n, float (&values)[4]) {
    HCOMP_UNROLL
    for (unsigned j = 0; j < 4; ++j) values[j] = 4 * four + j < n ? x[4 * four + j] : 0.0f;
  }
  HCOMP_HD static void write_some(float const (&values)[4], unsigned four, std::size_t n,
                                  float* out) {
    HCOMP_UNROLL
    for (unsigned j = 0; j < 4; ++j)
      if (4 * four + j < n) out[4 * four + j] = values[j];
  }

  Kept kept_;
};

/// True in all workers if `bytes` at `chunk` are a valid chunk of n values. Reads only those bytes.
template <class Group>
HCOMP_HD bool is_chunk(Group group, std::byte const* chunk, std::size_t bytes, std::size_t n) {
  if (bytes == n * sizeof(float)) return true;
  std::size_t const tags = tag_bytes(n);
  if (bytes < tags || bytes > n * sizeof(float)) return false;
  std::uint64_t payloads = 0;
  for (auto i = static_cast<std::size_t>(group.worker()); i < tags; i += Group::workers)
    payloads += bytes_of_four(static_cast<unsigned>(chunk[i]));
  return group.sum(payloads) == bytes - tags && !tags_beyond(chunk, n);
}

}  // namespace hcomp::detail::inceptionn
