// ranks: 2 3 4
// timeout: 240
#include <doctest/doctest.h>
#include <mpi.h>

#include <hcomp/mpi/mpi.hpp>
#include <memory>
#include <support/damage_campaign.hpp>

TEST_CASE("mpi transport: damage that one rank meets is told to all in one text") {
  using hcomp::mpi::transport;
  // Every other one has a communicator of its own; the rest share one, in which damage to one must
  // not touch what others send.
  std::shared_ptr<MPI_Comm const> const shared = [] {
    auto comm = std::make_shared<MPI_Comm>();
    MPI_Comm_dup(MPI_COMM_WORLD, comm.get());
    MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    return comm;
  }();
  int made = 0;
  hcomp::testing::check_damage_is_told(
      [&] {
        if (++made % 2 == 0) return std::make_unique<transport>(MPI_COMM_WORLD);
        return std::make_unique<transport>(hcomp::mpi::private_tags{shared, made});
      },
      true, false);
  MPI_Comm last = *shared;
  MPI_Comm_free(&last);
}
