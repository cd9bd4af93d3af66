/// @file
/// doctest's main for tests that need a GPU: exit status 77, "skipped", where there is none.

#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstdio>

int main(int argc, char** argv) {
  int devices = 0;
  cudaError_t const found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("Skipped: no usable GPU: %s\n", cudaGetErrorString(found));
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
