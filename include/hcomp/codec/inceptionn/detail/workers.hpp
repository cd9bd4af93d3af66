#pragma once
/// @file
/// A chunk of INCEPTIONN's code by a group of any number of workers: the same bytes as
/// cpu_coder, whose chunks they are.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/inceptionn/detail/chunks.hpp>
#include <hcomp/codec/inceptionn/detail/values.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp::detail::inceptionn {

// Payloads in the upper bytes of 32 bits, with their signs where floats have them: that takes
// fewer steps, and hardly a branch.

/// How many bits are below.
HCOMP_HD constexpr unsigned bits_below(unsigned tag) { return tag == 3 ? 0 : tag == 2 ? 16 : 24; }
/// payload_of; of tag 0 anything, and what is below may be anything, too.
HCOMP_HD inline std::uint32_t upper_payload(value_rule const& rule, std::uint32_t bits,
                                            unsigned tag) {
  if (rule.nearest) return payload_of(rule, bits, tag) << bits_below(tag);
  if (tag == 3) return bits;
  // below, bits are left that truncation drops
  int const shift = (tag == 1 ? 134 - rule.unit8 : 142 - rule.unit16) - exponent_of(rule, bits);
  return (bits << 8 | 0x80000000u) >> (static_cast<unsigned>(shift) & 31u) | (bits & 0x80000000u);
}
/// value_of, with zeros below; of tag 0 all.
HCOMP_HD inline float value_of_upper(value_rule const& rule, unsigned tag, std::uint32_t upper) {
  if (rule.grace) return value_of(rule, tag, upper >> bits_below(tag));
  float const from8 = power_of_two(-rule.unit8 - rule.prescale - 24);
  float const from16 = power_of_two(-rule.unit16 - rule.prescale - 16);
  auto const magnitude = static_cast<std::int32_t>(upper & 0x7fffffffu);
  float const value =
      static_cast<float>(upper >> 31 != 0 ? -magnitude : magnitude) * (tag == 1 ? from8 : from16);
  return tag == 3 ? same_bits<float>(upper) : value;
}

/// The lower half of two words moved down by less than 32 bits.
HCOMP_HD inline std::uint32_t moved_down(std::uint32_t low, std::uint32_t high, unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> bits);
#endif
}

/// What one worker has of a chunk. In every round the workers take fours of consecutive values,
/// whose tags are one byte, so that what all of them read and write lies together. Behind the
/// chunk's n values are zeros, which take no bytes.
///
/// All workers of a group call the same functions with the same arguments. A worker keeps its
/// values in registers: with 32 workers 32 of them.
template <class Group> class worker_values {
 public:
  HCOMP_HD void read(Group group, float const* x, std::size_t n) {
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) read_four(x, four_at(group, r), n, values_[r]);
  }
  /// x[i] + value, of a chunk of n values.
  HCOMP_HD void add(Group group, float const* x, std::size_t n) {
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      float four[4];
      read_four(x, four_at(group, r), n, four);
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) values_[r][j] = sum_of(four[j], values_[r][j]);
    }
  }
  HCOMP_HD void divide(float by) {
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) values_[r][j] = divided(values_[r][j], by);
    }
  }
  HCOMP_HD void write(Group group, float* out, std::size_t n) const {
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) write_four(values_[r], four_at(group, r), n, out);
  }

  /// A chunk of n values at `out`, which has room for n floats; returns its length to all workers.
  HCOMP_HD std::size_t encode(Group group, value_rule const& rule, std::size_t n,
                              std::byte* out) const {
    unsigned tags[rounds];
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      tags[r] = 0;
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j)
        tags[r] |= tag_of(rule, same_bits<std::uint32_t>(values_[r][j])) << 2 * j;
    }
    unsigned places[rounds];
    std::size_t const bytes = find_places(group, tags, tag_bytes(n), places);
    if (bytes >= n * sizeof(float)) {
      write_decoded(group, rule, tags, n, out);
      return n * sizeof(float);
    }
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      std::size_t const four = four_at(group, r);
      if (4 * four < n) out[four] = static_cast<std::byte>(tags[r]);
      std::byte* at = out + places[r];
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) {
        unsigned const tag = tags[r] >> 2 * j & 3u;
        auto const bits = same_bits<std::uint32_t>(values_[r][j]);
        at = store_upper(at, tag, upper_payload(rule, bits, tag));
      }
    }
    return bytes;
  }

  /// The n values of a chunk.
  /// @param chunk  valid
  HCOMP_HD void decode(Group group, value_rule const& rule, std::byte const* chunk,
                       std::size_t bytes, std::size_t n) {
    decode_from(group, rule, chunk, bytes, n,
                [chunk](unsigned place, unsigned tag) { return load_payload(chunk + place, tag); });
  }
  /// The same where words may be read that begin at the last multiple of 4 before the chunk and end
  /// up to 8 bytes behind it.
  HCOMP_HD void decode_words(Group group, value_rule const& rule, std::byte const* chunk,
                             std::size_t bytes, std::size_t n) {
    auto const skipped = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(chunk) % 4);
    std::byte const* const words = chunk - skipped;
    decode_from(group, rule, chunk, bytes, n, [words, skipped](unsigned place, unsigned) {
      unsigned const at = skipped + place;
      return moved_down(load_aligned<std::uint32_t>(words, at / 4),
                        load_aligned<std::uint32_t>(words, at / 4 + 1), 8 * (at % 4));
    });
  }

  /// Where there is NaN or infinity: a bit for every 64 values of the chunk, to all workers.
  HCOMP_HD unsigned nonfinite(Group group) const {
    unsigned mine = 0;
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j)
        if (!is_finite(values_[r][j])) mine |= 1u << four_at(group, r) / 16;
    }
    if (!group.any(mine != 0)) return 0;
    unsigned all = 0;
    for (unsigned i = 0; i < chunk_values / 64; ++i)
      if (group.any((mine >> i & 1u) != 0)) all |= 1u << i;
    return all;
  }

 private:
  /// @param load  (place, tag) gives the bits of the payload there, and others above
  template <class Load>
  HCOMP_HD void decode_from(Group group, value_rule const& rule, std::byte const* chunk,
                            std::size_t bytes, std::size_t n, Load const& load) {
    bool const is_plain = bytes == n * sizeof(float);  // as if all had tag 3, without the tags
    unsigned tags[rounds];
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      std::size_t const first = 4 * four_at(group, r);
      unsigned const all = first >= n ? 0 : first + 4 <= n ? 255u : (1u << 2 * (n - first)) - 1;
      tags[r] = is_plain || first >= n ? all : static_cast<unsigned>(chunk[first / 4]);
    }
    unsigned places[rounds];
    find_places(group, tags, is_plain ? 0 : tag_bytes(n), places);
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      unsigned place = places[r];
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) {
        unsigned const tag = tags[r] >> 2 * j & 3u;
        std::uint32_t const upper = load(place, tag) << bits_below(tag);
        values_[r][j] = value_of_upper(rule, tag, tag == 0 ? 0 : upper);
        place += tag + (tag == 3);
      }
    }
  }

  /// The bytes of a payload that lies above; returns where they end.
  HCOMP_HD static std::byte* store_upper(std::byte* at, unsigned tag, std::uint32_t upper) {
    std::byte* const end = at + bytes_of_tag(tag);
    if (tag >= 1) end[-1] = static_cast<std::byte>(upper >> 24);
    if (tag >= 2) end[-2] = static_cast<std::byte>(upper >> 16);
    if (tag == 3) {
      end[-3] = static_cast<std::byte>(upper >> 8);
      end[-4] = static_cast<std::byte>(upper);
    }
    return end;
  }

  static constexpr auto workers = static_cast<std::size_t>(Group::workers);
  static constexpr std::size_t fours = chunk_values / 4;
  static constexpr std::size_t rounds = (fours + workers - 1) / workers;

  HCOMP_HD static unsigned four_at(Group group, std::size_t round) {
    return static_cast<unsigned>(round * workers) + static_cast<unsigned>(group.worker());
  }

  /// Where the payloads of the worker's fours begin, if all of them begin at `begin`; returns where
  /// they end. The bytes of four rounds are summed up at once: of each there are less than 2^16.
  HCOMP_HD static unsigned find_places(Group group, unsigned const (&tags)[rounds], unsigned begin,
                                       unsigned (&places)[rounds]) {
    static_assert(16 * workers < 1 << 16);
    HCOMP_UNROLL
    for (std::size_t first = 0; first < rounds; first += 4) {
      std::uint64_t mine = 0;
      HCOMP_UNROLL
      for (std::size_t j = 0; j < 4; ++j)
        if (first + j < rounds) mine |= std::uint64_t{bytes_of_four(tags[first + j])} << 16 * j;
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

  /// What a receiver would have.
  HCOMP_HD void write_decoded(Group group, value_rule const& rule, unsigned const (&tags)[rounds],
                              std::size_t n, std::byte* out) const {
    HCOMP_UNROLL
    for (std::size_t r = 0; r < rounds; ++r) {
      HCOMP_UNROLL
      for (int j = 0; j < 4; ++j) {
        std::size_t const i = 4 * four_at(group, r) + static_cast<std::size_t>(j);
        unsigned const tag = tags[r] >> 2 * j & 3u;
        auto const bits = same_bits<std::uint32_t>(values_[r][j]);
        if (i < n) store(out, i, value_of(rule, tag, payload_of(rule, bits, tag)));
      }
    }
  }

  // Fours are moved at once where they lie on a multiple of their 16 bytes.
  HCOMP_HD static bool is_whole(float const* x, std::size_t four, std::size_t n) {
    return 4 * four + 4 <= n && reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  }
  HCOMP_HD static void read_four(float const* x, std::size_t four, std::size_t n,
                                 float (&values)[4]) {
    if (is_whole(x, four, n)) {
      auto const* const from = reinterpret_cast<std::byte const*>(x + 4 * four);
      memcpy(values, __builtin_assume_aligned(from, 16), sizeof(values));
    } else {
      HCOMP_UNROLL
      for (std::size_t j = 0; j < 4; ++j) values[j] = 4 * four + j < n ? x[4 * four + j] : 0.0f;
    }
  }
  HCOMP_HD static void write_four(float const (&values)[4], std::size_t four, std::size_t n,
                                  float* out) {
    if (is_whole(out, four, n)) {
      auto* const to = reinterpret_cast<std::byte*>(out + 4 * four);
      memcpy(__builtin_assume_aligned(to, 16), values, sizeof(values));
    } else {
      HCOMP_UNROLL
      for (std::size_t j = 0; j < 4; ++j)
        if (4 * four + j < n) out[4 * four + j] = values[j];
    }
  }

  float values_[rounds][4];
};

/// Whether `bytes` at `chunk` are a chunk of n values; the same to all workers. Reads only them.
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
