#pragma once
/// @file
/// What an executor runs for error_bounded_stream: chunks of 4096 values.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/divided.hpp>
#include <hcomp/codec/detail/error_bounded_blocks.hpp>
#include <hcomp/codec/detail/error_bounded_chunks.hpp>
#include <hcomp/codec/detail/error_bounded_grid.hpp>
#include <hcomp/codec/detail/error_bounded_header.hpp>
#include <hcomp/codec/detail/votes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/op/detail/chunk_places.hpp>
#include <hcomp/op/detail/error_bounded_lanes.hpp>

namespace hcomp::detail {

/// Why a stream could not be made.
enum class error_bounded_fault : std::uint32_t {
  none,
  impossible,  ///< a sum that no ranks have
  range,       ///< a sum that these ranks cannot have
  ranks        ///< too many of them
};
/// What is known of a chunk when it is encoded.
struct error_bounded_found {
  std::uint32_t error, float_additions;  ///< as in the header
  error_bounded_fault fault;             ///< of the first block that has one
  std::int64_t impossible;
};

/// Encodes chunks into slots of error_bounded_header::slot_bytes: of x or stream `a`, and what
/// stream `b` holds, if there is one. Streams are sound, at multiples of 4.
struct encode_error_bounded_chunks {
  error_bounded_grid grid;
  std::size_t values;
  float const* x;
  std::byte const *a, *b;
  std::size_t first;  ///< chunk to be encoded
  std::byte* slots;   ///< of that and those that follow it
  std::uint32_t* lengths;
  error_bounded_found* found;

  std::size_t scratch_bytes() const {
    return error_bounded_scratch(1u + (a ? 1u : 0u) + (b ? 1u : 0u));
  }

  /// Ranks that are summed.
  HCOMP_HD static std::uint32_t weight_of(std::byte const* in) {
    return in ? load_aligned<error_bounded_header>(in).weight : 0;
  }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t place) const {
    using state = error_bounded_values::state;
    std::size_t const i = first + place, n = error_bounded_header::values_of(i, values);
    std::size_t const blocks = error_bounded_blocks(n);
    error_bounded_sharing<Group> shared(group);
    error_bounded_lane_reader<Group> of_a, of_b;
    std::size_t rooms = 0;
    if (a) of_a.open(group, a, i, values, shared->first, shared.chunk(rooms++));
    if (b) of_b.open(group, b, i, values, shared->second, shared.chunk(rooms++));
    error_bounded_range const range(grid, weight_of(a) + weight_of(b) + (x ? 1 : 0));
    std::byte* const slot = slots + place * error_bounded_header::slot_bytes;
    std::byte* const chunk = Group::lanes == 1 ? slot : shared.chunk(rooms);
    std::byte* payloads = chunk + error_bounded_front(n);

    double error = 0;
    error_bounded_sums sums;
    auto fault = error_bounded_fault::none;
    std::size_t faulty = 0;
    for (std::size_t begin = 0; begin < blocks; begin += Group::lanes) {
      std::size_t const k = begin + static_cast<std::size_t>(group.lane());
      bool const is_here = k < blocks;
      std::size_t const here = is_here ? error_bounded_values_of_block(k, n) : 0;
      error_bounded_values v;
      v.is = state::zeros;
      if (a)
        of_a.take(group, k, v);
      else if (is_here)
        quantize(x + i * error_bounded_chunk_values + k * error_bounded_block_values, here, v,
                 error);
      if (b) {
        error_bounded_values other;
        of_b.take(group, k, other);
        add_blocks(grid, v, other, sums);
      }
      if (v.is == state::words) v.simplify(grid);

      bool const is_integers = v.is == state::integers;
      if (is_here) shared->last[k] = is_integers ? v.q[error_bounded_block_values - 1] : 0;
      group.sync();
      std::int32_t before = 0;
      if (is_integers) before = k == 0 ? v.q[0] : shared->last[k - 1];
      if (k == 0) store_aligned(chunk, 0, before);
      error_bounded_shape shape{};
      error_bounded_mode mode{0, 0};
      bool fits = true;
      if (is_integers) {
        shape = shape_of_block(v.q, before);
        mode = best_mode(shape, here);
        fits = shape.plain < range.beyond;
      } else if (v.is == state::words) {
        mode = {error_bounded_words_mode, static_cast<std::uint32_t>(4 * here)};
        fits = range.has(grid, v);
      }
      auto const bytes = group.running_sum(mode.bytes);
      std::byte* const payload = payloads + bytes.before;
      payloads += bytes.all;
      if (is_here) chunk[sizeof(std::int32_t) + k] = static_cast<std::byte>(mode.byte);
      if (is_integers)
        put_block(v.q, before, here, mode, shape.nonzero, payload);
      else if (v.is == state::words)
        for (std::size_t j = 0; j < here; ++j) store(payload, j, v.word(j));

      if (fault == error_bounded_fault::none && (sums.impossible != 0 || !fits)) {
        fault = sums.impossible != 0 ? error_bounded_fault::impossible : error_bounded_fault::range;
        faulty = k;
      }
    }

    auto const bytes = static_cast<std::size_t>(payloads - chunk);
    if constexpr (Group::lanes > 1) {
      group.sync();
      copy_words(static_cast<std::size_t>(group.lane()), Group::lanes, slot, chunk, bytes);
    }

    std::uint32_t const parts =
        x ? largest_in(group, error_bounded_header::parts_of(error), 12) : 0;
    static_assert(error_bounded_header::largest_error < 1 << 12);
    std::uint64_t const additions = b ? group.sum(sums.float_additions) : 0;
    auto& mine = found[i];
    if (group.lane() == 0) {
      lengths[i] = static_cast<std::uint32_t>(bytes);
      mine.error = parts;
      mine.float_additions = static_cast<std::uint32_t>(additions);
    }
    bool const is_faulty = fault != error_bounded_fault::none;
    if (!group.any(is_faulty)) {
      if (group.lane() == 0) mine.fault = error_bounded_fault::none;
      return;
    }
    auto const left = static_cast<std::uint32_t>(error_bounded_most_blocks - faulty);
    if (largest_in(group, is_faulty ? left : 0, 8) != left) return;
    mine.fault = fault;
    mine.impossible = sums.impossible;
  }

 private:
  HCOMP_HD void quantize(float const* from, std::size_t n, error_bounded_values& v,
                         double& error) const {
    float block[error_bounded_block_values];
    read_block(from, n, block);
    v.is = error_bounded_values::state::integers;
    if (!quantize_block(grid, block, v.q, error)) keep_floats(grid, block, v, error);
  }
};

/// What became of a stream.
struct error_bounded_outcome {
  std::uint64_t bytes;
  error_bounded_fault fault;
  std::uint32_t weights[2];  ///< of what was summed
  std::int64_t impossible;

  /// @param ranks  that the bound is divided by
  /// @throws wire_error  it could not be made
  std::size_t checked(error_bounded_grid const& grid, std::uint32_t ranks) const {
    switch (fault) {
      case error_bounded_fault::none: break;
      case error_bounded_fault::impossible: error_bounded_impossible(impossible);
      case error_bounded_fault::range: error_bounded_range(grid, weights[0] + weights[1]).refuse();
      case error_bounded_fault::ranks:
        error_bounded_header::refuse_ranks(weights[0], weights[1], ranks);
    }
    return static_cast<std::size_t>(bytes);
  }
};

/// What is known when all chunks are in their places: the rest of the header.
struct finish_error_bounded_stream {
  bool has_x;
  std::byte const *a, *b;  ///< as for encode_error_bounded_chunks
  error_bounded_found const* found;
  std::uint64_t const* bytes;
  std::byte* out;
  error_bounded_outcome* outcome;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    auto header = load_aligned<error_bounded_header>(out);
    std::uint32_t error = 0;
    std::uint64_t additions = 0;
    std::uint32_t first_fault = header.chunks;  // of the lane's
    for (auto i = static_cast<std::uint32_t>(group.lane()); i < header.chunks;
         i += static_cast<std::uint32_t>(Group::lanes)) {
      auto const& one = found[i];
      if (one.error > error) error = one.error;
      additions += one.float_additions;
      if (one.fault != error_bounded_fault::none && i < first_fault) first_fault = i;
    }
    error = largest_in(group, error, 12);
    additions = group.sum(additions);
    std::uint32_t const after = largest_in(group, header.chunks - first_fault, 18);
    static_assert(error_bounded_header::max_chunks < 1 << 18);
    group.sync();  // all have read the header
    if (group.lane() != 0) return;

    std::uint32_t weights[2] = {0, 0};
    header.weight = has_x ? 1 : 0;
    header.error = error;
    header.float_additions = additions;
    int next = 0;
    for (int i = 0; i < 2; ++i) {
      std::byte const* const in = i == 0 ? a : b;
      if (!in) continue;
      auto const summand = load_aligned<error_bounded_header>(in);
      weights[next++] = summand.weight;
      header.weight += summand.weight;
      header.error += summand.error;
      header.float_additions += summand.float_additions;
    }
    if (has_x) weights[next] = 1;
    store_aligned(out, 0, header);

    error_bounded_outcome made{*bytes, error_bounded_fault::none, {weights[0], weights[1]}, 0};
    if (after != 0) {
      made.fault = found[header.chunks - after].fault;
      made.impossible = found[header.chunks - after].impossible;
    }
    if (header.weight > header.ranks) made.fault = error_bounded_fault::ranks;
    *outcome = made;
  }
};

/// out = what a sound stream holds; plus `addend`, where there is one, which may be `out`; divided,
/// unless that would be by 0.
struct decode_error_bounded_chunks {
  error_bounded_grid grid;
  std::size_t values;
  std::byte const* in;
  float const* addend;
  float divided_by;
  float* out;

  static constexpr std::size_t scratch_bytes() { return error_bounded_scratch(1); }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    for_blocks(group, *this, i, [&](std::size_t first, std::size_t n, float* block) {
      if (addend) {
        float addends[error_bounded_block_values];
        read_block(addend + first, n, addends);
        for (std::size_t j = 0; j < error_bounded_block_values; ++j)
          block[j] = same_bits<float>(bits_of_sum(addends[j] + block[j]));
      }
      if (divided_by != 0)
        for (std::size_t j = 0; j < error_bounded_block_values; ++j)
          block[j] = divided(block[j], divided_by);
      write_block(block, n, out + first);
    });
  }

  /// f(first, n, values) for the lane's blocks of chunk i.
  template <class Group, class Work, class F>
  HCOMP_HD static void for_blocks(Group group, Work const& work, std::size_t i, F const& f) {
    error_bounded_sharing<Group> shared(group);
    error_bounded_lane_reader<Group> reader;
    reader.open(group, work.in, i, work.values, shared->first, shared.chunk(0));
    std::size_t const n = error_bounded_header::values_of(i, work.values);
    for (std::size_t begin = 0; begin < error_bounded_blocks(n); begin += Group::lanes) {
      std::size_t const k = begin + static_cast<std::size_t>(group.lane());
      error_bounded_values v;
      reader.take(group, k, v);
      if (k >= error_bounded_blocks(n)) continue;
      float block[error_bounded_block_values];
      for (std::size_t j = 0; j < error_bounded_block_values; ++j)
        block[j] = v.is == error_bounded_values::state::zeros ? 0.0f
                   : v.is == error_bounded_values::state::integers
                       ? error_bounded_float(work.grid, v.q[j])
                       : error_bounded_value(work.grid, v.word(j));
      f(i * error_bounded_chunk_values + k * error_bounded_block_values,
        error_bounded_values_of_block(k, n), block);
    }
  }
};

/// For every chunk of a sound stream the 64 values, a bit for each, among which there is NaN or
/// infinity.
struct find_nonfinite_error_bounded {
  error_bounded_grid grid;
  std::size_t values;
  std::byte const* in;
  std::uint64_t* found;

  static constexpr std::size_t scratch_bytes() { return error_bounded_scratch(1); }

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::uint64_t mine[2] = {0, 0};  // a bit for every even block, and for every odd one
    decode_error_bounded_chunks::for_blocks(
        group, *this, i, [&](std::size_t first, std::size_t n, float const* block) {
          bool finite = true;
          for (std::size_t j = 0; j < n; ++j) finite &= is_finite(block[j]);
          std::size_t const k = first % error_bounded_chunk_values / error_bounded_block_values;
          if (!finite) mine[k % 2] |= std::uint64_t{1} << k / 2;
        });
    // every bit is one lane's alone
    std::uint64_t const all = group.sum(mine[0]) | group.sum(mine[1]);
    if (group.lane() == 0) found[i] = all;
  }
};

}  // namespace hcomp::detail
