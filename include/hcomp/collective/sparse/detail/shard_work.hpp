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
#include <hcomp/codec/sparse/detail/packing.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/sparse/detail/shard_message.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/detail/shard_runs.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <optional>
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
inline shard_layout shards_of(std::size_t values, any_transport const& transport) {
  return {values, static_cast<std::size_t>(transport.size()),
          static_cast<std::size_t>(transport.rank())};
}

/// A bit per exponent of a float, as after an index.
using exponent_bits = std::array<std::uint64_t, sparse::exponent_words>;

/// A message whose last bytes may be copied from a device until shard_work::wait returns.
struct encoded_shard {
  std::size_t bytes = 0;
  std::array<std::uint64_t, 2> copied{};  ///< an executor's mark
};

/// Work on the shards of one vector at a time, for a codec and an executor. Values are in the
/// executor's memory, messages in host memory from `allocate`, without their checksums.
///
/// A reduction has four steps: encode_part for every other owner, add_part for every rank,
/// encode_sums for this rank's shard and decode_sums for every shard. `start` is called before
/// them, `write` after them. A reduce-scatter ends after add_part. An all-gather adds only this
/// rank's part, which is the values of x.
///
/// `unit`: the largest exponent of all ranks, unless lanes are floats.
class shard_work {
 public:
  using sum_message = shard_message<float>;  ///< from owners

  virtual any_buffer allocate(std::size_t bytes) = 0;

  /// Begins a call, and ends the use of the last call's messages.
  /// @param x  unchanged until `write`
  /// @returns  the exponents that occur in x, if ranks must agree on the unit of lanes
  virtual std::optional<exponent_bits> start(operation what, std::span<float> x, reduce_op op) = 0;

  /// Writes this rank's part of an owner's shard. Other parts may be encoded before `wait`.
  virtual encoded_shard encode_part(std::size_t owner, std::uint32_t unit,
                                    block_origin const& origin, std::byte* out) = 0;
  /// Returns when all bytes of the message are written.
  virtual void wait(encoded_shard const& message) = 0;

  /// Adds a rank's part to this rank's shard. The sum is in rank order, not in that of the calls.
  /// Returns the part's fault; after the last part NaN and infinity, where they are errors.
  /// @param message  valid until the next `start`; none for this rank's own part
  virtual encoded_findings add_part(std::size_t rank, std::uint32_t unit,
                                    std::span<std::byte const> message,
                                    block_origin const& origin) = 0;

  /// Writes the reduced shard as a message.
  virtual encoded_shard encode_sums(std::uint32_t unit, block_origin const& origin,
                                    std::byte* out) = 0;
  /// Decodes a reduced shard into memory beside x. Reports a fault if marks of this rank are
  /// missing.
  /// @param message  valid until the next `start`
  virtual sum_message::content decode_sums(std::size_t owner, std::span<std::byte const> message,
                                           block_origin const& origin) = 0;
  /// Writes the decoded shards into x; after a reduce-scatter this rank's shard.
  virtual void write(std::uint32_t unit) = 0;

 protected:
  ~shard_work() = default;
};

}  // namespace hcomp::detail
