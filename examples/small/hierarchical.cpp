// Hierarchical all-reduce of ranks on several nodes: exact inside each node, over shared memory,
// and with 4 bits per value between nodes.
//
//   mpicxx -std=c++20 -O2 -Iinclude -Iplugins examples/small/hierarchical.cpp -o hierarchical
//   mpirun -n 4 ./hierarchical
//
// Prints:
// 2 nodes, 315.8 kB sent by this rank for 500032 values, a mean of 1.46, the same bits everywhere:
// yes
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    hcomp::mpi::transport transport(MPI_COMM_WORLD);
    // This example runs on one node and pretends that it is two.
    std::vector<std::uint64_t> nodes;
    for (int r = 0; r < transport.size(); ++r) nodes.push_back(r < transport.size() / 2 ? 1 : 2);
    std::vector<float> gradient(1'000'000, static_cast<float>(transport.rank()));

    hcomp::host_executor executor;
    hcomp::node::hierarchical_plan<float> plan("thc:bits=4", gradient.size(), transport, executor,
                                               {.node_of = nodes});  // {}: detected
    hcomp::error_feedback<float> feedback(plan.share().count);
    auto const report =
        plan.all_reduce(gradient, feedback, {.seed = 42, .op = hcomp::reduce_op::mean});

    bool const same = hcomp::digest(gradient, transport).same();
    if (transport.rank() == 0)
      std::printf(
          "%d nodes, %.1f kB sent by this rank for %zu values, a mean of %.2f, the same "
          "bits everywhere: %s\n",
          plan.ranks().nodes, 1e-3 * static_cast<double>(report.bytes_sent), plan.share().count,
          static_cast<double>(gradient[0]), same ? "yes" : "no");
  }
  MPI_Finalize();
}
