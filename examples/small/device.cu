// All-reduce of a vector in GPU memory over all MPI ranks, with one bit per value. If the MPI
// library accepts pointers to GPU memory, then also MPI_Allreduce with hcomp's MPI_Op.
//
//   cmake --preset release && cmake --build build --target example_device
//   mpirun -n 4 build/examples/small/device
//
// Prints the bytes that each rank sent and the first value of the result. Without a GPU it prints
// "Skipped: there is no GPU".
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <hcomp/collective/plan/encoded_vector.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <span>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  if (hcomp::gpu::device_count() == 0) {
    std::puts("Skipped: there is no GPU");
    status = 77;
  } else {
    hcomp::mpi::transport transport(MPI_COMM_WORLD);
    std::vector<float> const x(1'000'000, transport.rank() == 0 ? -1.0f : 1.0f);
    hcomp::gpu::device_buffer memory(x.size() * sizeof(float));
    HCOMP_CUDA_TRY(cudaMemcpy(memory.data(), x.data(), memory.size(), cudaMemcpyDefault));
    std::span const gradient(reinterpret_cast<float*>(memory.data()), x.size());

    hcomp::gpu::stream_executor executor;  // on the default stream; takes any other
    hcomp::host_staged over(transport, executor);
    hcomp::plan plan(gradient.size(), hcomp::sign<>{.magnitude = 0.01f}, over, executor);
    auto const report = plan.all_reduce(gradient, {.seed = 42, .op = hcomp::reduce_op::mean});

    float first = 0;
    HCOMP_CUDA_TRY(cudaMemcpy(&first, memory.data(), sizeof first, cudaMemcpyDefault));
    if (transport.rank() == 0)
      std::printf("%d ranks, %.1f kB sent by each, the first value is %g\n", transport.size(),
                  1e-3 * static_cast<double>(report.bytes_sent), double{first});

    if (hcomp::mpi::reaches_device()) {
      hcomp::mpi::op sum{plan.codec(), executor};
      hcomp::encoded_vector encoded(gradient.size(), sum.codec(), executor);
      encoded.encode(gradient, {.key = {.seed = 43}, .rank = transport.rank()});
      executor.synchronize();  // MPI does not wait for streams
      MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(gradient.size()), sum.type(),
                    sum.handle(), MPI_COMM_WORLD);
      encoded.decode(gradient, {.key = {.seed = 43}});
      executor.synchronize();
    }
  }
  MPI_Finalize();
  return status;
}
