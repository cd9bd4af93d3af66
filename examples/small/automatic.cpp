// automatic_plan measures links and codecs, then selects the fastest codec and algorithm.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/automatic.cpp -o automatic
//   mpirun -n 4 ./automatic
//
// Prints "each value is 1", then the expected time of every allowed codec and algorithm.

#include <mpi.h>

#include <cstdio>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/transport.hpp>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    hcomp::mpi::transport transport(MPI_COMM_WORLD);
    hcomp::host_executor executor;
    std::vector<float> gradient(1'000'000, 0.25f);

    hcomp::automatic_options options;
    options.allowed.codecs = {"identity", "float_cast:fp16"};  // default: no lossy codecs
    hcomp::automatic_plan<float> plan(gradient.size(), transport, executor, options);
    plan.all_reduce(gradient);

    if (transport.rank() == 0) {
      std::printf("each value is %g\n", static_cast<double>(gradient[0]));
      for (auto const& strategy : plan.choices())
        std::printf("%s\n", hcomp::to_text(strategy).c_str());
    }
  }
  MPI_Finalize();
}
