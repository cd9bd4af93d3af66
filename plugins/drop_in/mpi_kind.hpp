#pragma once
/// @file
/// MPI implementations that need a drop-in library of their own, and how to recognize them.

#include <filesystem>
#include <string_view>

namespace hcomp::drop_in {

/// MPI implementations with one binary interface: programs run with any of them.
struct mpi_kind {
  std::string_view name;     ///< folder of our libraries, also used in CMake targets
  std::string_view words;    ///< "Open MPI"
  std::string_view preload;  ///< library to preload, in that folder
};

inline constexpr mpi_kind mpi_kinds[] = {
    {"openmpi", "Open MPI", "libhcomp_pmpi.so"},
    {"mpich", "MPICH", "libhcomp_pmpi.so"},
    {"abi", "the ABI of MPI 5", "libhcomp_pmpi_abi.so"},
};

/// The kind with this name; null for an unknown name.
mpi_kind const* mpi_kind_called(std::string_view name);

/// The kind to which a linked library belongs; null if it is no MPI library.
///
/// | library                                  | kind                                        |
/// | ---------------------------------------- | ------------------------------------------- |
/// | libmpi.so.40, libmpi_mpifh.so.40         | Open MPI 3 to 5                             |
/// | libmpi.so.12, libmpich.so.12 (Debian)    | MPICH from 3.1 on, and MPIs with its ABI    |
/// | libmpi_abi.so.1                          | any MPI with the standard's ABI             |
mpi_kind const* mpi_kind_of(std::string_view library);

/// Path of the library to preload, which need not exist.
/// @param folders  parent of the folders with our libraries: "/usr/lib/hcomp"
std::filesystem::path preload_for(mpi_kind const& mpi, std::filesystem::path const& folders);

}  // namespace hcomp::drop_in
