#pragma once
/// @file
/// Sums of vectors that are mostly zeros, in turns with all others.

#include <cstdint>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/mpi/sparse.hpp>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../support/program.hpp"
#include "named_codec.hpp"
#include "plans.hpp"
#include "sparse_plan_sum.hpp"

namespace perf {

/// hcomp's own collectives.
template <class Lane> class sparse_plan_contender final : public contender<float> {
 public:
  sparse_plan_contender(way as, sparse_name const& name, std::size_t values,
                        hcomp::any_transport& transport, hcomp::algorithm const& how, int threads)
      : executor_(threads), sum_(values, name, how, transport, executor_) {
    this->name = std::move(as);
    this->accuracy = sum_.accuracy(false);
  }
  hcomp::report run(std::span<float> x, hcomp::call_options const& call) override {
    return sum_.run(x, call, *this);
  }

 private:
  hcomp::host_executor executor_;
  sparse_plan_sum<Lane, hcomp::any_transport, hcomp::host_executor> sum_;
};

/// The MPI library's own reductions: MPI_BOR of the index, MPI_SUM of the lanes.
template <class Lane> class sparse_op_contender final : public contender<float> {
 public:
  explicit sparse_op_contender(sparse_name const& name) : ways_(name.ways) {
    this->name = {"", "MPI", "op"};
    this->accuracy = promise_of_sparse<Lane>(name, example::ranks());
  }
  hcomp::report run(std::span<float> x, hcomp::call_options const& call) override {
    if (!sum_ || sum_->options().result != call.result)
      sum_ = std::make_unique<hcomp::sparse_sum<Lane>>(
          hcomp::sparse_options{static_cast<std::uint32_t>(example::ranks()), call.result}, ways_);
    auto const choice = hcomp::mpi::all_reduce_sparse(*sum_, x, call.key(), lanes_, example::comm);
    this->bytes_to_send = bytes_of(choice, example::ranks());
    this->remark = choice.text();
    return {};
  }

 private:
  hcomp::sparse_ways ways_;
  std::unique_ptr<hcomp::sparse_sum<Lane>> sum_;
  std::vector<Lane> lanes_;
};

template <class Lane>
void add_sparse(contender_list<float>& list, job const& it, std::string const& codec,
                std::string const& transport) {
  auto const name = *sparse_name::from(codec);
  if (transport == "op") {
    list.push_back(std::make_unique<sparse_op_contender<Lane>>(name));
    list.back()->name.codec = codec;
    return;
  }
  for (auto const& how : it.o.algorithms)
    if (how.kind != hcomp::algorithm_kind::owner)
      list.push_back(std::make_unique<sparse_plan_contender<Lane>>(
          way{codec, how.name(), transport}, name, it.values, it.by.at(transport), how,
          it.o.threads));
}

}  // namespace perf
