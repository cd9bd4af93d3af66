#pragma once
/// @file
/// Coder of chunks of error_bounded for any group; all groups encode the same bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/codec/error_bounded/detail/blocks.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/detail/grid.hpp>
#include <hcomp/codec/error_bounded/detail/header.hpp>
#include <hcomp/codec/error_bounded/detail/workers.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp::detail::error_bounded {

/// Why encoding failed.
enum class encoded_fault : std::uint32_t {
  none,
  impossible,  ///< a sum that no number of ranks can have
  range,       ///< a sum that these ranks cannot have
  ranks        ///< too many ranks
};

/// See VariableRate.
struct chunk_coder {
  using value_type = float;
  using header = error_bounded::header;
  /// Result of encoding chunks, for the header.
  struct note {
    std::uint32_t error, float_additions;  ///< these and the next three as in the header
    std::uint16_t float_error;
    std::uint8_t largest_bits, has_floats;
    encoded_fault fault;  ///< of the first block with a fault
    std::int64_t impossible;
  };
  /// Result of encoding a vector.
  struct outcome {
    std::uint64_t bytes;
    std::int64_t impossible;
    encoded_fault fault;
    std::uint32_t weights[2];  ///< of the two summands
    std::uint32_t unused;      ///< 0
  };

  /// Thread blocks per multiprocessor, limited by shared memory.
  static constexpr int blocks_at_once(int inputs) { return 7 - inputs; }

  block_coder by_cpu;

  static constexpr std::size_t scratch_bytes(int inputs) {
    return sharing_bytes(static_cast<std::size_t>(inputs));
  }

  template <class Group, class Out>
  HCOMP_HD std::size_t encode_chunk(Group group, encoded_sources<float> const& from, std::size_t i,
                                    Out const& out, std::size_t, note& found) const {
    encoding<Group> now(group, from, i);
    sum_range const range(by_cpu.grid, weight_of(from));
    std::byte* const chunk = area_for(group, out, now.shared.chunk(now.areas()));
    std::byte* payloads = chunk + front_bytes(now.n);

    chunk_stats stats;
    for (unsigned begin = 0; begin < now.blocks; begin += Group::workers) {
      unsigned const k = begin + worker_of(group);
      bool const has_block = k < now.blocks;
      auto const here = has_block ? static_cast<unsigned>(values_of_block(k, now.n)) : 0;
      value_block v;
      make_block(group, now, begin, v, stats);
      std::int32_t const before = integer_before(group, k, has_block, v, now.shared->last);
      if (k == 0) store_aligned(chunk, 0, before);
      block_form const form = form_of(v, before, here, range, stats);
      auto const bytes = group.running_sum(form.mode.bytes);
      std::byte* const payload = payloads + bytes.before;
      payloads += bytes.all;
      if (begin + Group::workers >= now.blocks)
        announce_bytes(out, static_cast<std::size_t>(payloads - chunk));
      if (has_block) chunk[sizeof(std::int32_t) + k] = static_cast<std::byte>(form.mode.byte);
      if (v.is == value_block::state::integers)
        put_own_block(v.q, before, here, form.mode, form.nonzero, payload);
      else if (v.is == value_block::state::words)
        put_floats(v, here, payload);
      if (stats.fault == encoded_fault::none && (stats.sums.impossible != 0 || !form.fits)) {
        stats.fault = fault_of(stats.sums);
        stats.faulty = k;
      }
      if (Group::workers >= most_blocks) break;
    }
    return finish_chunk(group, from, out, chunk, payloads, stats, found);
  }

  template <class Group>
  HCOMP_HD void decode_chunk(Group group, std::byte const* in, std::size_t i, std::size_t values,
                             float const* addends, float divided_by, float* out) const {
    std::size_t const chunk = i * chunk_values;
    std::size_t const n = values_of_chunk<header>(i, values);
    own_values<Group> own(group, chunk_sharing<Group>(group).chunk(0));  // used after the chunk
    step_grid const grid = by_cpu.grid.divided_by(addends ? 0 : divided_by);
    for_blocks(group, grid, in, i, values,
               [&](worker_block const& at, float(&block)[block_values]) {
                 std::size_t const begin = at.block - static_cast<std::size_t>(group.worker());
                 if constexpr (own_values<Group>::is_shared) group.sync();
                 if (addends) {
                   own.bring(group, addends + chunk, n, begin);
                   HCOMP_UNROLL_ON_DEVICE
                   for (std::size_t j = 0; j < block_values; ++j)
                     block[j] = same_bits<float>(bits_of_sum(own_value(own, j) + block[j]));
                 }
                 if (addends && divided_by != 0) {
                   HCOMP_UNROLL_ON_DEVICE
                   for (std::size_t j = 0; j < block_values; ++j)
                     block[j] = divided(block[j], divided_by);
                 }
                 put_bits_of(block, own);
                 own.send(group, out + chunk, n, begin);
               });
  }

  template <class Group>
  HCOMP_HD std::uint64_t nonfinite_in_chunk(Group group, std::byte const* in, std::size_t i,
                                            std::size_t values) const {
    std::uint64_t mine[2] = {0, 0};  // one bit per even block, and one per odd block
    for_blocks(group, by_cpu.grid, in, i, values,
               [&](worker_block const& at, float(&block)[block_values]) {
                 bool finite = true;
                 HCOMP_UNROLL_ON_DEVICE
                 for (std::size_t j = 0; j < block_values; ++j) finite &= is_finite(block[j]);
                 if (finite) return;
                 if (at.block % 2 == 0)
                   mine[0] |= std::uint64_t{1} << at.block / 2;
                 else
                   mine[1] |= std::uint64_t{1} << at.block / 2;
               });
    // each bit belongs to one worker
    return group.sum(mine[0]) | group.sum(mine[1]);
  }

  template <class Group>
  HCOMP_HD bool is_chunk(Group group, std::byte const* chunk, std::size_t bytes,
                         std::size_t n) const {
    // sequential: the end of a block gives the begin of the next
    return !group.any(group.worker() == 0 && !block_coder::valid(chunk, bytes, n));
  }

  static constexpr bool joins_notes = true;
  /// Combines the notes of consecutive chunks; equal in all workers.
  template <class Group>
  HCOMP_HD note joined(Group group, note const* notes, std::size_t count) const {
    note all{};
    std::uint64_t additions = 0;
    auto const end = static_cast<std::uint32_t>(count);
    std::uint32_t first_fault = end;                                // among this worker's notes
    constexpr std::uint32_t at_once = 8, workers = Group::workers;  // at_once: loads in flight
    for (auto i = static_cast<std::uint32_t>(group.worker()); i < end; i += at_once * workers) {
      note seen[at_once] = {};
      HCOMP_UNROLL
      for (std::uint32_t k = 0; k < at_once; ++k)
        if (i + k * workers < end) seen[k] = notes[i + k * workers];
      HCOMP_UNROLL
      for (std::uint32_t k = 0; k < at_once; ++k) {
        auto const& one = seen[k];
        if (one.error > all.error) all.error = one.error;
        additions += one.float_additions;
        if (one.float_error > all.float_error) all.float_error = one.float_error;
        if (one.largest_bits > all.largest_bits) all.largest_bits = one.largest_bits;
        all.has_floats |= one.has_floats;
        if (one.fault != encoded_fault::none && first_fault == end) first_fault = i + k * workers;
      }
    }
    std::uint32_t most[] = {all.error, all.float_error, all.largest_bits, all.has_floats,
                            end - first_fault};
    raise_to_largest(group, most, 18);
    static_assert(header::max_chunks < 1 << 18);
    auto const sum = group.sum(additions);  // below 2^32, as is the number of values
    note const* const faulty = most[4] != 0 ? notes + (end - most[4]) : nullptr;
    return {most[0],
            static_cast<std::uint32_t>(sum),
            static_cast<std::uint16_t>(most[1]),
            static_cast<std::uint8_t>(most[2]),
            static_cast<std::uint8_t>(most[3]),
            faulty ? faulty->fault : encoded_fault::none,
            faulty ? faulty->impossible : 0};
  }
  /// Completes the header from the notes of all chunks, in order.
  template <class Group>
  HCOMP_HD void finish(Group group, encoded_sources<float> const& from, note const* notes,
                       std::size_t count, std::uint64_t bytes, std::byte* out,
                       outcome& made) const {
    auto front = load_aligned<header>(out);
    note const all = joined(group, notes, count);
    group.sync();  // all have read the header
    if (group.worker() != 0) return;

    made = {bytes, all.impossible, all.fault, {0, 0}, 0};
    front.weight = from.a ? 0 : 1;
    front.error = all.error;
    front.float_additions = all.float_additions;
    front.float_error = all.float_error;
    front.largest_bits = all.largest_bits;
    front.has_floats = all.has_floats;
    int next = 0;
    for (int i = 0; i < 2; ++i) {
      std::byte const* const in = i == 0 ? from.a : from.b;
      if (!in) continue;
      auto const summand = load_aligned<header>(in);
      made.weights[next++] = summand.weight;
      front.weight += summand.weight;
      front.error += summand.error;
      front.float_additions += summand.float_additions;
      front.float_error = header::added(front.float_error, summand.float_error);
      front.has_floats |= summand.has_floats;
    }
    if (!from.a) made.weights[next] = 1;
    store_aligned(out, 0, front);
    if (front.weight > front.ranks) made.fault = encoded_fault::ranks;
  }

#if !defined(__CUDA_ARCH__)  // device code has neither SIMD nor simd_group
  // ---- Fast path for CPUs
  std::size_t encode_chunk(simd_group, encoded_sources<float> const& from, std::size_t i,
                           std::byte* out, std::size_t, note& found) const {
    std::size_t const n = values_of_chunk<header>(i, from.values);
    auto const fill = [&](auto const& first_of) {
      if (!from.b) return write(from, n, out, found, first_of, [](auto&&...) {});
      return write(from, n, out, found, first_of,
                   [other = reader(from.b, i, from.values)](std::size_t here, value_block& v,
                                                            word_sums& sums) mutable {
                     other.add(here, v, sums);
                   });
    };
    if (from.a)
      return fill([mine = reader(from.a, i, from.values)](std::size_t, std::size_t here,
                                                          value_block& v,
                                                          double&) mutable { mine.take(here, v); });
    float const* const x = from.x + i * chunk_values;
    return fill([&](std::size_t first, std::size_t here, value_block& v, double& error) {
      by_cpu.quantize(x + first, here, v, error);
    });
  }

  void decode_chunk(simd_group, std::byte const* in, std::size_t i, std::size_t values,
                    float const* addends, float divided_by, float* out) const {
    block_coder const by{by_cpu.grid.divided_by(addends ? 0 : divided_by), by_cpu.kernels,
                         by_cpu.level};
    for_blocks(in, i, values, [&](std::size_t first, std::size_t n, value_block const& v) {
      float* const to = out + i * chunk_values + first;
      if (addends) {
        float const* const added = addends + i * chunk_values + first;
        float decoded[block_values];
        by.dequantize(v, n, decoded);
        for (std::size_t j = 0; j < n; ++j)
          to[j] = same_bits<float>(bits_of_sum(added[j] + decoded[j]));
      } else {
        by.dequantize(v, n, to);
      }
      if (addends && divided_by != 0)
        for (std::size_t j = 0; j < n; ++j) to[j] = divided(to[j], divided_by);
    });
  }

  std::uint64_t nonfinite_in_chunk(simd_group, std::byte const* in, std::size_t i,
                                   std::size_t values) const {
    float x[chunk_values];
    for_blocks(in, i, values, [&](std::size_t first, std::size_t n, value_block const& v) {
      by_cpu.dequantize(v, n, x + first);
    });
    return nonfinite_runs(x, values_of_chunk<header>(i, values));
  }
#endif

 private:
  /// Number of ranks in the sum.
  HCOMP_HD static std::uint32_t weight_of(encoded_sources<float> const& from) {
    std::uint32_t weight = from.a ? load_aligned<header>(from.a).weight : 1;
    if (from.b) weight += load_aligned<header>(from.b).weight;
    return weight;
  }
  HCOMP_HD static encoded_fault fault_of(word_sums const& sums) {
    return sums.impossible != 0 ? encoded_fault::impossible : encoded_fault::range;
  }
  HCOMP_HD static void add(note& found, std::uint32_t parts, std::uint64_t additions,
                           std::uint32_t float_error, std::uint32_t bits, bool has_floats) {
    if (parts > found.error) found.error = parts;
    found.float_additions += static_cast<std::uint32_t>(additions);
    if (float_error > found.float_error)
      found.float_error = static_cast<std::uint16_t>(float_error);
    if (bits > found.largest_bits) found.largest_bits = static_cast<std::uint8_t>(bits);
    found.has_floats |= has_floats;
  }
  HCOMP_HD static void note_fault(note& found, encoded_fault fault, word_sums const& sums) {
    if (found.fault != encoded_fault::none) return;
    found.fault = fault;
    found.impossible = sums.impossible;
  }

  template <class Group> using own_values = own_block<Group, float, block_values, most_blocks>;

  // ---- Encoding of a chunk by the workers of a group

  /// The chunk that a group encodes: its sources, and the worker's current block.
  template <class Group> struct encoding {
    encoded_sources<float> const& from;
    std::size_t i;       ///< index of the chunk
    unsigned n, blocks;  ///< values and blocks of the chunk
    chunk_sharing<Group> shared;
    worker_reader<Group> reader_a, reader_b;
    own_values<Group> own;  ///< in the memory where the chunk is assembled later

    HCOMP_HD encoding(Group group, encoded_sources<float> const& sources, std::size_t index)
        : from(sources),
          i(index),
          n(static_cast<unsigned>(values_of_chunk<header>(index, sources.values))),
          blocks(static_cast<unsigned>(blocks_of(n))),
          shared(group),
          own(group, shared.chunk(areas())) {
      if (from.a)
        reader_a.open(group, from.a, i, from.values, shared->first, shared->sums, shared.chunk(0));
      if (from.b)
        reader_b.open(group, from.b, i, from.values, shared->second, shared->sums,
                      shared.chunk(from.a ? 1 : 0));
    }
    /// Number of buffers in shared memory with chunks of the sources.
    HCOMP_HD std::size_t areas() const { return (from.a ? 1u : 0u) + (from.b ? 1u : 0u); }
  };
  /// Result of a worker for its blocks of a chunk.
  struct chunk_stats {
    double error = 0;  ///< as in block_coder::quantize
    word_sums sums;
    std::uint32_t magnitude = 0;  ///< OR of block_shape::plain
    bool has_floats = false;
    encoded_fault fault = encoded_fault::none;
    unsigned faulty = 0;  ///< the first block with a fault
  };
  /// Form of a block in the encoded chunk.
  struct block_form {
    block_mode mode;
    std::uint32_t nonzero;  ///< as block_shape::nonzero
    bool fits;              ///< all values are in range
  };

  /// Calls keep(block) with the worker's block of a or x; if it has no block of x, does not call it.
  /// @param begin  block of the first worker
  template <class Group, class Keep>
  [[gnu::always_inline]] HCOMP_HD void take_first(Group group, encoding<Group>& now, unsigned begin,
                                                  double& error, Keep const& keep) const {
    unsigned const k = begin + worker_of(group);
    if (now.from.a) {
      value_block taken;
      now.reader_a.take(k, taken);
      keep(taken);
    } else {
      now.own.bring(group, now.from.x + now.i * chunk_values, now.n, begin);
      if (k >= now.blocks) return;
      value_block made;
      quantize(now.own, made, error);
      keep(made);
    }
  }
  /// v = the worker's block of the sum; zeros after the last block.
  template <class Group>
  [[gnu::always_inline]] HCOMP_HD void make_block(Group group, encoding<Group>& now, unsigned begin,
                                                  value_block& v, chunk_stats& stats) const {
    using state = value_block::state;
    v.is = state::zeros;
    if (now.from.b) {  // two blocks do not fit in the registers of a device
      auto is = state::zeros;
      take_first(group, now, begin, stats.error, [&](value_block const& made) {
        is = made.is;
        put_bits_of(made.q, now.own);
      });
      now.reader_b.take(begin + worker_of(group), v);
      add_block(by_cpu.grid, is, now.own, v, stats.sums);
    } else {
      take_first(group, now, begin, stats.error, [&](value_block const& made) { v = made; });
    }
    if (v.is == state::words) v.simplify(by_cpu.grid);
  }
  /// The integer before block k; the first integer for the first block. All workers call it.
  /// @param last  becomes the last integer of each block
  template <class Group>
  [[gnu::always_inline]] HCOMP_HD static std::int32_t integer_before(
      Group group, unsigned k, bool has_block, value_block const& v,
      std::int32_t (&last)[most_blocks]) {
    bool const is_integers = v.is == value_block::state::integers;
    if (has_block) last[k] = is_integers ? v.q[block_values - 1] : 0;
    group.sync();
    if (!is_integers) return 0;
    return k == 0 ? v.q[0] : last[k - 1];
  }
  [[gnu::always_inline]] HCOMP_HD block_form form_of(value_block const& v, std::int32_t before,
                                                     unsigned n, sum_range const& range,
                                                     chunk_stats& stats) const {
    if (v.is == value_block::state::integers) {
      block_shape const shape = shape_of_block(v.q, before);
      stats.magnitude |= shape.plain;
      return {best_mode(shape, n), shape.nonzero, shape.plain < range.beyond};
    }
    if (v.is == value_block::state::zeros) return {{0, 0}, 0, true};
    stats.has_floats = true;
    return {{words_mode, 4 * n}, 0, range.has(by_cpu.grid, v)};
  }
  /// Copies the chunk to `out` and adds the statistics of all workers to `found`. Returns the
  /// chunk's bytes.
  /// @param end  end of the chunk
  template <class Group, class Out>
  [[gnu::always_inline]] HCOMP_HD std::size_t finish_chunk(Group group,
                                                           encoded_sources<float> const& from,
                                                           Out const& out, std::byte* chunk,
                                                           std::byte* end, chunk_stats const& stats,
                                                           note& found) const {
    auto const bytes = static_cast<std::size_t>(end - chunk);
    std::uint32_t const own_fault = stats.fault != encoded_fault::none
                                        ? static_cast<std::uint32_t>(most_blocks) - stats.faulty
                                        : 0;
    std::uint32_t const float_error =
        stats.sums.float_additions != 0 ? header::float_error_of(by_cpu.grid, stats.sums) : 0u;
    bool const has_floats = stats.has_floats || stats.sums.cancels;
    static_assert(header::largest_error < 1 << 12);
    std::uint32_t most[] = {!from.a ? header::parts_of(stats.error) : 0,
                            static_cast<std::uint32_t>(bit_length(stats.magnitude)),
                            std::uint32_t{has_floats || own_fault != 0}};
    if constexpr (Group::workers > 1) clear_behind(group, end);
    raise_to_largest(group, most, 15);  // also synchronizes all workers
    std::uint32_t seldom[] = {std::uint32_t{has_floats}, own_fault, float_error};
    std::uint64_t additions = 0;
    if (most[2] != 0) {  // always set after float additions: a float remains, or they cancelled
      group.sync();
      raise_to_largest(group, seldom, 15);
      if (from.b) additions = group.sum(stats.sums.float_additions);
    }
    if constexpr (Group::workers > 1) send_whole(group, out, chunk, bytes);
    bool const notes = seldom[1] != 0 ? own_fault == seldom[1] : group.worker() == 0;
    if (!notes) return bytes;
    if constexpr (Group::workers > 1) found = {};
    add(found, most[0], additions, seldom[2], most[1], seldom[0] != 0);
    if (own_fault != 0) note_fault(found, stats.fault, stats.sums);
    return bytes;
  }

  template <class Own> HCOMP_HD static float own_value(Own const& own, std::size_t j) {
    return own.get(static_cast<unsigned>(j) / Own::in_run).values[j % Own::in_run];
  }
  template <class Own, class Number>
  HCOMP_HD static void put_bits_of(Number const (&numbers)[block_values], Own& own) {
    HCOMP_UNROLL_ON_DEVICE
    for (unsigned r = 0; r < Own::runs; ++r) {
      typename Own::run some;
      HCOMP_UNROLL_ON_DEVICE
      for (unsigned e = 0; e < Own::in_run; ++e)
        some.values[e] = same_bits<float>(numbers[Own::in_run * r + e]);
      own.put(r, some);
    }
  }
  template <class Own> HCOMP_HD void quantize(Own const& own, value_block& v, double& error) const {
    auto const x = [&](std::size_t j) { return own_value(own, j); };
    v.is = value_block::state::integers;
    if (quantize_values(by_cpu.grid, x, v.q, error)) return;
    forget_loaded();
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = 0; j < block_values; ++j) v.q[j] = nearest_integer(by_cpu.grid, x(j));
    keep_floats(by_cpu.grid, x, v, error);
  }
  HCOMP_HD static void put_floats(value_block const& v, std::size_t n, std::byte* out) {
    std::uint32_t words[block_values];
    HCOMP_UNROLL_ON_DEVICE
    for (std::size_t j = 0; j < block_values; ++j) words[j] = v.word(j);
    put_words<0, block_values>(words, n, out);
  }

  /// Block of a worker and its number of values; 0 if the worker has no block.
  struct worker_block {
    std::size_t block, n;
  };
  /// Calls f(worker_block, floats) in all workers for the blocks of chunk i.
  /// @param grid  the coder's, with a divisor of the floats
  template <class Group, class F>
  HCOMP_HD void for_blocks(Group group, step_grid const& grid, std::byte const* in, std::size_t i,
                           std::size_t values, F const& f) const {
    chunk_sharing<Group> shared(group);
    worker_reader<Group> reader;
    reader.open(group, in, i, values, shared->first, shared->sums, shared.chunk(0));
    std::size_t const n = values_of_chunk<header>(i, values);
    for (std::size_t begin = 0; begin < blocks_of(n); begin += Group::workers) {
      std::size_t const k = begin + static_cast<std::size_t>(group.worker());
      value_block v;
      reader.take(k, v);
      float block[block_values];
      if (v.is == value_block::state::words) {
        HCOMP_UNROLL_ON_DEVICE
        for (std::size_t j = 0; j < block_values; ++j) block[j] = value_of(grid, v.word(j));
      } else {
        HCOMP_UNROLL_ON_DEVICE
        for (std::size_t j = 0; j < block_values; ++j) block[j] = float_of(grid, v.q[j]);
      }
      f({k, k < blocks_of(n) ? values_of_block(k, n) : 0}, block);
      if (Group::workers >= most_blocks) break;
    }
  }

  // ---- One CPU thread, block after block
  block_reader reader(std::byte const* in, std::size_t i, std::size_t values) const {
    auto const part = part_of_encoded<header>(in, i, chunks_of<header>(values));
    return {by_cpu, in + part.begin, values_of_chunk<header>(i, values)};
  }
  /// Calls f(first, n, block) for each block of chunk i; `first` counts values of the chunk.
  template <class F>
  void for_blocks(std::byte const* in, std::size_t i, std::size_t values, F const& f) const {
    auto from = reader(in, i, values);
    std::size_t const n = values_of_chunk<header>(i, values);
    value_block v;
    for (std::size_t first = 0; first < n; first += block_values) {
      std::size_t const here = std::min(n - first, block_values);
      from.take(here, v);
      f(first, here, v);
    }
  }
  /// Writes a chunk. make(first, n, block, error) creates each block, and `add_to` adds to it.
  template <class Make, class Add>
  std::size_t write(encoded_sources<float> const& from, std::size_t n, std::byte* out, note& found,
                    Make make, Add add_to) const {
    block_writer writer(by_cpu, out, n, weight_of(from));
    double error = 0;
    word_sums sums;
    value_block v;
    bool all_fit = true;
    for (std::size_t first = 0; first < n; first += block_values) {
      std::size_t const here = std::min(n - first, block_values);
      make(first, here, v, error);
      add_to(here, v, sums);
      all_fit &= writer.put(v, here);
      if (all_fit && sums.impossible == 0) continue;
      note_fault(found, fault_of(sums), sums);
    }
    add(found, header::parts_of(error), sums.float_additions,
        header::float_error_of(by_cpu.grid, sums), writer.largest_bits(),
        writer.has_floats() || sums.cancels);
    return static_cast<std::size_t>(writer.end() - out);
  }
};

}  // namespace hcomp::detail::error_bounded
