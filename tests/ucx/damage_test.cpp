// ranks: 2 3 4
// timeout: 240
#include <doctest/doctest.h>
#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <hcomp/mpi/mpi.hpp>
#include <hcomp/ucx/transport.hpp>
#include <memory>
#include <support/damage_campaign.hpp>

TEST_CASE("ucx: damage found by one rank is reported by all ranks") {
  using namespace hcomp;
  setenv("HCOMP_UCX_TLS", "tcp,self", 1);
  testing::check_damage_is_told(
      [] {
        return std::unique_ptr<ucx::transport>(new ucx::transport(
            mpi::connect<ucx::transport>(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(60)})));
      },
      false, true);
}
