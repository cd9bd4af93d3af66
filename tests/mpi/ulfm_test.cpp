// ranks: 2
#include <doctest/doctest.h>
#include <mpi.h>

#include <hcomp/elastic/mpi_group.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/mpi/ulfm.hpp>
#include <stdexcept>
#include <string>

using namespace hcomp;

// For a fault-tolerant job see elastic_test.cpp.
TEST_CASE(
    "mpi ulfm: a job without fault tolerance detects no failures, and mpi_group reports that") {
  if (mpi::ulfm::is_on()) return;
  CHECK(mpi::ulfm::lost_ranks(MPI_COMM_WORLD).empty());
  CHECK(mpi::ulfm::lost_rank(MPI_COMM_WORLD, 1) == -1);
  for (int const code : {MPI_SUCCESS, MPI_ERR_TRUNCATE, MPI_ERR_OTHER})
    CHECK_FALSE(mpi::ulfm::is_loss(code));

  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  mpi::ulfm::revoke(comm);
  CHECK_FALSE(mpi::ulfm::is_revoked(comm));
  int sum = 0, one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == mpi::size_of(comm));
  MPI_Comm_free(&comm);

  std::string why;
  try {
    elastic::mpi_group const group(MPI_COMM_WORLD);
  } catch (std::runtime_error const& error) {
    why = error.what();
  }
  CAPTURE(why);
  CHECK(why.find("does not go on after a lost rank; it needs Open MPI 5") != std::string::npos);
  CHECK((why.find("this is Open MPI v") != why.npos || why.find("this is MPICH") != why.npos));
}
