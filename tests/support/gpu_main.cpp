/// @file
/// doctest's main for tests that need a GPU, or that need a machine without one: exit status 77,
/// "skipped", on the other kind of machine.

#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstdio>

#include "process.hpp"

namespace hcomp::testing {

/// A test file for machines without a GPU defines this function itself.
[[gnu::weak]] bool runs_without_gpu() { return false; }

}  // namespace hcomp::testing

namespace {

/// Prints the reason and returns true if these tests cannot run.
bool is_skipped() {
  int devices = 0;
  cudaError_t const found = cudaGetDeviceCount(&devices);
  bool const usable = found == cudaSuccess && devices > 0;
  bool const without = hcomp::testing::runs_without_gpu();
  if (without && usable)
    std::printf("Skipped: %d usable GPUs; this is about machines that have none\n", devices);
  if (!without && !usable) std::printf("Skipped: no usable GPU: %s\n", cudaGetErrorString(found));
  return usable == without;
}

}  // namespace

int main(int argc, char** argv) {
  // Asks in a child process: a process that has called CUDA cannot fork processes that use it, and
  // tests fork ranks.
  int const answer = hcomp::testing::child_process([] { return is_skipped() ? 77 : 0; }).wait();
  return answer != 0 ? answer : doctest::Context(argc, argv).run();
}
