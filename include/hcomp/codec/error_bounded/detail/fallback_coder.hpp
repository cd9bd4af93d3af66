#pragma once
/// @file
/// Coder of chunks of error_bounded_fallback for any group, and the header before the chunks.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/block_chunks.hpp>
#include <hcomp/codec/detail/block_part.hpp>
#include <hcomp/codec/detail/block_values.hpp>
#include <hcomp/codec/detail/chunk_bits.hpp>
#include <hcomp/codec/detail/chunk_words.hpp>
#include <hcomp/codec/detail/chunked_encoding.hpp>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/codec/error_bounded/detail/chunks.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_format.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_lanes.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_part.hpp>
#include <hcomp/codec/error_bounded/detail/fallback_simd.hpp>
#include <hcomp/codec/error_bounded/detail/header.hpp>
#include <hcomp/codec/error_bounded/detail/workers.hpp>
#include <hcomp/codec/error_bounded/options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd.hpp>
#include <string>
#include <type_traits>

namespace hcomp::detail::error_bounded {

/// An error value in 32 bits: the upper half of a double, rounded up.
struct short_double {
  std::uint32_t half = 0;

  /// @param value  not negative, not NaN
  HCOMP_HD static short_double above(double value) {
    auto const bits = same_bits<std::uint64_t>(value);
    return {static_cast<std::uint32_t>(bits >> 32) + (static_cast<std::uint32_t>(bits) != 0)};
  }
  HCOMP_HD double value() const { return same_bits<double>(std::uint64_t{half} << 32); }
  /// True for non-negative numbers, infinity included.
  bool is_sound() const { return half <= 0x7ff00000; }
  HCOMP_HD void raise(short_double other) { half = other.half > half ? other.half : half; }
};

/// First bytes of an encoded vector. The offsets of the chunks and the chunks follow. A chunk holds
/// one mode byte per block of 32 values, then the payloads. Blocks are independent of each other.
template <class T> struct fallback_header {
  using value_type = T;
  static constexpr std::uint16_t right_magic =
      std::is_same_v<T, float> ? 0x4645 : 0x4445;  // "EF", "ED"
  static constexpr std::uint8_t right_version = 3;
  static constexpr char const* chunks_are_of = "blocks";
  static constexpr std::size_t chunk_values = 1024;
  static constexpr std::size_t max_chunks = 500'000;
  static constexpr std::size_t max_values = max_chunks * chunk_values;
  /// Bytes of a block beside its values: the mode, and a word that marks doubles.
  static constexpr std::size_t beside_block = 1 + sizeof(std::uint32_t);
  static constexpr std::size_t slot_bytes =
      chunk_values / block_values * beside_block + chunk_values * sizeof(std::int64_t);

  std::uint16_t magic;
  std::uint8_t version, magnitude_bits;
  std::uint32_t ranks;
  double bound;
  std::uint64_t values, bytes;
  double error;           ///< largest error of a value before the rounding to T
  short_double rounding;  ///< largest error of the rounding to T
  short_double largest;   ///< upper bound on the magnitudes
  std::uint32_t weight, chunks;

  error_bounded_options options() const {
    return {.bound = bound, .ranks = ranks, .magnitude_bits = magnitude_bits};
  }

  static constexpr std::size_t capacity(std::size_t values) {
    return first_chunk_at<fallback_header>(chunks_of<fallback_header>(values)) +
           blocks_of(values) * beside_block + values * sizeof(std::int64_t);
  }
  /// Header of one rank's vector, with `bytes` 0 because the encoded size is not known yet.
  /// @throws std::invalid_argument  the bound is relative
  static fallback_header of(error_bounded_options const& options, std::size_t values) {
    require_absolute(options);
    return {right_magic,
            right_version,
            static_cast<std::uint8_t>(options.magnitude_bits),
            options.ranks,
            options.bound,
            values,
            0,
            0,
            {},
            {},
            1,
            static_cast<std::uint32_t>(chunks_of<fallback_header>(values))};
  }
  double largest_error() const { return error + rounding.value(); }

  [[noreturn]] static void refuse(std::string const& text) { refuse_damaged(text); }
  /// Validates a received header.
  /// @param given  bytes received, this header included
  /// @throws wire_error  invalid header, or bytes are missing
  static fallback_header checked(fallback_header const& came, std::size_t given) {
    require_front(came, given);
    if (!(came.error >= 0) || !came.rounding.is_sound() || !came.largest.is_sound())
      refuse_damaged("error " + std::to_string(came.error) +
                     ", upper 32 bits of the rounding error " + std::to_string(came.rounding.half) +
                     " and of the largest magnitude " + std::to_string(came.largest.half) +
                     "; the error must be 0 or more, the bits at most 2146435072");
    return came;
  }
  /// Requires the options `here` and `expected` values.
  /// @throws wire_error  other options, or another number of values
  void require(error_bounded_options const& here, std::size_t expected) const {
    require_alike(*this, here, expected);
  }
};
static_assert(sizeof(fallback_header<float>) == 56);

/// See VariableRate.
template <class T> struct fallback_coder {
  using value_type = T;
  using header = fallback_header<T>;
  /// Result of encoding chunks, for the header.
  struct note {
    short_double error, lost, rounding, largest;  ///< as in fallback_findings
    std::uint32_t is_beyond;  ///< 1 if a value is too large for the number of ranks
  };
  /// Result of encoding a vector.
  struct outcome {
    std::uint64_t bytes;
    std::uint32_t is_beyond;
    std::uint32_t weights[2];  ///< of the two summands
    std::uint32_t unused;      ///< 0
  };

  static constexpr int blocks_at_once(int) { return sizeof(T) == 4 ? 8 : 0; }

  fallback_grid<T> grid;

  /// Shared memory for chunks, in bytes. Payloads are at odd addresses, so workers assemble and
  /// split chunks there.
  static constexpr std::size_t scratch_bytes(int inputs) {
    return chunks::parts_bytes(static_cast<std::size_t>(inputs));
  }

  template <class Group, class Out>
  HCOMP_HD std::size_t encode_chunk(Group group, encoded_sources<T> const& from, std::size_t i,
                                    Out const& out, std::size_t, note& found) const {
    if constexpr (WarpsShareMemory<Group>) return encode_parts(group, from, i, out, found);
    std::size_t const n = values_of_chunk<header>(i, from.values), blocks = blocks_of(n);
    typename chunks::template sources<reader<Group>> inputs(group, from, i);
    std::byte* const chunk = area_for(group, out, chunks::staging_of(group, inputs.areas));
    std::uint64_t const most = weight_of(from) * static_cast<std::uint64_t>(grid.largest);
    std::size_t at = blocks;
    fallback_findings findings;
    bool is_beyond = false;
    for (std::size_t begin = 0; begin < blocks; begin += Group::workers) {
      auto const now = chunks::blocks_at(group, i, n, begin);
      std::size_t const k = now.block, here = now.n;
      bool const has_block = k < blocks;
      block v, other;
      if (from.a) {
        inputs.a.take(group, k, v);
      } else {
        T own[block_values];
        if (has_block) {
          read_block(from.x + now.first, here, own);
          v.set(grid, own, findings);
        }
      }
      if (from.b) inputs.b.take(group, k, other);
      fallback_mode mode{};
      if (has_block)
        mode = sum(v, nullptr, here, from.b ? &other : nullptr, most, findings, is_beyond);
      auto const bytes = group.running_sum(has_block ? mode.payload_bytes(here) : 0);
      if (has_block) {
        chunk[k] = static_cast<std::byte>(mode.byte);
        v.put(mode, here, chunk + at + bytes.before);
      }
      at += bytes.all;
    }
    if constexpr (SharesMemory<Group>) send_chunk(group, out, chunk, chunk + at);
    note const mine = note_of(group, findings, is_beyond);
    if (group.worker() != 0) return at;
    if constexpr (Group::workers > 1) found = {};
    add(found, mine);
    return at;
  }

  template <class Group>
  HCOMP_HD void decode_chunk(Group group, std::byte const* in, std::size_t i, std::size_t values,
                             T const* addends, T divided_by, T* out) const {
    if constexpr (WarpsShareMemory<Group>)
      return decode_parts(group, in, i, values, addends, divided_by, out);
    chunks::for_blocks(group, in, i, values, [&](auto const& at, block const& v) {
      if (at.n == 0) return;
      T block[block_values], added[block_values];
      if (addends) read_block(addends + at.first, at.n, added);
      for (std::size_t j = 0; j < block_values; ++j) {
        block[j] = v.value(grid, j, addends ? 0 : divided_by);
        if (!addends) continue;
        block[j] = with_one_nan(added[j] + block[j]);
        if (divided_by != 0) block[j] = divided(block[j], divided_by);
      }
      write_block(block, at.n, out + at.first);
    });
  }

  template <class Group>
  HCOMP_HD std::uint64_t nonfinite_in_chunk(Group group, std::byte const* in, std::size_t i,
                                            std::size_t values) const {
    std::uint64_t mine[2] = {0, 0};  // one bit per even block, and one per odd block
    chunks::for_blocks(group, in, i, values, [&](auto const& at, block const& v) {
      bool finite = true;
      for (std::size_t j = 0; j < at.n; ++j) finite &= is_finite(v.value(grid, j));
      if (!finite) mine[at.block % 2] |= std::uint64_t{1} << at.block / 2;
    });
    return group.sum(mine[0]) | group.sum(mine[1]);  // each bit belongs to one worker
  }

#if !defined(__CUDA_ARCH__)  // device code has neither SIMD nor simd_group
  // ---- Fast path for CPUs

  std::size_t encode_chunk(simd_group, encoded_sources<T> const& from, std::size_t i,
                           std::byte* out, std::size_t out_capacity, note& found) const {
#if defined(__x86_64__)
    if (best_simd_level() != simd_level::baseline)
      return encode_chunk_by_vectors(from, i, out, out_capacity, found);
#endif
    return encode_chunk(serial_group{}, from, i, out, out_capacity, found);
  }
  void decode_chunk(simd_group, std::byte const* in, std::size_t i, std::size_t values,
                    T const* addends, T divided_by, T* out) const {
#if defined(__x86_64__)
    if (best_simd_level() != simd_level::baseline)
      return decode_chunk_by_vectors(in, i, values, addends, divided_by, out);
#endif
    decode_chunk(serial_group{}, in, i, values, addends, divided_by, out);
  }
  std::uint64_t nonfinite_in_chunk(simd_group, std::byte const* in, std::size_t i,
                                   std::size_t values) const {
    if constexpr (std::is_same_v<T, double>) {  // every integer is a finite double
      std::byte const* const modes =
          in + part_of_encoded<header>(in, i, chunks_of<header>(values)).begin;
      std::byte all{0};
      for (std::size_t k = 0; k < blocks_of(values_of_chunk<header>(i, values)); ++k)
        all |= modes[k];
      if (static_cast<std::uint8_t>(all) < fallback_mode::doubles) return 0;
    }
    return nonfinite_in_chunk(serial_group{}, in, i, values);
  }
#endif

  template <class Group>
  HCOMP_HD bool is_chunk(Group group, std::byte const* chunk, std::size_t bytes,
                         std::size_t n) const {
    // sequential: the end of a block gives the begin of the next
    return !group.any(group.worker() == 0 && !is_valid(chunk, bytes, n));
  }

  static constexpr bool joins_notes = true;
  /// Combines the notes of chunks; equal in all workers.
  template <class Group>
  HCOMP_HD note joined(Group group, note const* notes, std::size_t count) const {
    note mine{};
    constexpr std::size_t at_once = 8;  // loads in flight
    for (auto i = static_cast<std::size_t>(group.worker()); i < count;
         i += at_once * Group::workers) {
      note seen[at_once] = {};
      HCOMP_UNROLL
      for (std::size_t k = 0; k < at_once; ++k)
        if (i + k * Group::workers < count) seen[k] = notes[i + k * Group::workers];
      HCOMP_UNROLL
      for (std::size_t k = 0; k < at_once; ++k) add(mine, seen[k]);
    }
    return largest_of(group, mine);
  }
  /// Completes the header from the notes of all chunks.
  template <class Group>
  HCOMP_HD void finish(Group group, encoded_sources<T> const& from, note const* notes,
                       std::size_t count, std::uint64_t bytes, std::byte* out,
                       outcome& made) const {
    auto front = load_aligned<header>(out);
    note const all = joined(group, notes, count);
    group.sync();  // all have read the header
    if (group.worker() != 0) return;

    made = {bytes, all.is_beyond, {0, 0}, 0};
    front.weight = from.a ? 0 : 1;
    front.error = all.error.value();
    front.rounding = all.rounding;
    front.largest = all.largest;
    int next = 0;
    std::byte const* const inputs[] = {from.a, from.b};
    for (std::byte const* const in : inputs) {
      if (!in) continue;
      auto const summand = load_aligned<header>(in);
      made.weights[next++] = summand.weight;
      front.weight += summand.weight;
      front.error += summand.error;
    }
    front.error += all.lost.value();
    if (!from.a) made.weights[next] = 1;
    store_aligned(out, 0, front);
  }

 private:
  using block = fallback_block<T>;
  using chunks = block_chunks<header, block>;
  template <class Group> using reader = typename chunks::template reader<Group>;

  // ---- Warps that share memory: several lanes per block

  template <class Group, class Out>
  HCOMP_HD std::size_t encode_parts(Group group, encoded_sources<T> const& from, std::size_t i,
                                    Out const& out, note& found) const {
    using place = typename chunks::template part<Group>;
    auto const n = static_cast<unsigned>(values_of_chunk<header>(i, from.values));
    place const mine(group, n);
    T x[place::own] = {};
    if (!from.a) mine.load(from.x + i * chunk_values(), x);
    typename chunks::template part_sources<Group> const inputs(group, from, i);
    std::uint64_t const most = weight_of(from) * static_cast<std::uint64_t>(grid.largest);
    group.sync();
    auto const take = [&](auto const& of, fallback_part<T, place>& to) {
      to.take(mine, mine.n > 0 ? of.mode_of(mine.block) : fallback_mode{}, of.area,
              of.find(group, mine, n).own);
    };
    fallback_findings findings;
    fallback_part<T, place> v;
    if (from.a)
      take(inputs.a, v);
    else
      v.set(grid, x, findings);
    if (from.b) {
      fallback_part<T, place> other;
      take(inputs.b, other);
      v.add(grid, other, findings);
    }
    bool const is_beyond = !v.note_rounding(grid, most, findings);
    auto const facts = v.look(group, mine);
    fallback_mode const mode = facts.mode(mine.n);
    inputs.lengths.say(mine, mode.payload_bytes(mine.n));
    group.sync();
    auto const at = inputs.lengths.find(group, mine, 8 * static_cast<unsigned>(blocks_of(n)));
    if (mine.part() == 0 && mine.n > 0)
      put_bits(group, inputs.chunk, 8 * mine.block, std::uint32_t{mode.byte}, 8);
    unsigned const end = at.end / 8;
    announce_bytes(out, end);
    v.put(group, mine, mode, facts, inputs.chunk, at.own);
    note const all = note_of(group, findings, is_beyond);  // also waits for all payloads
    if (group.worker() == 0) found = all;
    return send_whole(group, out, inputs.chunk, end);
  }
  template <class Group>
  HCOMP_HD void decode_parts(Group group, std::byte const* in, std::size_t i, std::size_t values,
                             T const* addends, T divided_by, T* out) const {
    using place = typename chunks::template part<Group>;
    auto const n = static_cast<unsigned>(values_of_chunk<header>(i, values));
    std::size_t const first = i * chunk_values();
    place const mine(group, n);
    T added[place::own], decoded[place::own];
    if (addends) mine.load(addends + first, added);
    typename chunks::template part_reader<Group> const from(group, in, i, values,
                                                            chunks::staging_of(group, 0));
    group.sync();
    fallback_part<T, place> v;
    v.take(mine, mine.n > 0 ? from.mode_of(mine.block) : fallback_mode{}, from.area,
           from.find(group, mine, n).own);
    HCOMP_UNROLL
    for (unsigned j = 0; j < place::own; ++j) {
      auto const& number = v.number[j];
      bool const divides = divided_by != 0;
      decoded[j] = divides && !addends ? number.value(grid, divided_by) : number.value(grid);
      if (!addends) continue;
      decoded[j] = with_one_nan(added[j] + decoded[j]);
      if (divides) decoded[j] = divided(decoded[j], divided_by);
    }
    mine.store(decoded, out + first);
  }

  HCOMP_HD static constexpr std::size_t chunk_values() { return header::chunk_values; }
  /// Number of ranks in the sum.
  HCOMP_HD static std::uint32_t weight_of(encoded_sources<T> const& from) {
    std::uint32_t weight = from.a ? load_aligned<header>(from.a).weight : 1;
    if (from.b) weight += load_aligned<header>(from.b).weight;
    return weight;
  }
  HCOMP_HD static void add(note& found, note const& other) {
    found.error.raise(other.error);
    found.lost.raise(other.lost);
    found.rounding.raise(other.rounding);
    found.largest.raise(other.largest);
    found.is_beyond |= other.is_beyond;
  }
  /// Computes the sum of a block and notes its errors. Returns the mode of the sum.
  /// @param v      first summand if `x` is null; becomes the sum
  /// @param x      values to quantize as the first summand, or null
  /// @param other  second summand, or null
  HCOMP_HD fallback_mode sum(block& v, T const* x, std::size_t n, block const* other,
                             std::uint64_t most, fallback_findings& found, bool& is_beyond) const {
    if (x) {
      T own[block_values];
      read_block(x, n, own);
      v.set(grid, own, found);
    }
    if (other) v.add(grid, *other, found);
    v.note_rounding(grid, found);
    is_beyond |= !v.is_within(most);
    return v.best_mode(n);
  }
  /// Combined note of all workers.
  template <class Group>
  HCOMP_HD static note note_of(Group group, fallback_findings const& findings, bool is_beyond) {
    using metric = short_double;
    return largest_of(
        group, {metric::above(findings.error), metric::above(findings.lost),
                metric::above(findings.rounding), metric::above(findings.largest), is_beyond});
  }
  /// Maximum over all workers, field by field.
  template <class Group> HCOMP_HD static note largest_of(Group group, note const& mine) {
    std::uint32_t most[] = {mine.error.half, mine.lost.half, mine.rounding.half, mine.largest.half,
                            mine.is_beyond};
    raise_to_largest(group, most, 31);
    return {{most[0]}, {most[1]}, {most[2]}, {most[3]}, most[4]};
  }

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  using readable = typename chunks::readable;

  static_assert(chunks::most_blocks == fallback_most_blocks);

  std::size_t encode_chunk_by_vectors(encoded_sources<T> const& from, std::size_t i, std::byte* out,
                                      std::size_t out_capacity, note& found) const {
    auto const kernels = best_fallback_kernels<T>();
    std::size_t const n = values_of_chunk<header>(i, from.values), blocks = blocks_of(n),
                      whole = n / block_values;
    readable const reader_a(from.a, i, from.values), reader_b(from.b, i, from.values);
    fallback_payload a[fallback_most_blocks], b[fallback_most_blocks];
    if (from.a) reader_a.take(a);
    if (from.b) reader_b.take(b);
    fallback_summands<T> const summands{grid, from.a ? nullptr : from.x + i * chunk_values(),
                                        from.a ? a : nullptr, from.b ? b : nullptr};
    std::uint64_t const most = weight_of(from) * static_cast<std::uint64_t>(grid.largest);
    fallback_findings findings;
    bool is_beyond = false;
    std::size_t const bytes = chunks::put_chunk(out, out_capacity, [&](std::byte* chunk) {
      fallback_sums to{chunk, chunk + blocks};
      for (std::size_t k = 0; k < blocks; ++k) {
        if (k < whole) k += kernels.sum(summands.behind(k), whole - k, to);
        if (k == blocks) break;
        std::size_t const here = values_of_block(k, n);
        auto const one = summands.behind(k);
        block v, other;
        if (one.a) v.take(one.a->mode, here, one.a->in);
        if (one.b) other.take(one.b->mode, here, one.b->in);
        auto const mode = sum(v, one.x, here, one.b ? &other : nullptr, most, to.found, is_beyond);
        v.put(mode, here, to.payload);
        to.put(mode, here);
      }
      findings = to.found;
      is_beyond |= to.largest > most;
      return static_cast<std::size_t>(to.payload - chunk);
    });
    add(found, note_of(serial_group{}, findings, is_beyond));
    return bytes;
  }
  void decode_chunk_by_vectors(std::byte const* in, std::size_t i, std::size_t values,
                               T const* addends, T divided_by, T* out) const {
    std::size_t const n = values_of_chunk<header>(i, values), first = i * chunk_values();
    readable const chunk(in, i, values);
    fallback_payload of[fallback_most_blocks];
    chunk.take(of);
    if (!addends && divided_by != 0) {  // sums as doubles, which are rounded once
      double sums[header::chunk_values];
      get_blocks(fallback_grid<double>(grid), of, n, sums);
      for (std::size_t j = 0; j < n; ++j)
        out[first + j] = with_one_nan(static_cast<T>(sums[j] / static_cast<double>(divided_by)));
      return;
    }
    if (!addends) return get_blocks(grid, of, n, out + first);
    T decoded[header::chunk_values];
    get_blocks(grid, of, n, decoded);
    for (std::size_t j = 0; j < n; ++j) {
      T const sum = with_one_nan(addends[first + j] + decoded[j]);
      out[first + j] = divided_by != 0 ? divided(sum, divided_by) : sum;
    }
  }
  /// Decodes the n values of a chunk.
  template <class U>
  static void get_blocks(fallback_grid<U> const& grid, fallback_payload const* of, std::size_t n,
                         U* to) {
    auto const kernels = best_fallback_kernels<U>();
    std::size_t const blocks = blocks_of(n), whole = n / block_values;
    for (std::size_t k = 0; k < blocks; ++k) {
      if (k < whole) k += kernels.get(grid, of + k, whole - k, to + k * block_values);
      if (k == blocks) break;
      fallback_block<U> v;
      std::size_t const here = values_of_block(k, n);
      v.take(of[k].mode, here, of[k].in);
      for (std::size_t j = 0; j < here; ++j) to[k * block_values + j] = v.value(grid, j);
    }
  }
#endif

  static HCOMP_HD bool is_valid(std::byte const* chunk, std::size_t bytes, std::size_t n) {
    std::size_t const blocks = blocks_of(n);
    if (bytes < blocks) return false;
    std::size_t at = blocks;
    static_assert(fallback_most_blocks <= 32);
    std::uint32_t not_zero = 0;  // only these blocks have a payload
    for (std::size_t k = 0; k < blocks; ++k)
      not_zero |= std::uint32_t{chunk[k] != std::byte{0}} << k;
    for (; not_zero != 0; not_zero &= not_zero - 1) {
      auto const k = static_cast<std::size_t>(lowest_one(not_zero));
      fallback_mode const mode{static_cast<std::uint8_t>(chunk[k])};
      std::size_t const here = values_of_block(k, n);
      if (!mode.is_valid() || bytes - at < mode.payload_bytes(here)) return false;
      if (mode.byte >= fallback_mode::sparse) {  // the payload begins with one bit per value
        auto const marked = load<std::uint32_t>(chunk + at);
        if (here < block_values && marked >> here != 0) return false;
        if (mode.is_sparse() && static_cast<std::size_t>(ones(marked)) != mode.sparse_values())
          return false;
      }
      at += mode.payload_bytes(here);
    }
    return at == bytes;
  }
};

}  // namespace hcomp::detail::error_bounded
