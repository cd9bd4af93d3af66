#pragma once
/// @file
/// Check of plans on devices when one rank's values are in host memory.

#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/in_process.hpp>
#include <span>
#include <string>
#include <support/guarded_executor.hpp>
#include <vector>

namespace hcomp::testing {

/// Runs call(transport, executor, x) on three ranks with `values` values each. Those of rank 1 are
/// in host memory: all ranks must get a memory_error that names this.
template <class F> void check_host_memory_is_refused(std::size_t values, F const& call) {
  auto const outcomes = outcomes_on(3, [&](in_process& transport) {
    auto mine = uniform_values(values, 8, transport.rank());
    guarded_executor executor;
    host_staged over(transport, executor);
    device_vector<float> const on_device(mine, executor);
    try {
      call(over, executor, transport.rank() == 1 ? std::span(mine) : on_device.span());
    } catch (memory_error const& error) {
      std::string const n = std::to_string(values);
      CHECK(std::string(error.what())
                .ends_with(": on rank 1 x is not in memory that the executor can work on (x has " +
                           n + " values, the plan " + n + ", the weight is 1)"));
      throw;
    }
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "invalid_argument"));
}

}  // namespace hcomp::testing
