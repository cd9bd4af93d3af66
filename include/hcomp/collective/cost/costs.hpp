#pragma once
/// @file
/// The costs of a link and a codec: inputs of the cost model, measured or filled in.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/schedule/detail/codec_algorithms.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hcomp {

/// The cost of moving bytes between two ranks, if every rank sends and receives at the same time.
///
/// A message of n bytes occupies its sender's link for seconds_between_messages + n *
/// seconds_per_byte and arrives seconds_per_message after that. MPI libraries ask the receiver
/// before they send long messages: a message of more than eager_bytes leaves seconds_of_rendezvous
/// later, while other messages may use the link.
/// Source: R. W. Hockney, Parallel Computing 20 (1994) 389-398 (alpha and beta); the gap after D.
/// Culler et al., LogP, PPoPP 1993.
struct link_cost {
  double seconds_per_message = 0;       ///< alpha: latency
  double seconds_per_byte = 0;          ///< beta: 1 / bandwidth
  double seconds_between_messages = 0;  ///< gap: additional time per message, for many at once
  double seconds_of_rendezvous = 0;     ///< time that a long message waits before it leaves
  std::uint64_t eager_bytes = 0;        ///< length of the longest message without rendezvous
};

/// The costs of a codec on one rank, and the size of its encoded vectors.
struct codec_cost {
  double encode = 0;      ///< seconds per value of the vector
  double merge = 0;       ///< seconds per value received and merged
  double decode = 0;      ///< seconds per value of the vector
  double call = 0;        ///< additional seconds per use of the executor
  double measure = 0;     ///< Calibrated: seconds per value for the statistics
  double pack = 0;        ///< algorithm `sampled`: seconds per value and rank to select
  double unpack = 0;      ///< the same to scatter
  double narrow_one = 0;  ///< Narrowable: seconds per value of one rank
  double narrow = 0;      ///< the same per value of a sum
  double widen_one = 0;   ///< seconds per value of one rank to widen
  double widen = 0;
  int lane_bits = 0;  ///< of a value in memory; 0: blocks are not narrowed
  int one_bits = 0;   ///< of one rank's value on the wire
  int sum_step = 0;   ///< a sum of n ranks has bit_width(n * sum_step) bits on the wire
  int sum_bits = 0;   ///< at most this number of bits; 0: no limit
  algorithm_set algorithms = algorithm_set::merging();  ///< algorithms of the codec
  std::size_t block_values = 1;                         ///< of a full block
  std::size_t block_bytes = 4;                          ///< of a full block, its header included
  std::size_t header_bytes = 0;                         ///< of a block's header
  std::size_t block_unit = 1;                           ///< as in block_size
  std::size_t statistics_bytes = 0;  ///< Calibrated: statistics of a full block, united over all
                                     ///< ranks
  std::size_t value_bytes = 4;       ///< of the vector

  double bytes_per_value() const {
    return static_cast<double>(block_bytes) / static_cast<double>(block_values);
  }
  /// Bits of a value on the wire in the sum of `ranks` ranks; 0 if blocks are not narrowed.
  int bits_of(int ranks) const {
    if (lane_bits == 0 || ranks == 1) return one_bits;
    auto const largest = static_cast<std::uint64_t>(ranks) * static_cast<unsigned>(sum_step);
    return std::min(sum_bits > 0 ? sum_bits : lane_bits, detail::bit_length(largest));
  }
  /// The layout of such a sum on the wire.
  encoded_layout travelling(encoded_layout layout, int ranks) const {
    auto const less = static_cast<std::size_t>(lane_bits - bits_of(ranks));
    auto const last = layout.blocks() > 0 ? layout.values_in(layout.blocks() - 1) : 0;
    layout.block_bytes -= layout.block_values * less / 8;
    layout.last_block_bytes -= static_cast<std::size_t>(last) * less / 8;
    return layout;
  }
  /// The costs without narrowing: plan_options::narrow is off.
  codec_cost wide() const {
    codec_cost cost = *this;
    cost.lane_bits = cost.one_bits = 0;
    return cost;
  }
  /// The layout of `values` values that `ranks` ranks share, like layout_of. The payload of partial
  /// blocks is proportional to their values.
  encoded_layout layout(std::size_t values, int ranks = 1) const {
    std::size_t const block =
        shared_block_values(values, ranks, {block_values, block_bytes, header_bytes, block_unit});
    auto const bytes_of = [&](std::size_t n) {
      return header_bytes + ((block_bytes - header_bytes) * n + block_values - 1) / block_values;
    };
    return {values, block, bytes_of(block), bytes_of(values == 0 ? 0 : (values - 1) % block + 1)};
  }
};

/// The size of `codec`'s encoded vectors, without times: measure them (see measure_cost.hpp) or
/// fill them in.
template <Compressor C> constexpr codec_cost size_of(C const& codec) {
  codec_cost cost;
  cost.block_values = static_cast<std::size_t>(C::block_values);
  cost.block_bytes = codec.block_bytes(C::block_values);
  cost.header_bytes = block_header_bytes;
  cost.block_unit = block_size_of(codec).unit;
  if constexpr (Calibrated<C>)
    cost.statistics_bytes = codec.statistics_in(C::block_values) * sizeof(std::uint32_t);
  if constexpr (Narrowable<C>) {
    cost.lane_bits = codec.lane_bits();
    cost.one_bits = codec.narrow_bits(1);
    cost.sum_step = codec.granularity();
    if constexpr (HopRounding<C>) cost.sum_bits = codec.hop_bits();
  }
  cost.algorithms = detail::algorithms_of<C>();
  cost.value_bytes = sizeof(typename C::value_type);
  return cost;
}

/// Additional costs of hierarchical all-reduce, on nodes with equal numbers of ranks.
struct node_cost {
  int ranks = 1;           ///< per node
  link_cost between = {};  ///< between a rank and its peer on another node, all ranks at the same
                           ///< time
  double inside = 0;  ///< seconds per value of the vector: reduction and broadcast inside a node
  double call = 0;    ///< additional seconds per call
};

/// The costs of a link and of several codecs, inputs of a choice.
struct cost_table {
  struct row {
    std::string codec;  ///< its name
    codec_cost cost;
  };
  link_cost link = {};
  std::vector<row> codecs = {};
  std::optional<node_cost> nodes = {};  ///< none: unknown, and no algorithm is hierarchical

  /// @throws std::invalid_argument  no costs of this codec; the text lists the codecs with costs
  codec_cost const& of(std::string_view codec) const {
    for (auto const& one : codecs)
      if (one.codec == codec) return one.cost;
    std::string known;
    for (auto const& one : codecs) known += (known.empty() ? "" : ", ") + one.codec;
    throw std::invalid_argument(
        detail::error_text({"there are no costs of codec '", codec,
                            "'; there are of: ", (known.empty() ? "no codec" : known)}));
  }
};

namespace detail {

/// The members of a codec_cost that are seconds.
inline constexpr std::array codec_times{
    &codec_cost::encode,  &codec_cost::merge,     &codec_cost::decode, &codec_cost::call,
    &codec_cost::measure, &codec_cost::pack,      &codec_cost::unpack, &codec_cost::narrow_one,
    &codec_cost::narrow,  &codec_cost::widen_one, &codec_cost::widen};

/// @throws std::invalid_argument  a cost that is negative or not finite, or impossible blocks
inline void require_costs(char const* who, codec_cost const& codec, link_cost const& link) {
  auto const require = [&](double seconds, char const* what) {
    if (!(seconds >= 0) || !std::isfinite(seconds))
      throw std::invalid_argument(error_text(
          {who, ": ", what, " is ", seconds, " seconds; it must be finite and at least 0"}));
  };
  require(link.seconds_per_message, "the link's cost per message");
  require(link.seconds_per_byte, "the link's cost per byte");
  require(link.seconds_between_messages, "the link's time between messages");
  require(link.seconds_of_rendezvous, "the link's rendezvous");
  require(codec.encode, "encoding a value");
  require(codec.merge, "merging a value");
  require(codec.decode, "decoding a value");
  require(codec.call, "using the executor");
  require(codec.measure, "measuring a value");
  require(codec.pack, "selecting a value for a rank");
  require(codec.unpack, "putting back a value of a rank");
  require(std::max({codec.narrow, codec.narrow_one, codec.widen, codec.widen_one}),
          "narrowing or widening a value");
  if (codec.block_values == 0 || codec.block_unit == 0 || codec.header_bytes >= codec.block_bytes)
    throw std::invalid_argument(
        error_text({who, ": blocks of ", codec.block_values, " values in ", codec.block_bytes,
                    " bytes, ", codec.header_bytes, " of them header"}));
}

}  // namespace detail
}  // namespace hcomp
