/// @file
/// Codec and algorithm by themselves: a plan that measures links and codecs first.
///
///     mpirun -n 4 automatic

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
    options.allowed.codecs = {"identity", "float_cast:fp16"};  // by itself it allows no loss
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
