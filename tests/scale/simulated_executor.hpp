#pragma once
/// @file
/// Block work that is executed and takes simulated time.

#include <collective/virtual_time.hpp>
#include <cstddef>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/exec/executor.hpp>
#include <simgrid/s4u/Actor.hpp>

namespace scale {

/// An executor that advances its rank's simulated clock by the cost of the work. A partial block
/// costs the same as a full one.
class simulated_executor {
 public:
  static constexpr auto space = hcomp::testing::virtual_executor::space;
  using buffer = hcomp::testing::virtual_executor::buffer;

  explicit simulated_executor(hcomp::codec_cost const& cost) : cost_(cost) {}

  template <class Work> void for_each_block(std::size_t blocks, Work const& work) {
    double seconds = 0;
    hcomp::testing::virtual_executor(cost_, seconds).for_each_block(blocks, work);
    simgrid::s4u::this_actor::sleep_for(seconds);
  }
  void synchronize() {}

 private:
  hcomp::codec_cost cost_;
};

static_assert(hcomp::Executor<simulated_executor>);

}  // namespace scale
