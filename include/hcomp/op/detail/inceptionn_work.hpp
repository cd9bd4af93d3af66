#pragma once
/// @file
/// What an executor runs for INCEPTIONN's streams: chunks of 1024 values, and where they are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/inceptionn_chunks.hpp>
#include <hcomp/codec/detail/inceptionn_header.hpp>
#include <hcomp/codec/detail/inceptionn_lanes.hpp>
#include <hcomp/codec/detail/inceptionn_values.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/op/detail/chunk_places.hpp>

namespace hcomp::detail {

/// What a stream's table says of chunk `i` of `chunks`, and its header of the last.
/// @param in  at a multiple of 4
HCOMP_HD inline inceptionn_part inceptionn_part_of(std::byte const* in, std::size_t i,
                                                   std::size_t chunks) {
  std::byte const* const begins = in + sizeof(inceptionn_header);
  return {load_aligned<std::uint32_t>(begins, i),
          i + 1 < chunks ? load_aligned<std::uint32_t>(begins, i + 1)
                         : static_cast<std::size_t>(load_aligned<inceptionn_header>(in).bytes)};
}

/// Of lanes that share memory: payloads are at odd addresses, and are put together and taken apart
/// there. A chunk, 3 bytes before it, and words behind it that are read.
inline constexpr std::size_t inceptionn_scratch_bytes =
    inceptionn_chunk_values * sizeof(float) + 16;

/// The values of chunk `i` of a sound stream.
template <class Group>
HCOMP_HD void decode_chunk(Group group, inceptionn_rule const& rule, std::byte const* in,
                           std::size_t i, std::size_t values, inceptionn_lane<Group>& mine) {
  auto const part = inceptionn_part_of(in, i, inceptionn_chunks(values));
  std::size_t const bytes = part.end - part.begin, n = inceptionn_values_of(i, values);
  if constexpr (SharesMemory<Group>) {
    auto* const shared = reinterpret_cast<std::byte*>(group.scratch());
    std::byte const* const chunk = bring_words(group, in, part.begin, part.end, shared);
    group.sync();
    mine.decode_words(group, rule, chunk, bytes, n);
    group.sync();  // before it is written again
  } else {
    mine.decode(group, rule, in + part.begin, bytes, n);
  }
}

/// Encodes chunks into slots, of x or of x and what a stream holds.
struct encode_inceptionn_chunks {
  inceptionn_rule rule;
  std::size_t values;
  float const* x;
  std::byte const* in;  ///< sound, or null
  std::size_t first;    ///< chunk to be encoded
  std::byte* slots;     ///< of that and those that follow it
  std::uint32_t* lengths;

  static constexpr std::size_t scratch_bytes() { return inceptionn_scratch_bytes; }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t place) const {
    std::size_t const i = first + place, n = inceptionn_values_of(i, values);
    float const* const from = x + i * inceptionn_chunk_values;
    inceptionn_lane<Group> mine;
    if (in) {
      decode_chunk(group, rule, in, i, values, mine);
      mine.add(group, from, n);
    } else {
      mine.read(group, from, n);
    }
    std::byte* const slot = slots + place * inceptionn_header::slot_bytes;
    std::size_t bytes = 0;
    if constexpr (SharesMemory<Group>) {
      auto* const shared = reinterpret_cast<std::byte*>(group.scratch());
      bytes = mine.encode(group, rule, n, shared);
      group.sync();
      copy_words(static_cast<std::size_t>(group.lane()), Group::lanes, slot, shared, bytes);
    } else {
      bytes = mine.encode(group, rule, n, slot);
    }
    if (group.lane() == 0) lengths[i] = static_cast<std::uint32_t>(bytes);
  }
};

/// out = what a sound stream holds; plus `addend`, where there is one, which may be `out`; divided,
/// unless that would be by 0.
struct decode_inceptionn_chunks {
  inceptionn_rule rule;
  std::size_t values;
  std::byte const* in;
  float const* addend;
  float divided_by;
  float* out;

  static constexpr std::size_t scratch_bytes() { return inceptionn_scratch_bytes; }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const n = inceptionn_values_of(i, values);
    std::size_t const first = i * inceptionn_chunk_values;
    inceptionn_lane<Group> mine;
    decode_chunk(group, rule, in, i, values, mine);
    if (addend) mine.add(group, addend + first, n);
    if (divided_by != 0) mine.divide(divided_by);
    mine.write(group, out + first, n);
  }
};

/// For every chunk of a sound stream the 64 values, a bit for each, among which there is NaN or
/// infinity.
struct find_nonfinite_chunks {
  inceptionn_rule rule;
  std::size_t values;
  std::byte const* in;
  std::uint32_t* found;

  static constexpr std::size_t scratch_bytes() { return inceptionn_scratch_bytes; }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    inceptionn_lane<Group> mine;
    decode_chunk(group, rule, in, i, values, mine);
    unsigned const blocks = mine.nonfinite(group);
    if (group.lane() == 0) found[i] = blocks;
  }
};

struct take_inceptionn_header {
  std::byte const* in;
  inceptionn_header* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.lane() == 0) *out = load_aligned<inceptionn_header>(in);
  }
};

struct take_inceptionn_part {
  std::byte const* in;
  std::size_t chunk, chunks;
  inceptionn_part* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.lane() == 0) *out = inceptionn_part_of(in, chunk, chunks);
  }
};

/// 1 for every chunk that cannot be one, or is not in its place. Reads nothing beyond the stream.
struct check_inceptionn_chunks {
  std::size_t values;
  std::byte const* in;
  std::size_t bytes;  ///< of the stream, as its header says; no less than its table
  std::uint32_t* found;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const chunks = inceptionn_chunks(values);
    std::size_t const front = inceptionn_header::front(chunks);
    auto const part = inceptionn_part_of(in, i, chunks);
    bool const sound = (i == 0 ? part.begin == front : part.begin >= front) &&
                       part.begin <= part.end && part.end <= bytes &&
                       inceptionn_is_chunk(group, in + part.begin, part.end - part.begin,
                                           inceptionn_values_of(i, values));
    if (group.lane() == 0) found[i] = sound ? 0 : 1;
  }
};

/// inceptionn::measure of every `blocks`-th chunk.
struct measure_chunks {
  std::size_t values;
  float const* x;
  std::size_t blocks;
  std::uint32_t* found;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t block) const {
    std::uint32_t mine = 0;
    for (std::size_t i = block; i < inceptionn_chunks(values); i += blocks)
      mine = largest_exponent(group, x + i * inceptionn_chunk_values,
                              inceptionn_values_of(i, values), mine);
    std::uint32_t const largest = largest_in(group, mine, 8);
    if (group.lane() == 0) found[block] = largest;
  }
};

}  // namespace hcomp::detail
