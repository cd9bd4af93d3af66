#pragma once
/// @file
/// For tests of plans whose calls are enqueued on a CUDA stream.

#include <collective/on_ranks.hpp>
#include <cstdint>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <support/new_stream.hpp>
#include <vector>

namespace hcomp::testing {

/// The vectors of all ranks after three all-reduces in host memory.
template <class C>
std::vector<std::vector<float>> summed_on_host(C const& codec,
                                               std::vector<std::vector<float>> const& x,
                                               plan_options const& options) {
  return on_ranks(x, [&](in_process& transport, auto& mine) {
    reference_executor executor;
    plan sum(mine.size(), codec, transport, executor, options);
    for (std::uint64_t step = 0; step < 3; ++step) sum.all_reduce(std::span(mine), {.step = step});
  });
}

}  // namespace hcomp::testing
