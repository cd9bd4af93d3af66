// Concurrent nonblocking all-reduces that overlap with computation, as in a backward pass: the
// all-reduce of a layer's gradient starts as soon as the gradient is ready.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/overlap.cpp -o overlap
//   mpirun -n 4 ./overlap
//
// Prints: 8 all-reduces, 6.0 MB sent, the last layer has 2.65

#include <mpi.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <hcomp/concurrent.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/transport.hpp>
#include <vector>

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  {
    hcomp::mpi::transport transport(MPI_COMM_WORLD);
    hcomp::host_executor executor;
    constexpr std::size_t layers = 8, values = 250'000;
    std::vector<std::vector<float>> gradients(layers, std::vector<float>(values));

    bool const may_have_thread = provided >= MPI_THREAD_SERIALIZED;
    hcomp::concurrent_transport over(
        transport, may_have_thread ? hcomp::progress_mode::thread : hcomp::progress_mode::caller);
    std::vector<hcomp::any_plan<float>> plans;
    for (std::size_t layer = 0; layer < layers; ++layer)
      plans.push_back(hcomp::make_plan<float>("fp16", values, over, executor));

    std::vector<hcomp::request<hcomp::report>> requests;
    for (std::size_t layer = layers; layer-- > 0;) {
      for (float& one : gradients[layer]) one = std::sqrt(static_cast<float>(layer));  // compute
      requests.push_back(over.start(
          [&, layer] {
            return plans[layer].all_reduce(gradients[layer], {.op = hcomp::reduce_op::mean});
          },
          {.priority = -static_cast<int>(layer)}));  // the first layer is needed first
    }
    double megabytes = 0;
    for (auto& request : requests)
      megabytes += static_cast<double>(request.wait().bytes_sent) / 1e6;

    if (transport.rank() == 0)
      std::printf("%zu all-reduces, %.1f MB sent, the last layer has %.2f\n", layers, megabytes,
                  static_cast<double>(gradients.back()[0]));
  }
  MPI_Finalize();
}
