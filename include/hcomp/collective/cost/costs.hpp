#pragma once
/// @file
/// What a link and a codec cost: what the cost model starts from, measured or filled in.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
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

/// What moving bytes between two ranks costs, if every rank sends and receives at the same time.
///
/// A message of n bytes keeps its sender's link busy for seconds_between_messages + n *
/// seconds_per_byte and arrives seconds_per_message after that. MPI libraries ask the receiver
/// before they send long messages: one of more than eager_bytes leaves seconds_of_rendezvous later,
/// while others may have the link. Source: R. W. Hockney, Parallel Computing 20 (1994) 389-398
/// (alpha and beta); the gap after D. Culler et al., LogP, PPoPP 1993.
struct link_cost {
  double seconds_per_message = 0;       ///< alpha: latency
  double seconds_per_byte = 0;          ///< beta: 1 / bandwidth
  double seconds_between_messages = 0;  ///< gap: what each of many messages at once adds
  double seconds_of_rendezvous = 0;     ///< what a long message waits before it leaves
  std::uint64_t eager_bytes = 0;        ///< of the longest message that does not
};

/// What a codec costs on one rank, and the size of its code.
struct codec_cost {
  double encode = 0;   ///< seconds per value of the vector
  double merge = 0;    ///< seconds per value received and merged
  double decode = 0;   ///< seconds per value of the vector
  double call = 0;     ///< seconds that each use of the executor takes besides
  double measure = 0;  ///< Calibrated: seconds per value to find what ranks agree on
  double pack = 0;  ///< algorithm `sampled`: seconds per value and rank to select, of so many ranks
  double unpack = 0;      ///< and to put back
  double narrow_one = 0;  ///< Narrowable: seconds per value of one rank
  double narrow = 0;      ///< and per value of a sum
  double widen_one = 0;   ///< and back
  double widen = 0;
  int lane_bits = 0;  ///< of a value in memory; 0: blocks travel as they are
  int one_bits = 0;   ///< of one rank's value on its way
  int sum_step = 0;   ///< a sum of n ranks has bit_width(n * sum_step) bits there
  int sum_bits = 0;   ///< but at most so many; 0: as many as it needs
  algorithm_set algorithms = algorithm_set::merging();  ///< that it can be summed by
  std::size_t block_values = 1;                         ///< of a full block
  std::size_t block_bytes = 4;                          ///< of a full block, its header included
  std::size_t header_bytes = 0;                         ///< of these
  std::size_t block_unit = 1;                           ///< as in block_size
  std::size_t statistics_bytes = 0;  ///< Calibrated: of a full block, which the ranks agree on
  std::size_t value_bytes = 4;       ///< of the vector

  double bytes_per_value() const {
    return static_cast<double>(block_bytes) / static_cast<double>(block_values);
  }
  /// Bits of a value on its way in the sum of `ranks` ranks; 0 if blocks travel as they are.
  int bits_of(int ranks) const {
    if (lane_bits == 0 || ranks == 1) return one_bits;
    auto const largest = static_cast<std::uint64_t>(ranks) * static_cast<unsigned>(sum_step);
    return std::min(sum_bits > 0 ? sum_bits : lane_bits, detail::bit_length(largest));
  }
  /// The layout as it travels with such a sum.
  encoded_layout travelling(encoded_layout layout, int ranks) const {
    auto const less = static_cast<std::size_t>(lane_bits - bits_of(ranks));
    auto const last = layout.blocks() > 0 ? layout.values_in(layout.blocks() - 1) : 0;
    layout.block_bytes -= layout.block_values * less / 8;
    layout.last_block_bytes -= static_cast<std::size_t>(last) * less / 8;
    return layout;
  }
  /// The costs of blocks that travel as they are: plan_options::narrow is off.
  codec_cost wide() const {
    codec_cost cost = *this;
    cost.lane_bits = cost.one_bits = 0;
    return cost;
  }
  /// The code of `values` values that `ranks` ranks share, as layout_of would have it; blocks that
  /// are not full have their share of the payload.
  encoded_layout layout(std::size_t values, int ranks = 1) const {
    std::size_t const block =
        shared_block_values(values, ranks, {block_values, block_bytes, header_bytes, block_unit});
    auto const bytes_of = [&](std::size_t n) {
      return header_bytes + ((block_bytes - header_bytes) * n + block_values - 1) / block_values;
    };
    return {values, block, bytes_of(block), bytes_of(values == 0 ? 0 : (values - 1) % block + 1)};
  }
};

/// The size of `codec`'s code and no costs in time: they are measured (see measure_cost.hpp) or
/// filled in.
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

/// What hierarchical sums cost besides, on hosts that have equally many ranks each.
struct node_cost {
  int ranks = 1;           ///< of a host
  link_cost between = {};  ///< of every rank to its peer on another host, all at the same time
  double inside = 0;  ///< seconds per value of the vector: adding in a host, and giving all the sum
  double call = 0;    ///< seconds that it takes besides
};

/// The costs of one link and of some codecs, on which a choice is made.
struct cost_table {
  struct row {
    std::string codec;  ///< its name
    codec_cost cost;
  };
  link_cost link = {};
  std::vector<row> codecs = {};
  std::optional<node_cost> nodes = {};  ///< none: nobody knows, and no sum is hierarchical

  /// @throws std::invalid_argument  no costs of that codec; the text lists those that there are
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

/// The figures of a codec_cost that are seconds.
inline constexpr std::array codec_times{
    &codec_cost::encode,  &codec_cost::merge,     &codec_cost::decode, &codec_cost::call,
    &codec_cost::measure, &codec_cost::pack,      &codec_cost::unpack, &codec_cost::narrow_one,
    &codec_cost::narrow,  &codec_cost::widen_one, &codec_cost::widen};

/// @throws std::invalid_argument  a cost that is negative or not finite, blocks that cannot be
inline void require_costs(char const* who, codec_cost const& codec, link_cost const& link) {
  auto const require = [&](double seconds, char const* what) {
    if (!(seconds >= 0) || !std::isfinite(seconds))
      throw std::invalid_argument(error_text({who, ": ", what, " is ", to_text(seconds),
                                              " seconds; it must be finite and at least 0"}));
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
