/// @file
/// A codec from outside the tree as an MPI_Op.
// ranks: 1 3

#include "steps.hpp"

#include <doctest/doctest.h>

#include <hcomp/mpi/op.hpp>
#include <span>
#include <vector>

TEST_CASE("a codec from outside: an MPI_Op merges its blocks") {
  int const rank = hcomp::mpi::rank_of(MPI_COMM_WORLD), ranks = hcomp::mpi::size_of(MPI_COMM_WORLD);
  std::vector<float> x(3000, 0.3f * static_cast<float>(rank + 1));
  hcomp::mpi::op<outside::steps<float>> sum(outside::steps<float>{0.5});
  std::vector<std::byte> encoded(hcomp::encoded_bytes(sum.codec(), x.size()));
  hcomp::encode(sum.codec(), std::span<float const>(x), std::span(encoded), {.rank = rank});
  REQUIRE(MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(x.size()), sum.type(), sum.handle(),
                        MPI_COMM_WORLD) == MPI_SUCCESS);
  hcomp::decode(sum.codec(), std::span<std::byte const>(encoded), std::span(x));
  CHECK(x == std::vector<float>(3000, ranks == 1 ? 0.5f : 2.0f));  // 0.3, 0.6 and 0.9 in halves
}
