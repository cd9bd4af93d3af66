#pragma once
/// @file
/// Comparison of texts across MPI ranks.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/core/hash.hpp>
#include <hcomp/mpi/call.hpp>
#include <string>
#include <vector>

namespace hcomp::testing {

/// True if `text` is the same on all ranks.
inline bool same_everywhere(std::string const& text) {
  std::uint64_t const mine =
      fingerprint(serial_group{}, reinterpret_cast<std::byte const*>(text.data()), text.size());
  std::vector<std::uint64_t> all(static_cast<std::size_t>(mpi::size_of(MPI_COMM_WORLD)));
  MPI_Allgather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  for (auto const one : all)
    if (one != all[0]) return false;
  return true;
}

}  // namespace hcomp::testing
