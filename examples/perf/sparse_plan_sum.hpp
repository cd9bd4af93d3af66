#pragma once
/// @file
/// Sums of sparse vectors by hcomp's own collectives, of vectors in any memory.

#include <cstddef>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <span>

#include "contender.hpp"
#include "options.hpp"
#include "sparse_bytes.hpp"

namespace perf {

/// A plan, and what is to be said of it.
template <class Lane, class T, class E> class sparse_plan_sum {
 public:
  sparse_plan_sum(std::size_t values, sparse_codec const& codec, hcomp::algorithm const& how,
                  T& transport, E& executor)
      : ranks_(transport.size()),
        plan_(values, {.strategies = codec.strategies}, transport, executor, {.algorithm = how}) {}

  /// Sums `x`, and says in `told` what was sent.
  hcomp::report run(std::span<float> x, hcomp::call_options const& call, contender<float>& told) {
    auto const stats = plan_.all_reduce(x, call);
    // by direct there is no index of a bit per value that all must send
    told.bytes_to_send = plan_.options().algorithm.kind == hcomp::algorithm_kind::direct
                             ? static_cast<double>(stats.bytes_sent)
                             : bytes_of(plan_.choice(), ranks_);
    told.remark = plan_.choice().text();
    return stats;
  }

 private:
  int ranks_;
  hcomp::plan<hcomp::lossless_sparse<Lane>, T, E> plan_;
};

}  // namespace perf
