#pragma once
/// @file
/// Sums of vectors that are mostly zeros, in turns with all others.

#include <fmt/core.h>

#include <cstdint>
#include <hcomp/collective/sparse_plan.hpp>
#include <hcomp/mpi/sparse.hpp>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../support/program.hpp"
#include "named_codec.hpp"
#include "plans.hpp"

namespace perf {

/// Bytes that the index and what was chosen after it make a rank send at least.
inline double bytes_of(hcomp::sparse_choice const& choice) {
  auto const chosen = choice.way == hcomp::sparse_way::dense    ? choice.dense_bytes
                      : choice.way == hcomp::sparse_way::packed ? choice.packed_bytes
                                                                : choice.sketched_bytes;
  return 2.0 * (example::ranks() - 1) / example::ranks() *
         static_cast<double>(choice.index_bytes + chosen);
}

template <class Lane> promise promise_of_sparse(sparse_name const& name) {
  if (std::is_same_v<Lane, float> && !name.ways.sketched)
    return {(example::ranks() + 1) * 2 * rounding<float>(), false};
  return {};  // fixed point and sketches err by a share of the largest value, or of the norm
}

/// hcomp's own collectives.
template <class Lane> class sparse_plan_contender final : public contender<float> {
 public:
  sparse_plan_contender(way as, sparse_name const& name, std::size_t values,
                        hcomp::any_transport& transport, hcomp::algorithm const& how, int threads)
      : executor_(threads), sum_(values, transport, executor_, options_of(name, how)) {
    this->name = std::move(as);
    this->accuracy = promise_of_sparse<Lane>(name);
  }
  hcomp::report run(std::span<float> x, hcomp::call_options const& call) override {
    auto const figures = sum_.all_reduce(x, call);
    // by direct there is no index of a bit per value that all must send
    this->bytes_to_send = sum_.options().plan.how.kind == hcomp::algorithm_kind::direct
                              ? static_cast<double>(figures.bytes_sent)
                              : bytes_of(sum_.choice());
    this->remark = sum_.choice().text();
    return figures;
  }

 private:
  static hcomp::sparse_plan_options options_of(sparse_name const& name,
                                               hcomp::algorithm const& how) {
    hcomp::sparse_plan_options options;
    options.ways = name.ways;
    options.plan.how = how;
    return options;
  }
  hcomp::host_executor executor_;
  hcomp::sparse_plan<Lane, hcomp::any_transport, hcomp::host_executor> sum_;
};

/// The MPI library's own reductions: MPI_BOR of the index, MPI_SUM of the lanes.
template <class Lane> class sparse_op_contender final : public contender<float> {
 public:
  explicit sparse_op_contender(sparse_name const& name) : ways_(name.ways) {
    this->name = {"", "MPI", "op"};
    this->accuracy = promise_of_sparse<Lane>(name);
  }
  hcomp::report run(std::span<float> x, hcomp::call_options const& call) override {
    if (!sum_ || sum_->options().result != call.result)
      sum_ = std::make_unique<hcomp::sparse_sum<Lane>>(
          hcomp::sparse_options{static_cast<std::uint32_t>(example::ranks()), call.result}, ways_);
    auto const choice = hcomp::mpi::all_reduce_sparse(*sum_, x, call.key(), lanes_, example::comm);
    this->bytes_to_send = bytes_of(choice);
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
