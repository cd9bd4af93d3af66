#pragma once
/// @file
/// Sums of sparse vectors by hcomp's own collectives, of vectors in any memory.

#include <cstddef>
#include <hcomp/codec/lossless.hpp>
#include <hcomp/codec/sparse_ways.hpp>
#include <hcomp/collective/plan.hpp>
#include <hcomp/collective/sparse_plan.hpp>
#include <span>
#include <type_traits>

#include "codec_promise.hpp"
#include "contender.hpp"
#include "options.hpp"

namespace perf {

/// Bytes that the index and what was chosen after it make a rank send at least.
inline double bytes_of(hcomp::sparse_choice const& choice, int ranks) {
  auto const chosen = choice.way == hcomp::sparse_way::dense    ? choice.dense_bytes
                      : choice.way == hcomp::sparse_way::packed ? choice.packed_bytes
                                                                : choice.sketched_bytes;
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(choice.index_bytes + chosen);
}

template <class Lane> promise promise_of_sparse(sparse_name const& name, int ranks) {
  if (std::is_same_v<Lane, float> && !name.ways.sketched)
    return {(ranks + 1) * 2 * rounding<float>(), false};
  return {};  // fixed point and sketches err by a share of the largest value, or of the norm
}

/// A plan, and what is to be said of it.
template <class Lane, class T, class E> class sparse_plan_sum {
 public:
  sparse_plan_sum(std::size_t values, sparse_name const& name, hcomp::algorithm const& how,
                  T& transport, E& executor)
      : name_(name),
        ranks_(transport.size()),
        plan_(values, {.ways = name.ways}, transport, executor, {.how = how}) {}

  promise accuracy(bool) const { return promise_of_sparse<Lane>(name_, ranks_); }
  /// Sums `x`, and says in `told` what was sent.
  hcomp::report run(std::span<float> x, hcomp::call_options const& call, contender<float>& told) {
    auto const figures = plan_.all_reduce(x, call);
    // by direct there is no index of a bit per value that all must send
    told.bytes_to_send = plan_.options().how.kind == hcomp::algorithm_kind::direct
                             ? static_cast<double>(figures.bytes_sent)
                             : bytes_of(plan_.choice(), ranks_);
    told.remark = plan_.choice().text();
    return figures;
  }

 private:
  sparse_name name_;
  int ranks_;
  hcomp::plan<hcomp::lossless<Lane>, T, E> plan_;
};

}  // namespace perf
