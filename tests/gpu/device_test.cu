#include <doctest/doctest.h>

namespace {

__global__ void write_answer(int* answer) { *answer = 42; }

}  // namespace

TEST_CASE("device: a kernel runs and its result comes back") {
  int* answer = nullptr;
  REQUIRE(cudaMallocManaged(&answer, sizeof *answer) == cudaSuccess);
  write_answer<<<1, 1>>>(answer);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(*answer == 42);
  cudaFree(answer);
}
