#pragma once
/// @file
/// Exchange of the addresses of another transport over MPI.

#include <mpi.h>
#include <cstddef>
#include <hcomp/mpi/call.hpp>
#include <hcomp/transport/transport.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::mpi {

/// All-gather of byte strings in rank order; lengths may differ. Collective.
inline std::vector<std::vector<std::byte>> exchange(MPI_Comm comm,
                                                    std::span<std::byte const> mine) {
  auto const ranks = static_cast<std::size_t>(size_of(comm));
  if (mine.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) / ranks)
    throw std::invalid_argument("exchange: " + std::to_string(mine.size()) +
                                " bytes are too many for one MPI_Allgatherv");
  int const length = static_cast<int>(mine.size());
  std::vector<int> lengths(ranks), starts(ranks);
  require(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm), "MPI_Allgather");
  int total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    starts[r] = total;
    total += lengths[r];
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(total));
  require(MPI_Allgatherv(mine.data(), length, MPI_BYTE, bytes.data(), lengths.data(), starts.data(),
                         MPI_BYTE, comm),
          "MPI_Allgatherv");
  std::vector<std::vector<std::byte>> all;
  for (std::size_t r = 0; r < ranks; ++r)
    all.emplace_back(bytes.begin() + starts[r], bytes.begin() + starts[r] + lengths[r]);
  return all;
}

/// Creates a transport between the ranks of `comm`, which exchange their addresses over MPI.
/// Collective; `comm` is not used afterwards.
///
///     auto transport = hcomp::mpi::connect<hcomp::ucx::transport>(
///         MPI_COMM_WORLD, hcomp::ucx::options{.timeout = 5s});
///
/// @param how  settings of the transport; its group defaults to group_of(comm)
/// @throws transport_error  MPI fails; also all exceptions of T's constructor
template <Transport T> T connect(MPI_Comm comm, typename T::settings how = {}) {
  if (how.group == 0) how.group = group_of(comm);
  return T(
      rank_of(comm), size_of(comm),
      [comm](std::span<std::byte const> mine) { return exchange(comm, mine); }, how);
}

}  // namespace hcomp::mpi
