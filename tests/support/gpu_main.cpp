/// @file
/// doctest's main for tests that need a GPU, or that need a machine without one: exit status 77,
/// "skipped", on the other kind of machine.

#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstdio>

namespace hcomp::testing {

/// A test file for machines without a GPU defines this function itself.
[[gnu::weak]] bool runs_without_gpu() { return false; }

}  // namespace hcomp::testing

int main(int argc, char** argv) {
  int devices = 0;
  cudaError_t const found = cudaGetDeviceCount(&devices);
  bool const usable = found == cudaSuccess && devices > 0;
  if (hcomp::testing::runs_without_gpu()) {
    if (usable) {
      std::printf("Skipped: %d usable GPUs; this is about machines that have none\n", devices);
      return 77;
    }
  } else if (!usable) {
    std::printf("Skipped: no usable GPU: %s\n", cudaGetErrorString(found));
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
