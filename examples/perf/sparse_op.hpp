#pragma once
/// @file
/// All-reduce of sparse vectors by the MPI library.

#include <hcomp/mpi/sparse.hpp>
#include <memory>
#include <span>
#include <vector>

#include "../support/program.hpp"
#include "contender.hpp"
#include "options.hpp"
#include "sparse_bytes.hpp"

namespace perf {

/// Uses reductions of the MPI library: MPI_BOR of the index, MPI_SUM of the lanes.
template <class Lane> class sparse_op_contender final : public contender<float> {
 public:
  explicit sparse_op_contender(sparse_codec const& codec) : strategies_(codec.strategies) {}
  hcomp::report run(std::span<float> x, hcomp::call_options const& call) override {
    if (!sum_ || sum_->options().op != call.op)
      sum_ = std::make_unique<hcomp::sparse_sum<Lane>>(
          hcomp::sparse_options{static_cast<std::uint32_t>(example::ranks()), call.op},
          strategies_);
    auto const choice = hcomp::mpi::all_reduce_sparse(*sum_, x, call.key(), lanes_, example::comm);
    this->bytes_to_send = bytes_of(choice, example::ranks());
    this->remark = choice.text();
    return {};
  }

 private:
  hcomp::sparse_strategies strategies_;
  std::unique_ptr<hcomp::sparse_sum<Lane>> sum_;
  std::vector<Lane> lanes_;
};

}  // namespace perf
