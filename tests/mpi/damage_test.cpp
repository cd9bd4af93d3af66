// ranks: 2 3 4
// timeout: 240
#include <doctest/doctest.h>
#include <mpi.h>

#include <hcomp/mpi/mpi.hpp>
#include <memory>
#include <support/damage_campaign.hpp>

TEST_CASE("mpi transport: damage that one rank meets is told to all in one text") {
  hcomp::testing::check_damage_is_told(
      [] { return std::make_unique<hcomp::mpi::transport>(MPI_COMM_WORLD); }, true, false);
}
