#pragma once
/// @file
/// The cost of an all-reduce: hops, bytes and seconds, from the costs of a link and a codec.
/// Arithmetic only, no communication.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/cost/detail/rank_clock.hpp>
#include <hcomp/collective/cost/detail/selection_clock.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// Expected seconds of an all-reduce, by phase.
struct prediction {
  double agree = 0;           ///< comparing arguments, uniting statistics of Calibrated codecs
  double encode = 0;          ///< and selecting, with algorithm `sampled`; 0: in the next phases
  double reduce_scatter = 0;  ///< encoding, moving and merging; 0 with algorithm `sampled`
  double all_gather = 0;      ///< with algorithm `sampled`: rest of transfer, and scatter
  double decode = 0;          ///< 0 if all_gather includes it
  double inside = 0;          ///< reduction inside nodes, if the algorithm is hierarchical

  double seconds() const { return agree + encode + reduce_scatter + all_gather + decode + inside; }
};

namespace detail {

inline void require_ranks(char const* who, int ranks) {
  if (ranks < 1)
    throw std::invalid_argument(error_text({who, ": ", ranks, " ranks, at least 1 is needed"}));
}
/// ceil(log2 ranks): the steps of an agreement.
inline int agreement_steps(int ranks) { return bit_length(static_cast<unsigned>(ranks) - 1); }

/// floor(log2 ranks): the exchanges of recursive doubling.
inline int recursive_doubling_steps(int ranks) {
  return bit_length(static_cast<unsigned>(ranks)) - 1;
}

}  // namespace detail

/// Hops of the schedule, without agreements.
///
/// | algorithm | hops |
/// |---|---|
/// | ring | 2 (P - 1) |
/// | torus of R rows and C columns | 2 (R + C - 2) |
/// | direct | 2 (P - 1); those of each half overlap |
/// | recursive_doubling | floor(log2 P), and two more if P is no power of two |
/// | sampled | 1 |
/// | aggregator | 2 (P - 1), all of them rank 0's |
///
/// @throws std::invalid_argument  ranks < 1, or a torus that does not fit them
inline int hops_of(algorithm const& how, int ranks) {
  detail::require_ranks("hops_of", ranks);
  if (!how.merges()) return ranks > 1 ? 1 : 0;
  auto const s = detail::longest_schedule(how, ranks);
  return static_cast<int>(s.reduce.size() + (s.reduces_all ? 0 : s.gather.size()));
}

namespace detail {

/// @param layout_of_sum  (ranks) -> the layout on the wire of a partial sum of `ranks` ranks
template <class LayoutOfSum>
std::uint64_t bytes_sent(algorithm const& how, int rank, int ranks, std::size_t segment_bytes,
                         LayoutOfSum const& layout_of_sum) {
  require_ranks("bytes_sent_per_rank", ranks);
  if (rank < 0 || rank >= ranks)
    throw std::invalid_argument(
        error_text({"bytes_sent_per_rank: rank ", rank, " of ", ranks, " ranks"}));
  if (!how.merges()) {
    encoded_layout const layout = layout_of_sum(1);
    std::size_t const slice = layout.blocks_per(segment_bytes),
                      slices = (layout.blocks() + slice - 1) / slice;
    double const message = static_cast<double>(slices * block_header_bytes) +
                           shard_bytes(static_cast<double>(layout.values),
                                       static_cast<double>(layout.blocks()), ranks);
    return static_cast<std::uint64_t>(std::llround(message * (ranks - 1)));
  }
  auto const s = make_schedule(how, rank, ranks);
  std::uint64_t bytes = 0;
  auto const add = [&](std::vector<hop> const& hops) {
    for (hop const& h : hops) {
      encoded_layout const layout = layout_of_sum(h.ranks);
      bytes += layout.bytes(s.blocks_of(h.send, layout.blocks()));
    }
  };
  add(s.reduce);
  if (!s.reduces_all) add(s.gather);
  return bytes;
}

}  // namespace detail

/// Bytes of encoded data that rank `rank` sends, headers included: the count of its transport if
/// plan_options::check is off. With check, add agreement_bytes_per_rank(); with a Calibrated codec,
/// statistics_bytes_per_rank(); if x is decoded on arrival, a second agreement of ceil(log2 P)
/// records of 24 bytes.
///
/// Exact for weights of 1. Exception: with algorithm `sampled` the length of messages depends on
/// the draws, and this is the mean over the draws.
/// @param options  of the plan; `algorithm` selects the schedule
/// @throws std::invalid_argument  ranks < 1, no such rank, a torus that does not fit the ranks
///
/// Cost: one operation per hop.
template <Compressor C>
std::uint64_t bytes_sent_per_rank(C const& codec, std::size_t values, int rank, int ranks,
                                  plan_options const& options = {}) {
  auto const layout = layout_of(codec, values, options.algorithm.sharers(ranks));
  return detail::bytes_sent(options.algorithm, rank, ranks, options.segment_bytes, [&](int summed) {
    return options.narrow ? travelling_layout(codec, layout, static_cast<std::uint32_t>(summed))
                          : layout;
  });
}

/// The same from a codec's costs. The size of the last block may be off by a few bytes.
inline std::uint64_t bytes_sent_per_rank(codec_cost const& codec, std::size_t values, int rank,
                                         int ranks, plan_options const& options = {}) {
  auto const layout = codec.layout(values, options.algorithm.sharers(ranks));
  return detail::bytes_sent(options.algorithm, rank, ranks, options.segment_bytes, [&](int summed) {
    return options.narrow ? codec.travelling(layout, summed) : layout;
  });
}

/// Bytes that each rank sends to unite the statistics of a Calibrated codec; otherwise 0.
inline std::uint64_t statistics_bytes_per_rank(codec_cost const& codec, std::size_t values,
                                               int ranks) {
  detail::require_ranks("statistics_bytes_per_rank", ranks);
  double const blocks = static_cast<double>(values) / static_cast<double>(codec.block_values);
  return static_cast<std::uint64_t>(detail::agreement_steps(ranks)) *
         static_cast<std::uint64_t>(
             std::llround(blocks * static_cast<double>(codec.statistics_bytes)));
}

/// Bytes that each rank sends to compare the ranks' arguments.
inline std::uint64_t agreement_bytes_per_rank(int ranks) {
  detail::require_ranks("agreement_bytes_per_rank", ranks);
  return static_cast<std::uint64_t>(detail::agreement_steps(ranks)) *
         sizeof(detail::sealed<detail::call_summary>);
}

/// Expected time of an all-reduce of `values` values, if all ranks and links are equal.
///
/// Walks the schedule of one rank segment by segment, with the loop of the plans and a clock
/// instead of messages. A link carries one message at a time. A rank encodes what it needs next and
/// merges one segment while other segments travel. A ring forwards a segment as soon as it is
/// merged.
///
/// Notation: P ranks; the largest part has c bytes; segments of s bytes take m to encode and merge;
/// alpha and beta of the link. One half of a ring takes about the largest of three times:
/// - a link that is never idle: (P - 1) c beta
/// - merging that never waits: the same with m for s beta
/// - one segment from rank to rank, and the rest of its part:
///   (P - 1) (alpha + s beta + m) + (c - s) beta
///
/// In the all-gather m is the time of decoding if x is long enough to be decoded on arrival.
/// Otherwise m is 0 and values * decode follow.
///
/// The torus adds the rings of its rows and columns. direct sends all P - 1 parts at once in each
/// half. recursive_doubling makes hops of the complete encoded vector. With aggregator the link of
/// rank 0 carries P - 1 encoded vectors in each direction.
///
/// sampled works on slices of the vector. It selects all, which takes values * (encode + P pack),
/// while P - 1 messages of every slice follow each other on the link. It then scatters those that
/// have arrived, values * P unpack, and decodes.
///
/// With `check`, ceil(log2 P) messages precede, and the same number before an all-gather that
/// decodes. Narrowable blocks are narrowed before and widened after every hop. A message of more
/// than link.eager_bytes leaves only after a rendezvous with its receiver.
///
/// @param codec    blocks are narrow on the wire if its costs have bits for it; not with
///                 codec.wide()
/// @param options  of the plan; segment_bytes, check and decode_on_arrival_bytes matter
/// @throws std::invalid_argument  ranks < 1, a torus that does not fit them, a cost that is
///                                negative or not finite
///
/// Cost: some 100 ns per hop and segment of one rank.
/// Source: the model of R. Thakur, R. Rabenseifner and W. Gropp, Int. J. High Perform. Comput.
/// Appl. 19 (2005) 49-66, with segments.
inline prediction predict(algorithm const& how, int ranks, std::size_t values,
                          codec_cost const& codec, link_cost const& link,
                          plan_options const& options = {}) {
  detail::require_ranks("predict", ranks);
  detail::require_costs("predict", codec, link);
  auto const layout = codec.layout(values, how.sharers(ranks));
  auto const all = static_cast<double>(values);
  prediction p;
  auto const agreement = [&](double bytes) {
    return detail::agreement_steps(ranks) *
               (link.seconds_per_message + link.seconds_between_messages) +
           bytes * link.seconds_per_byte;
  };
  if (options.check) p.agree = agreement(static_cast<double>(agreement_bytes_per_rank(ranks)));
  if (codec.statistics_bytes > 0)
    p.agree += codec.call + all * codec.measure + detail::agreement_steps(ranks) * codec.call +
               agreement(static_cast<double>(statistics_bytes_per_rank(codec, values, ranks)));
  p.decode = codec.call + all * codec.decode;
  if (!how.merges()) {
    detail::selection_clock clock(codec, link, layout, options.segment_bytes);
    p.encode = clock.pack(ranks);
    p.all_gather = clock.unpack(ranks) - p.encode;
    return p;
  }

  auto const walked = detail::longest_schedule(how, ranks);
  detail::rank_clock clock(codec, link, layout, walked, options.segment_bytes);
  clock.reduce();
  p.reduce_scatter = clock.now();
  if (walked.reduces_all) return p;
  bool const decodes = ranks > 1 && values * codec.value_bytes >= options.decode_on_arrival_bytes;
  if (decodes) {
    p.decode = 0;
    clock.work(agreement(static_cast<double>(detail::agreement_steps(ranks)) *
                         sizeof(detail::sealed<detail::findings_summary>)));
  }
  clock.gather(decodes);
  p.all_gather = clock.now() - p.reduce_scatter;
  return p;
}

/// The same for a hierarchical all-reduce: the time of `ranks` / nodes.ranks nodes for a share of
/// the values, and the time inside the nodes. With one node only the latter, since nothing is
/// encoded there.
/// @param how  between nodes; a torus consists of nodes
/// @throws std::invalid_argument  nodes.ranks does not divide the ranks, or as predict
inline prediction predict_by_nodes(algorithm const& how, int ranks, std::size_t values,
                                   codec_cost const& codec, node_cost const& nodes,
                                   plan_options const& options = {}) {
  detail::require_ranks("predict_by_nodes", ranks);
  if (nodes.ranks < 1 || ranks % nodes.ranks != 0)
    throw std::invalid_argument(detail::error_text(
        {"predict_by_nodes: nodes of ", nodes.ranks, " ranks, there are ", ranks, " ranks"}));
  prediction p;
  auto const each = static_cast<std::size_t>(nodes.ranks);
  if (ranks > nodes.ranks)
    p = predict(how.between_nodes(), ranks / nodes.ranks, (values + each - 1) / each, codec,
                nodes.between, options);
  p.inside = nodes.call + static_cast<double>(values) * nodes.inside;
  return p;
}

/// predict(...).seconds()
inline double predicted_seconds(algorithm const& how, int ranks, std::size_t values,
                                codec_cost const& codec, link_cost const& link,
                                plan_options const& options = {}) {
  return predict(how, ranks, values, codec, link, options).seconds();
}

/// Expected time of an MPI library's own all-reduce of `bytes` bytes: the fastest of recursive
/// doubling, Rabenseifner's algorithm and the ring, without segments.
///
/// With n bytes, gamma seconds to add a byte, and lg P = log2 of the largest power of two up to P:
/// lg P (alpha + n beta + n gamma); 2 lg P alpha + (P-1)/P n (2 beta + gamma); and the same with P
/// - 1 for lg P. If P is no power of two, the first two take two more steps of n bytes.
/// @param add_seconds_per_byte  gamma: codec_cost::merge of `identity` per byte of a value
///
/// Source: Thakur, Rabenseifner and Gropp, Int. J. High Perform. Comput. Appl. 19 (2005) 49-66.
inline double library_seconds(int ranks, double bytes, double add_seconds_per_byte,
                              link_cost const& link) {
  detail::require_ranks("library_seconds", ranks);
  if (ranks == 1) return 0;
  double const alpha = link.seconds_per_message + link.seconds_between_messages,
               transfer = bytes * link.seconds_per_byte, add = bytes * add_seconds_per_byte,
               share = static_cast<double>(ranks - 1) / ranks;
  int const steps = detail::recursive_doubling_steps(ranks);
  bool const power_of_two = detail::is_power_of_two(ranks);
  double const fold = power_of_two ? 0 : 2 * (alpha + transfer) + add;
  double const recursive_doubling = fold + steps * (alpha + transfer + add);
  double const parts = 1 - std::exp2(-steps);
  double const rabenseifner = fold + 2 * steps * alpha + parts * (2 * transfer + add);
  double const ring = 2 * (ranks - 1) * alpha + share * (2 * transfer + add);
  return std::min({recursive_doubling, rabenseifner, ring});
}

}  // namespace hcomp
