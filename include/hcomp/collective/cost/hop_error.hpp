#pragma once
/// @file
/// What sums lose that are rounded on their way, by the schedule they go by. Arithmetic only.

#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/schedule/schedule.hpp>

namespace hcomp {

/// Variance that rounding on the way adds to a coordinate of the sum, in steps of the grid, for
/// weights of 1: that of every partial sum that is sent, once for each, and of the finished one,
/// which all ranks have alike. All roundings are independent.
///
/// Of P ranks, with v(k) = codec.hop_variance(k): by ring v(2) + v(3) + ... + v(P); by direct and
/// by aggregator v(P); by recursive_doubling, of P = 2^m, P/2 v(2) + P/4 v(4) + ... + 2 v(P/2), as none of
/// them sends what is finished. v(k) grows with k^2, so the ring's grows with P^3, the others' with
/// P^2.
/// @param codec  with room for all ranks
/// @throws std::invalid_argument  ranks < 1, a torus that does not fit the ranks, algorithm sampled
/// Cost: the schedules of all ranks.
template <HopRounding C> double hop_variance(C const& codec, algorithm const& how, int ranks) {
  detail::require_ranks("hop_variance", ranks);
  double variance = 0;
  bool passes_finished = ranks > 1;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const s = make_schedule(how, rank, ranks);
    int holders = 1;  // of what is sent: after each exchange twice as many
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

/// The same as a share of the energy of a sum of independent vectors of equal norm, which loses
/// rounding_error + truncation_error of its table besides.
template <HopRounding C> double hop_error(C const& codec, algorithm const& how, int ranks) {
  double const step = codec.step();
  return hop_variance(codec, how, ranks) * step * step / ranks;
}

}  // namespace hcomp
