#pragma once
/// @file
/// Plans of sparse all-reduces, and their checks over any transport.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/collective/agreement/digest.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <support/sparse.hpp>

namespace sparse {

/// Arguments of a plan.
struct settings {
  hcomp::sparse_strategies strategies = {};
  hcomp::lhc_options sketch = {};
  hcomp::plan_options plan = {.algorithm = {hcomp::algorithm_kind::direct}};
};

template <class Lane, hcomp::Transport T, hcomp::Executor E>
hcomp::plan<hcomp::lossless_sparse<Lane>, T, E> plan_of(std::size_t values, T& transport,
                                                        E& executor, settings const& how) {
  return {
      values, {.strategies = how.strategies, .sketch = how.sketch}, transport, executor, how.plan};
}
/// A plan from a codec without options.
template <class Lane, hcomp::Transport T, hcomp::Executor E>
hcomp::plan<hcomp::lossless_sparse<Lane>, T, E> plan_of(std::size_t values, T& transport,
                                                        E& executor) {
  return {values, {}, transport, executor};
}

/// Collective over all ranks: reduces complete vectors by direct and by ring, and shards.
template <class Lane, hcomp::Transport T> void check_plan(T& transport) {
  auto all = ranks_of(static_cast<std::size_t>(transport.size()), 100'001, 0.01);
  for (auto& one : all)
    for (float& v : one) v = std::round(v * 1024) / 1024;  // makes float addition exact
  auto const expected = plain_sum(all);
  auto const& mine = all[static_cast<std::size_t>(transport.rank())];
  hcomp::host_executor executor;
  for (auto const how : {hcomp::algorithm_kind::direct, hcomp::algorithm_kind::ring}) {
    CAPTURE(hcomp::algorithm{how}.name());
    auto sum = plan_of<Lane>(expected.size(), transport, executor, {.plan = {.algorithm = {how}}});
    auto x = mine, y = mine;
    sum.all_reduce(std::span(x));
    CHECK(x == expected);
    CHECK(hcomp::digest(std::span(x), transport).same());
    sum.reduce_scatter(std::span(y));
    auto const shard = sum.shard();
    for (std::size_t i = 0; i < y.size(); ++i)
      if (i < shard.first || i >= shard.first + shard.count) y[i] = -1;  // only shards are sent
    sum.all_gather(std::span(y));
    CHECK(y == expected);
    CHECK(hcomp::digest(std::span(y), transport).same());
  }
}

}  // namespace sparse
