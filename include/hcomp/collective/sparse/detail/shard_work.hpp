#pragma once
/// @file
/// The interface of reductions by shards for engines, like code_work and value_work for blocks.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/op/detail/shard_runs.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>

namespace hcomp::detail {

/// A part of a vector: words of its index, and their values.
struct sparse_shard {
  block_range words;
  std::size_t first = 0;  ///< first value
  std::size_t count = 0;  ///< number of values
};

/// The owner of each part of a vector.
struct shard_layout {
  std::size_t values;
  std::size_t ranks, rank;

  std::size_t words() const { return sparse::index_words(values); }
  sparse_shard of(std::size_t owner) const {
    std::size_t const begin = first_word_of_shard(words(), ranks, owner),
                      end = first_word_of_shard(words(), ranks, owner + 1),
                      first = std::min(begin * 64, values);
    return {{begin, end - begin}, first, std::min(end * 64, values) - first};
  }
  sparse_shard mine() const { return of(rank); }
};

/// A bit per exponent of a float, as after an index.
using exponent_bits = std::array<std::uint64_t, sparse::exponent_words>;

/// Work on the shards of one vector at a time, for a codec and an executor. Values are in the
/// executor's memory, messages in host memory from `allocate`.
///
/// Order of calls: start; then, to reduce, mark if lanes need units, set_units, begin_parts,
/// prepare_part of all other shards, write_part of the same, end_parts, take_part of received
/// parts, add_up. Then read_sums; or write_sums, take_sums in the order of the owners, and write.
/// Without reduction: write_values and read_values. x must be unchanged until read_sums, write or
/// read_values.
class shard_work {
 public:
  using sum_message = shard_message<float>;  ///< from owners

  virtual ~shard_work() = default;

  virtual any_buffer allocate(std::size_t bytes) = 0;
  /// Largest size of a part of `values` values.
  virtual std::size_t most_bytes_of_part(std::size_t values) const = 0;

  /// Ends the use of the last call's messages.
  virtual void start() = 0;

  /// False: lanes are the values.
  virtual bool needs_units() const = 0;
  /// Marks nonzero values of x; returns the exponents that occur.
  virtual exponent_bits mark(std::span<float const> x) = 0;
  /// Sets the meaning of lanes in this call.
  /// @param exponents  of all ranks, if units are needed
  /// @throws nonfinite_error  by the plan's policy, and where lanes cannot carry NaN and infinity
  virtual void set_units(exponent_bits const& exponents, reduce_op op) = 0;

  virtual void begin_parts(std::span<float const> x) = 0;
  virtual void prepare_part(std::size_t owner, std::span<float const> x, block_origin const& origin,
                            std::byte* out) = 0;
  /// Writes this rank's part of an owner's shard as a message; returns its size.
  virtual std::size_t write_part(std::size_t owner, std::span<float const> x,
                                 block_origin const& origin, std::byte* out) = 0;
  /// Called after all other ranks' parts were sent.
  virtual void end_parts(std::span<float const> x) = 0;
  /// Keeps the message until add_up. Returns its fault.
  virtual block_fault take_part(std::size_t sender, std::span<std::byte const> message,
                                block_origin const& origin) = 0;
  /// Adds all ranks' parts of this rank's shard, its own included, in rank order.
  virtual void add_up(std::span<float const> x) = 0;
  /// NaN and infinity in the reduced shard, by words of the shard. Empty if lanes are not floats:
  /// then inputs are known to be finite.
  virtual nonfinite_words nonfinite_sums() = 0;
  virtual void read_sums(std::span<float> x) = 0;

  /// Writes the reduced shard as a message; returns its size.
  virtual std::size_t write_sums(block_origin const& origin, std::byte* out) = 0;
  /// Keeps the message until `write`. Reports a fault if marks of this rank are missing.
  virtual sum_message::content take_sums(std::size_t owner, std::span<std::byte const> message,
                                         block_origin const& origin) = 0;
  /// Writes the reduced values into x, which must be unchanged since it was marked.
  virtual void write(std::span<float> x) = 0;

  /// Writes this rank's uncompressed shard of x as a message; returns its size.
  virtual std::size_t write_values(std::span<float const> x, block_origin const& origin,
                                   std::byte* out) = 0;
  /// NaN and infinity in this shard, by words of the shard.
  virtual nonfinite_words nonfinite_values(std::span<float const> x) = 0;
  virtual void read_values(std::size_t owner, std::byte const* message, std::span<float> x) = 0;
};

}  // namespace hcomp::detail
