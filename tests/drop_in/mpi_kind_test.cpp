#include <doctest/doctest.h>

#include <drop_in/mpi_kind.hpp>
#include <string>
#include <string_view>

namespace drop_in = hcomp::drop_in;

TEST_CASE(
    "mpi_kind: an MPI is known by the name of each of its libraries, and nothing else is one") {
  struct {
    std::string_view library, mpi;
  } const known[] = {
      {"libmpi.so.40", "openmpi"},
      {"libmpi_mpifh.so.40", "openmpi"},
      {"libmpi_usempif08.so.40", "openmpi"},
      {"libmpi.so.40.30.4", "openmpi"},
      {"libmpi.so.12", "mpich"},
      {"libmpich.so.12", "mpich"},
      {"libmpichfort.so.12", "mpich"},
      {"libmpifort.so.12.5.0", "mpich"},
      {"libmpi_abi.so.1", "abi"},
      {"libmpi_abi.so", "abi"},
      {"libmpi.so", ""},
      {"libmpi.so.400", ""},
      {"libmpi.so.20", ""},
      {"libmp3.so.12", ""},
      {"libopen-pal.so.40", ""},
      {"libmpi", ""},
      {"", ""},
  };
  for (auto const& one : known) {
    CAPTURE(one.library);
    auto const* const found = drop_in::mpi_kind_of(one.library);
    CHECK((found ? found->name : "") == one.mpi);
  }
}

TEST_CASE(
    "mpi_kind: each is found by its own name, and its library lies in the folder of that name") {
  for (auto const& one : drop_in::mpi_kinds) {
    CAPTURE(one.name);
    CHECK(drop_in::mpi_kind_called(one.name) == &one);
    CHECK(drop_in::preload_for(one, "/lib").parent_path() == "/lib/" + std::string(one.name));
  }
  CHECK(drop_in::mpi_kind_called("lam") == nullptr);
  CHECK(drop_in::preload_for(*drop_in::mpi_kind_called("abi"), "/lib") ==
        "/lib/abi/libhcomp_pmpi_abi.so");
}
