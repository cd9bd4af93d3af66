#include <doctest/doctest.h>
#include <mpi.h>

#include <cstdlib>
#include <string>

TEST_CASE("launch: ranks connect, each with a different number") {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long const mine = 1L << rank;
  long all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_BOR, MPI_COMM_WORLD);
  CHECK(all == (1L << size) - 1);
}

TEST_CASE("launch: the library matches the headers") {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
#ifdef OPEN_MPI
  CHECK(std::string(version).find("Open MPI") != std::string::npos);
#else
  CHECK(std::string(version).find("MPICH") != std::string::npos);
#endif
}
