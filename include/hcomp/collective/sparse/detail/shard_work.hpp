#pragma once
/// @file
/// The arithmetic of sums by shards as an engine sees it: what code_work and value_work are for
/// blocks.

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

/// Part of a vector: words of its index, and the values they stand for.
struct sparse_shard {
  block_range words;
  std::size_t first = 0;  ///< value
  std::size_t count = 0;  ///< of values
};

/// Who owns what of a vector.
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

/// A bit per exponent of a float, as behind an index.
using exponent_bits = std::array<std::uint64_t, sparse::exponent_words>;

/// Work on the shards of one vector at a time, of one codec and executor. Values are in the
/// executor's memory, messages in that of `allocate`, which is the host's. In this order: start;
/// then, to add up, mark where lanes need units, set_units, begin_parts, prepare_part of all other
/// shards, write_part of the same, end_parts, take_part of what came, add_up, and read_sums, or
/// write_sums, take_sums in the order of the owners, and write. Otherwise write_values and
/// read_values. x stays as it is until read_sums, write or read_values.
class shard_work {
 public:
  using sum_message = shard_message<float>;  ///< from owners

  virtual ~shard_work() = default;

  virtual any_buffer allocate(std::size_t bytes) = 0;
  /// Of a message to the owner of so many values.
  virtual std::size_t most_bytes_of_part(std::size_t values) const = 0;

  /// What the last call has given to messages, or taken from them, is needed no more.
  virtual void start() = 0;

  /// False: lanes are the values as they are.
  virtual bool needs_units() const = 0;
  /// Marks what is not zero in x; returns which exponents there are.
  virtual exponent_bits mark(std::span<float const> x) = 0;
  /// What lanes are in this call.
  /// @param exponents  of all ranks, if units are needed
  /// @throws nonfinite_error  by the plan's policy, and where lanes cannot carry NaN and infinity
  virtual void set_units(exponent_bits const& exponents, reduce_op result) = 0;

  virtual void begin_parts(std::span<float const> x) = 0;
  virtual void prepare_part(std::size_t owner, std::span<float const> x, block_origin const& origin,
                            std::byte* out) = 0;
  /// What this rank has of an owner's shard, as a message; returns its bytes.
  virtual std::size_t write_part(std::size_t owner, std::span<float const> x,
                                 block_origin const& origin, std::byte* out) = 0;
  /// When all others' are sent.
  virtual void end_parts(std::span<float const> x) = 0;
  /// Keeps the message until they are added up. Returns what is wrong with it.
  virtual block_fault take_part(std::size_t sender, std::span<std::byte const> message,
                                block_origin const& origin) = 0;
  /// All ranks' parts of this rank's shard, its own among the others, in the order of the ranks.
  virtual void add_up(std::span<float const> x) = 0;
  /// NaN and infinity in the sums, by words of the shard. None if lanes are no floats: then inputs
  /// are known to be finite.
  virtual nonfinite_words nonfinite_sums() = 0;
  virtual void read_sums(std::span<float> x) = 0;

  /// The sums as a message; returns its bytes.
  virtual std::size_t write_sums(block_origin const& origin, std::byte* out) = 0;
  /// Keeps the message until `write`. A sum without what this rank has marked is wrong.
  virtual sum_message::content take_sums(std::size_t owner, std::span<std::byte const> message,
                                         block_origin const& origin) = 0;
  /// Into x, which is as it was when it was marked.
  virtual void write(std::span<float> x) = 0;

  /// This rank's shard of x as it is.
  virtual std::size_t write_values(std::span<float const> x, block_origin const& origin,
                                   std::byte* out) = 0;
  /// Of that, by words of the shard.
  virtual nonfinite_words nonfinite_values(std::span<float const> x) = 0;
  virtual void read_values(std::size_t owner, std::byte const* message, std::span<float> x) = 0;
};

}  // namespace hcomp::detail
