// ranks: 2 3 4
// timeout: 240
#include <doctest/doctest.h>
#include <mpi.h>

#include <hcomp/mpi/mpi.hpp>
#include <memory>
#include <support/damage_campaign.hpp>

TEST_CASE("mpi transport: damage found by one rank is reported by all in one text") {
  using hcomp::mpi::transport;
  // Every other transport has a communicator of its own. The remaining ones share a communicator:
  // damage in one must not touch the messages of another.
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
