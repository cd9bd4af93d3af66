#pragma once
/// @file
/// All-reduce of sparse vectors by a plan of hcomp, for vectors in host or device memory.

#include <cstddef>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <span>

#include "contender.hpp"
#include "options.hpp"
#include "sparse_bytes.hpp"

namespace perf {

/// A plan that reports its bytes and its choice to a contender.
template <class Lane, class T, class E> class sparse_reduction {
 public:
  sparse_reduction(std::size_t values, sparse_codec const& codec, hcomp::algorithm const& how,
                   T& transport, E& executor)
      : ranks_(transport.size()),
        plan_(values, {.strategies = codec.strategies}, transport, executor, {.algorithm = how}) {}

  /// All-reduces `x`. Stores the bytes to send and the choice in `told`.
  hcomp::report run(std::span<float> x, hcomp::call_options const& call, contender<float>& told) {
    auto const stats = plan_.all_reduce(x, call);
    // direct sends no index of one bit per value
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
