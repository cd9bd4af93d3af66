// ranks: 1 2 3 4 8
#include <doctest/doctest.h>
#include <mpi.h>

#include <cstddef>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/mpi/transport.hpp>
#include <hcomp/transport/concurrent_transport.hpp>
#include <span>
#include <string>
#include <support/concurrent_reductions.hpp>
#include <support/hierarchical_reductions.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

TEST_CASE("mpi: concurrent all-reduces give the bits, and send the bytes, of sequential ones") {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  REQUIRE(level >= MPI_THREAD_SERIALIZED);  // for progress_mode::thread
  for (auto const mode : {progress_mode::caller, progress_mode::thread}) {
    mpi::transport transport(MPI_COMM_WORLD);
    CHECK(difference_of_concurrent_reductions<identity<float>>(transport, mode) == "");
    CHECK(difference_of_concurrent_reductions<sign<float>>(transport, mode) == "");
  }
}

TEST_CASE("mpi: concurrent hierarchical all-reduces give the bits of sequential ones") {
  for (auto const mode : {progress_mode::caller, progress_mode::thread}) {
    mpi::transport transport(MPI_COMM_WORLD);
    CHECK(difference_of_hierarchical_reductions(transport, mode) == "");
  }
}

TEST_CASE("mpi: all-reduces that one rank starts in another order are refused on all") {
  mpi::transport transport(MPI_COMM_WORLD);
  if (transport.size() == 1) return;
  concurrent_transport over(transport);
  plans_of<identity<float>> all(over, {1000, 2000});
  auto x = all.inputs;
  auto const sum = [&](std::size_t i) {
    return over.start([&, i] { return all.plans[i]->all_reduce(std::span(x[i])); });
  };
  std::size_t const mine = transport.rank() == 1 ? 1 : 0;
  auto first = sum(mine), second = sum(1 - mine);
  CHECK_THROWS_AS(first.wait(), disagreement_error);
  CHECK_THROWS_AS(second.wait(), disagreement_error);
  CHECK(x == all.inputs);
  sum(0).wait();
}
