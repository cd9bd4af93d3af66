#pragma once
/// @file
/// The MPIs whose programs need a drop-in library of their own, and how to tell them apart.

#include <filesystem>
#include <string_view>

namespace hcomp::drop_in {

/// MPIs with one binary interface: their programs and libraries run with each other.
struct mpi_kind {
  std::string_view name;     ///< of the folder with our libraries, and in CMake's targets
  std::string_view words;    ///< "Open MPI"
  std::string_view preload;  ///< the library to preload, in that folder
};

inline constexpr mpi_kind mpi_kinds[] = {
    {"openmpi", "Open MPI", "libhcomp_pmpi.so"},
    {"mpich", "MPICH", "libhcomp_pmpi.so"},
    {"abi", "the ABI of MPI 5", "libhcomp_pmpi_abi.so"},
};

/// By its name; null: there is none.
mpi_kind const* mpi_kind_called(std::string_view name);

/// By the name of a library that programs are linked with; null: it is none of an MPI's.
///
/// libmpi.so.40, libmpi_mpifh.so.40: Open MPI 3 to 5; libmpi.so.12, Debian's libmpich.so.12: MPICH
/// from 3.1 on, and others with its ABI; libmpi_abi.so.1: any MPI with the standard's.
mpi_kind const* mpi_kind_of(std::string_view library);

/// The library to preload, whether or not it exists.
/// @param folders  where the folders with our libraries are: "/usr/lib/hcomp"
std::filesystem::path preload_for(mpi_kind const& mpi, std::filesystem::path const& folders);

}  // namespace hcomp::drop_in
