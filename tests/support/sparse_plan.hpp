#pragma once
/// @file
/// What a sparse_plan must do over any transport.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <hcomp/collective/algorithm.hpp>
#include <hcomp/collective/digest.hpp>
#include <hcomp/collective/sparse_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <support/sparse.hpp>

namespace sparse {

/// Collective over all ranks: sums whole vectors, by direct and by the ring, and shards.
template <class Lane, hcomp::Transport T> void check_plan(T& transport) {
  auto all = ranks_of(static_cast<std::size_t>(transport.size()), 100'001, 0.01);
  for (auto& one : all)
    for (float& v : one) v = std::round(v * 1024) / 1024;  // so that sums of floats are exact
  auto const expected = plain_sum(all);
  auto const& mine = all[static_cast<std::size_t>(transport.rank())];
  hcomp::host_executor executor;
  for (auto const how : {hcomp::algorithm_kind::direct, hcomp::algorithm_kind::ring}) {
    CAPTURE(hcomp::algorithm{how}.name());
    hcomp::sparse_plan<Lane, T, hcomp::host_executor> sum(expected.size(), transport, executor,
                                                          {.plan = {.how = {how}}});
    auto x = mine, y = mine;
    sum.all_reduce(std::span(x));
    CHECK(x == expected);
    CHECK(hcomp::digest(std::span(x), transport).same());
    sum.reduce_scatter(std::span(y));
    auto const shard = sum.owned();
    for (std::size_t i = 0; i < y.size(); ++i)
      if (i < shard.first || i >= shard.first + shard.count) y[i] = -1;  // only shards travel
    sum.all_gather(std::span(y));
    CHECK(y == expected);
    CHECK(hcomp::digest(std::span(y), transport).same());
  }
}

}  // namespace sparse
