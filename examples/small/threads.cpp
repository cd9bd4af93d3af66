// Four ranks as threads of one process, without MPI: for trying out codecs and for tests.
//
//   g++ -std=c++20 -O2 -Iinclude examples/small/threads.cpp -o threads -pthread
//   ./threads
//
// Prints: sum in bf16: 0.6016 (exact: 0.6000)
#include <cmath>
#include <cstdio>
#include <hcomp/hcomp.hpp>
#include <vector>

int main() {
  hcomp::run_ranks(4, [](hcomp::in_process& transport) {
    hcomp::host_executor executor;
    std::vector<float> x(1000, 0.1f * static_cast<float>(transport.rank()));
    hcomp::all_reduce(std::span(x), hcomp::float_cast<hcomp::bfloat16>{}, transport, executor);
    if (transport.rank() == 0)
      std::printf("sum in bf16: %.4f (exact: 0.6000)\n", static_cast<double>(x.front()));
  });
}
