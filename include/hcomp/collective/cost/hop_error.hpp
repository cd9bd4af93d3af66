#pragma once
/// @file
/// The error of all-reduces that round on every hop, by schedule. Arithmetic only.

#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/schedule/schedule.hpp>

namespace hcomp {

/// The variance that rounding on every hop adds to a coordinate of the sum, in steps of the grid,
/// for weights of 1. Every partial sum is rounded once when it is sent, and the result once,
/// equally on all ranks. All roundings are independent.
///
/// For P ranks, with v(k) = codec.hop_variance(k):
/// - ring: v(2) + v(3) + ... + v(P)
/// - direct, aggregator: v(P)
/// - recursive_doubling, P = 2^m: P/2 v(2) + P/4 v(4) + ... + 2 v(P/2), as no rank sends the result
///
/// v(k) grows with k^2: the variance grows with P^3 for ring, with P^2 for the other algorithms.
/// @param codec  with room for all ranks
/// @throws std::invalid_argument  ranks < 1, a torus that does not fit the ranks, algorithm sampled
///
/// Cost: the schedules of all ranks.
template <HopRounding C> double hop_variance(C const& codec, algorithm const& how, int ranks) {
  detail::require_ranks("hop_variance", ranks);
  double variance = 0;
  bool passes_finished = ranks > 1;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const s = make_schedule(how, rank, ranks);
    int holders = 1;  // of the partial sum that is sent: doubles in each exchange
    for (hop const& h : s.reduce) {
      if (h.send.count > 0 && h.ranks < ranks)
        variance += codec.hop_variance(static_cast<std::uint32_t>(h.ranks)) / holders *
                    static_cast<double>(h.send.count) / s.parts;
      if (s.reduces_all && h.send.count > 0 && h.receive.count > 0) holders *= 2;
    }
    if (s.reduces_all && detail::is_power_of_two(ranks)) passes_finished = false;
  }
  return passes_finished ? variance + codec.hop_variance(static_cast<std::uint32_t>(ranks))
                         : variance;
}

/// The same as a share of the energy of a sum of independent vectors of equal norm. It adds to
/// rounding_error + truncation_error of the table.
template <HopRounding C> double hop_error(C const& codec, algorithm const& how, int ranks) {
  double const step = codec.step();
  return hop_variance(codec, how, ranks) * step * step / ranks;
}

}  // namespace hcomp
