#include <doctest/doctest.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/mpi/transport.hpp>
#include <hcomp/node/automatic.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <string>
#include <thread>
#include <vector>

using namespace hcomp;

TEST_CASE("mpi: uncompressed plans of one node add in shared memory") {
  mpi::transport transport(MPI_COMM_WORLD);
  host_executor executor;
  for (std::size_t const n : {std::size_t{0}, std::size_t{1024}, std::size_t{300'000}}) {
    std::vector<float> x(n, static_cast<float>(transport.rank() + 1));
    auto plan = node::make_plan<float>("identity", n, transport, executor, {});
    auto const made = plan.all_reduce(x);
    bool const shares = transport.size() > 1;
    CHECK(made.messages == (shares ? message_memory::shared : message_memory::host));
    CHECK(made.bytes_sent == 0);
    auto const sum = static_cast<float>(transport.size() * (transport.size() + 1) / 2);
    CHECK(x == std::vector<float>(n, sum));
  }
}

TEST_CASE("mpi: the program's messages arrive while their sender waits in shared memory") {
  mpi::transport transport(MPI_COMM_WORLD);
  if (transport.size() == 1) return;
  host_executor executor;
  for (std::string const how : {"ring", "hierarchical"}) {
    auto plan = node::make_plan<float>("identity", 1000, transport, executor,
                                       {.algorithm = algorithm::from(how)});
    std::vector<char> message(std::size_t{8} << 20, 'x');
    int const bytes = static_cast<int>(message.size());
    MPI_Request sent = MPI_REQUEST_NULL;
    if (transport.rank() == 0)
      MPI_Isend(message.data(), bytes, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &sent);
    if (transport.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      MPI_Recv(message.data(), bytes, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    std::vector<float> x(1000, 1.0f);
    plan.all_reduce(x);
    CHECK(x.front() == static_cast<float>(transport.size()));
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
  }
}

TEST_CASE("mpi: an automatic plan of ranks that share a node adds in shared memory") {
  mpi::transport transport(MPI_COMM_WORLD);
  if (transport.size() == 1) return;
  host_executor executor;
  automatic_options options;
  options.allowed.codecs = half_precision_codecs();
  options.watching = 0;
  for (std::size_t const n : {std::size_t{1024}, std::size_t{1} << 20}) {
    node::automatic_plan<float> plan(n, transport, executor, options);
    CAPTURE(to_text(plan.chosen()));
    std::vector<float> x(n, 1.0f);
    CHECK(plan.all_reduce(x).messages == message_memory::shared);
    CHECK(x.front() == static_cast<float>(transport.size()));
  }
}
