#pragma once
/// @file
/// Work for executors on encoded vectors of variable rate, chunk by chunk.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/detail/block_order.hpp>
#include <span>
#include <type_traits>

namespace hcomp::detail {

/// The number of chunks per block of work: more than one if each warp processes a chunk.
template <class Coder> constexpr std::size_t chunks_at_once() {
  if constexpr (requires { Coder::chunks_at_once; })
    return Coder::chunks_at_once;
  else
    return 1;
}
/// `workers` of work whose warps process a chunk each; otherwise 0. See stream_executor.hpp.
template <class Coder> constexpr int workers_of_coder() {
  return chunks_at_once<Coder>() > 1 ? 32 * static_cast<int>(chunks_at_once<Coder>()) : 0;
}
template <class Coder, class Group>
inline constexpr bool works_by_warps = WorksByWarps<Group>&& chunks_at_once<Coder>() > 1;

/// `blocks_at_once` of work that reads and writes `inputs` encoded vectors in total; 0 for work that
/// only reads one. See stream_executor.hpp.
template <class Coder> constexpr int blocks_of_coder([[maybe_unused]] int inputs) {
  if constexpr (requires { Coder::blocks_at_once(inputs); })
    return Coder::blocks_at_once(inputs);
  else
    return 0;
}
/// Bytes of shared memory per block that reads and writes `inputs` encoded vectors in total.
template <class Coder> std::size_t scratch_of_block(int inputs) {
  return chunks_at_once<Coder>() * Coder::scratch_bytes(inputs);
}

/// Lets work on an encoded vector start before the host has validated it: the work does nothing if
/// reject_chunks, submitted before, rejected the vector. Encoded vectors have increasing numbers
/// from 1.
struct deferred_validation {
  std::uint32_t* last = nullptr;  ///< number of the last rejected vector, initially 0; null:
                                  ///< validation is off
  std::uint32_t number = 0;       ///< number of the vector that the work reads

  HCOMP_HD bool is_rejected() const { return last && *last == number; }
};

/// Encodes some chunks per block to their final positions, with the table and the header. The
/// position of a chunk is known once the lengths of all chunks before it are known. Meanwhile
/// workers with shared memory assemble the chunk there.
/// @tparam FromA, FromB  whether the sources a and b exist; static, because this saves device
///                registers
template <class Coder, bool FromA, bool FromB> struct encode_in_order {
  using header_type = typename Coder::header;
  Coder coder;
  encoded_sources<typename Coder::value_type> from;
  header_type header;  ///< its `bytes` is not set yet
  block_order order;   ///< of blocks(header.chunks)
  std::span<std::byte> out;
  typename Coder::note* notes;          ///< one per chunk
  std::uint64_t* bytes;                 ///< size of the encoded vector
  deferred_validation validation = {};  ///< validation state of encoded sources

  static constexpr int workers = workers_of_coder<Coder>();
  static constexpr int blocks_at_once = blocks_of_coder<Coder>(1 + FromA + FromB);

  /// An encoded vector without chunks still has a header: one block writes it.
  static constexpr std::size_t blocks(std::size_t chunks) {
    return chunks == 0 ? 1 : (chunks + per_block - 1) / per_block;
  }

  std::size_t scratch_bytes() const { return scratch_of_block<Coder>(inputs); }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t block) const {
    if constexpr (!FromA) expect_values(group, block);
    if constexpr (FromA || FromB)
      if (validation.is_rejected()) return;
    std::size_t const i = order.number(group, block);
    std::size_t const front = first_chunk_at<header_type>(header.chunks);
    std::size_t const end = header.chunks == 0 ? front : encode(group, i, front);
    if (i + 1 != blocks(header.chunks) || group.worker() != 0) return;
    auto whole = header;
    whole.bytes = end;
    store_aligned(out.data(), 0, whole);
    *bytes = end;
  }

 private:
  static constexpr std::size_t per_block = chunks_at_once<Coder>();

  static constexpr int inputs = 1 + FromA + FromB;

  HCOMP_HD encoded_sources<typename Coder::value_type> sources() const {
    return {from.values, FromA ? nullptr : from.x, FromA ? from.a : nullptr,
            FromB ? from.b : nullptr};
  }
  /// Prefetches values at a guess: a block's number is usually close to its launch index. Getting
  /// the number takes as long as loading values from device memory.
  template <class Group> HCOMP_HD void expect_values(Group group, std::size_t place) const {
    constexpr std::size_t in_block = per_block * header_type::chunk_values;
    std::size_t const first = place * in_block;
    if (first >= from.values) return;
    std::size_t const left = from.values - first;
    fetch_soon(group, from.x + first,
               static_cast<unsigned>(sizeof(*from.x) * (left < in_block ? left : in_block)));
  }
  /// The position of a chunk, known once its length is known.
  template <class Group> struct chunk_place {
    Group group;
    block_order const& order;
    std::size_t i;
    std::byte* first;
    std::size_t& at;  ///< position of chunk 0; becomes the position of chunk i

    /// Publishes the length before the chunk is assembled, so that later blocks wait less.
    HCOMP_HD void announce(std::size_t length) const { order.announce(group, i, length); }
    HCOMP_HD std::byte* operator()(std::size_t length) const {
      at += order.sum_before(group, i, length);
      return first + at;
    }
  };

  /// Returns the end of the chunks of block i.
  /// @param at  position of chunk 0
  template <class Group>
  HCOMP_HD std::size_t encode(Group group, std::size_t i, std::size_t at) const {
    constexpr std::size_t slot = header_type::slot_bytes;
    std::byte* const first = out.data();
    if constexpr (works_by_warps<Coder, Group>) {
      return encode_by_warps(group, i, at);
    } else if constexpr (SharesMemory<Group> && per_block == 1) {
      chunk_place<Group> const place{group, order, i, first, at};
      std::size_t const length = coder.encode_chunk(group, sources(), i, place, slot, notes[i]);
      note_begin(group, i, at);
      return at + length;
    } else {
      std::size_t const begin = at + order.sum_of_done(i), left = header.chunks - i * per_block;
      std::size_t const last = i * per_block + (left < per_block ? left : per_block);
      at = begin;
      for (std::size_t c = i * per_block; c < last; ++c) {
        if constexpr (Group::workers == 1) notes[c] = {};
        group.sync();  // before the shared memory is overwritten
        note_begin(group, c, at);
        at += coder.encode_chunk(group, sources(), c, first + at, out.size() - at, notes[c]);
      }
      order.sum_before(group, i, at - begin);
      return at;
    }
  }
  /// Each warp encodes one chunk; the warps compute their positions together. They publish the
  /// total length before they assemble their chunks, so that later blocks wait less.
  template <class Group>
  HCOMP_HD std::size_t encode_by_warps(Group group, std::size_t i, std::size_t at) const {
    static_assert(Group::warps == per_block && std::is_empty_v<typename Coder::note>);
    auto const warp = group.own_warp(Coder::scratch_bytes(inputs));
    auto* const chunk = reinterpret_cast<std::byte*>(warp.scratch());
    std::size_t const c = i * per_block + static_cast<std::size_t>(group.warp());
    bool const has_chunk = c < header.chunks;
    using planned = typename Coder::template planned_chunk<std::remove_const_t<decltype(warp)>>;
    planned made(coder, warp, chunk);
    std::size_t const length = has_chunk ? made.plan(sources(), c) : 0;
    auto const lengths = group.running_sum_of_warps(length);
    order.announce(group, i, lengths.all);
    if (has_chunk) {
      made.put();
      clear_behind(warp, chunk + length);
    }
    at += order.sum_before(group, i, lengths.all);
    std::size_t const begin = at + lengths.before;
    if (has_chunk) {
      copy_chunk(warp, out.data() + begin, chunk, length);
      note_begin(warp, c, begin);
    }
    return at + lengths.all;
  }

  template <class Group>
  HCOMP_HD void note_begin(Group group, std::size_t i, std::size_t at) const {
    if (group.worker() == 0)
      store_aligned(out.data() + sizeof(header), i, static_cast<std::uint32_t>(at));
  }
};

/// Encodes contiguous runs of chunks, one run per block. A run begins where it would if all chunks
/// before it had maximal length.
template <class Coder> struct encode_runs {
  Coder coder;
  encoded_sources<typename Coder::value_type> from;
  std::size_t chunks, per_run;
  std::span<std::byte> out;
  std::uint64_t* ends;          ///< one per run
  typename Coder::note* notes;  ///< one per run

  static std::size_t begin(std::size_t run, std::size_t chunks, std::size_t per_run) {
    using header = typename Coder::header;
    return first_chunk_at<header>(chunks) + run * per_run * header::slot_bytes;
  }
  template <class Group> void operator()(Group group, std::size_t run) const {
    std::size_t const first = run * per_run;
    bool const is_last = chunks - first <= per_run;
    notes[run] = {};
    ends[run] = encode_run(group, coder, from, first, is_last ? chunks : first + per_run,
                           out.data(), begin(run, chunks, per_run),
                           is_last ? out.size() : begin(run + 1, chunks, per_run), notes[run]);
  }
};

/// Moves the runs of encode_runs together and writes the header, in one block.
template <class Coder> struct join_runs {
  typename Coder::header header;  ///< its `bytes` is not set yet
  std::size_t runs, per_run;
  std::uint64_t const* ends;
  std::byte* out;
  std::uint64_t* bytes;

  template <class Group> void operator()(Group, std::size_t) const {
    std::size_t const chunks = header.chunks;
    std::size_t at = first_chunk_at<typename Coder::header>(chunks);
    for (std::size_t run = 0; run < runs; ++run) {
      std::size_t const begin = encode_runs<Coder>::begin(run, chunks, per_run);
      std::size_t const length = ends[run] - begin, gap = begin - at;
      if (gap > 0) {
        std::memmove(out + at, out + begin, length);
        std::byte* const table = out + sizeof(header);
        std::size_t const end = chunks - run * per_run < per_run ? chunks : (run + 1) * per_run;
        for (std::size_t i = run * per_run; i < end; ++i)
          store(table, i, static_cast<std::uint32_t>(load<std::uint32_t>(table, i) - gap));
      }
      at += length;
    }
    auto whole = header;
    whole.bytes = at;
    store(out, 0, whole);
    *bytes = at;
  }
};

/// A coder that can join the notes of consecutive chunks into one; see join_notes.
template <class Coder>
concept JoinsNotes = requires {
  requires Coder::joins_notes;
};

/// Joins the notes of each run of chunks. Otherwise one block would have to read all notes of a
/// large vector.
template <class Coder> struct join_notes {
  static constexpr std::size_t per_run = 64;
  /// Up to this number of notes, one block reads all of them before another launch could begin.
  static constexpr std::size_t few = 512;

  Coder coder;
  typename Coder::note const* notes;
  std::size_t count;
  typename Coder::note* out;

  static constexpr std::size_t runs(std::size_t count) { return (count + per_run - 1) / per_run; }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t run) const {
    std::size_t const first = run * per_run, left = count - first;
    auto const all = coder.joined(group, notes + first, left < per_run ? left : per_run);
    if (group.worker() == 0) out[run] = all;
  }
};

/// The result of encoding, for the host.
template <class Coder> struct encoded_report {
  // The host copies it as raw bytes, so it must not contain padding.
  static_assert(std::has_unique_object_representations_v<typename Coder::outcome>);

  typename Coder::outcome made;
  std::uint64_t is_rejected;  ///< 1: a source was rejected, so nothing was encoded
};

/// Completes an encoded vector after all chunks are in place.
template <class Coder> struct finish_encoded {
  Coder coder;
  encoded_sources<typename Coder::value_type> from;
  typename Coder::note const* notes;
  std::size_t count;  ///< number of notes
  std::uint64_t const* bytes;
  std::byte* out;
  encoded_report<Coder>* report;
  clear_words order;  ///< cleared for the next encoded vector
  deferred_validation validation = {};

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    for (std::size_t i = 0; i < order.runs(); ++i) order(group, i);
    if (group.worker() == 0) report->is_rejected = validation.is_rejected() ? 1 : 0;
    if (!validation.is_rejected())
      coder.finish(group, from, notes, count, *bytes, out, report->made);
  }
};

/// Splits chunks into runs, one per block of work.
struct chunk_runs {
  std::size_t chunks, per_run;

  constexpr std::size_t runs() const { return (chunks + per_run - 1) / per_run; }
  /// Calls f(group, i) for the chunks of a run. If each warp processes a chunk, the group passed is
  /// a warp.
  template <class Coder, class Group, class F>
  HCOMP_HD void for_each(Group group, std::size_t run, F const& f) const {
    std::size_t const first = run * per_run;
    std::size_t const end = chunks - first < per_run ? chunks : first + per_run;
    if constexpr (works_by_warps<Coder, Group>) {
      auto const warp = group.own_warp(Coder::scratch_bytes(1));
      for (auto i = first + static_cast<std::size_t>(group.warp()); i < end; i += Group::warps)
        f(warp, i);
    } else {
      for (std::size_t i = first; i < end; ++i) f(group, i);
    }
  }
};

/// Decodes a valid encoded vector: out = values, plus `addends` if not null (may alias `out`),
/// divided by a divisor unless it is 0.
template <class Coder> struct decode_chunks {
  Coder coder;
  chunk_runs all;
  std::size_t values;
  std::byte const* in;
  typename Coder::value_type const* addends;
  typename Coder::value_type divided_by;
  typename Coder::value_type* out;
  deferred_validation validation = {};

  static constexpr int workers = workers_of_coder<Coder>();
  static constexpr int blocks_at_once = blocks_of_coder<Coder>(0);
  static std::size_t scratch_bytes() { return scratch_of_block<Coder>(1); }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t run) const {
    all.template for_each<Coder>(group, run, [&](auto who, std::size_t i) {
      if (!validation
               .is_rejected())  // inside the loop: outside it would occupy a register throughout
        coder.decode_chunk(who, in, i, values, addends, divided_by, out);
    });
  }
};

/// For every chunk of a valid encoded vector, finds the groups of 64 values that contain NaN or
/// infinity, one bit per group.
template <class Coder> struct find_nonfinite_chunks {
  Coder coder;
  chunk_runs all;
  std::size_t values;
  std::byte const* in;
  std::uint64_t* found;
  deferred_validation validation =
      {};  ///< validation state of the sources; if they were rejected, nothing
           ///< was encoded

  static constexpr int workers = workers_of_coder<Coder>();
  static std::size_t scratch_bytes() { return scratch_of_block<Coder>(1); }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t run) const {
    if (validation.is_rejected()) return;
    all.template for_each<Coder>(group, run, [&](auto who, std::size_t i) {
      std::uint64_t const bits = coder.nonfinite_in_chunk(who, in, i, values);
      if (who.worker() == 0) found[i] = bits;
    });
  }
};

/// Writes 1 for every chunk that is invalid or misplaced. Never reads past the encoded vector.
template <class Coder> struct check_chunks {
  Coder coder;
  chunk_runs all;
  std::size_t values;
  std::byte const* in;
  std::size_t bytes;  ///< of the encoded vector, according to its header; at least its table
  std::uint64_t* found;

  static constexpr int workers = workers_of_coder<Coder>();

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t run) const {
    all.template for_each<Coder>(group, run, [&](auto who, std::size_t i) {
      bool const is_sound = is_sound_chunk(who, coder, in, i, values, bytes);
      if (who.worker() == 0) found[i] = is_sound ? 0 : 1;
    });
  }
};

/// Rejects an encoded vector if check_chunks would report one of its chunks.
template <class Coder> struct reject_chunks {
  Coder coder;
  chunk_runs all;
  std::size_t values;
  std::byte const* in;
  std::size_t bytes;  ///< as in check_chunks
  deferred_validation as;

  static constexpr int workers = workers_of_coder<Coder>();

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t run) const {
    beside_others const any(group);
    all.template for_each<Coder>(group, run, [&](auto who, std::size_t i) {
      bool const is_sound = is_sound_chunk(who, coder, in, i, values, bytes);
      if (!is_sound && who.worker() == 0) raise_to(any, as.last, as.number);
    });
  }
};

template <class Header> struct take_header {
  std::byte const* in;
  Header* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.worker() == 0) *out = load_aligned<Header>(in);
  }
};

template <class Header> struct take_part {
  std::byte const* in;
  std::size_t chunk, chunks;
  encoded_part* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    if (group.worker() == 0) *out = part_of_encoded<Header>(in, chunk, chunks);
  }
};

}  // namespace hcomp::detail
