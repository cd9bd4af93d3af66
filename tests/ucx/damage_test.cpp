// ranks: 2 3 4
// timeout: 240
#include <doctest/doctest.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <hcomp/mpi/mpi.hpp>
#include <hcomp/ucx/transport.hpp>
#include <memory>
#include <span>
#include <support/damage_campaign.hpp>

TEST_CASE("ucx: damage that one rank meets is told to all") {
  using namespace hcomp;
  setenv("HCOMP_UCX_TLS", "tcp,self", 1);
  testing::check_damage_is_told(
      [] {
        return std::make_unique<ucx::transport>(
            mpi::rank_of(MPI_COMM_WORLD), mpi::size_of(MPI_COMM_WORLD),
            [](std::span<std::byte const> mine) { return mpi::exchange(MPI_COMM_WORLD, mine); },
            ucx::options{.timeout = std::chrono::seconds(60)});
      },
      false, true);
}
