/// @file
/// Results of plans on the host. Compiled without nvcc, which drops the lambdas' target attributes.

#include <algorithm>
#include <hcomp/exec/host_executor.hpp>
#include <support/work_of_plans.hpp>
#include <thread>

#include "stats.hpp"

namespace gpu_bench {

std::map<std::string, std::uint64_t> made_by_host(std::size_t values) {
  auto const threads = std::max(1u, std::thread::hardware_concurrency());
  hcomp::host_executor executor(static_cast<int>(threads));
  std::map<std::string, std::uint64_t> found;
  auto const add = [&](auto const& work) {
    work.prepare();
    work.run();
    found[work.name] = print_of(work.result());
  };
  hcomp::testing::work_of_plans(executor, values, add).all();
  return found;
}

}  // namespace gpu_bench
