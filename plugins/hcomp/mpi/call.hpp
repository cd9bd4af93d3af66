#pragma once
/// @file
/// MPI return codes as exceptions, and queries that all parts of the plug-in share.

#include <mpi.h>
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <numeric>
#include <string>
#include <vector>

namespace hcomp::mpi {

/// MPI's text for an error code.
inline std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
    return "MPI error " + std::to_string(code);
  return std::string(text, static_cast<std::size_t>(length));
}

/// @throws transport_error  `code` is not MPI_SUCCESS; requires a communicator that returns errors
inline void require(int code, std::string const& what, int peer = -1) {
  if (code != MPI_SUCCESS) throw transport_error(peer, "mpi: " + what + ": " + error_text(code));
}

/// True between MPI_Init and MPI_Finalize, so that handles may be freed.
inline bool is_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

inline int rank_of(MPI_Comm comm) {
  int rank = 0;
  require(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}
inline int size_of(MPI_Comm comm) {
  int size = 0;
  require(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

/// The MPI_COMM_WORLD ranks of the members of `comm`, in its order; MPI_UNDEFINED for members
/// outside it.
inline std::vector<int> ranks_in_world(MPI_Comm comm) {
  std::vector<int> mine(static_cast<std::size_t>(size_of(comm))), in_world(mine.size());
  std::iota(mine.begin(), mine.end(), 0);
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  require(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  require(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  int const code = MPI_Group_translate_ranks(group, static_cast<int>(mine.size()), mine.data(),
                                             world, in_world.data());
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  require(code, "MPI_Group_translate_ranks");
  return in_world;
}

/// True if all ranks of `comm` belong to this rank's MPI_COMM_WORLD. False, on all ranks alike, for
/// a communicator merged from several jobs.
inline bool is_in_world(MPI_Comm comm) {
  auto const ranks = ranks_in_world(comm);
  return std::find(ranks.begin(), ranks.end(), MPI_UNDEFINED) == ranks.end();
}

/// The group number of `comm` for draw_key::group: 0 if it has the ranks of MPI_COMM_WORLD in the
/// same order; otherwise a fingerprint of its ranks and their order. Equal on all ranks of `comm`.
/// Cost: no message; linear in the number of ranks. If the ranks belong to several jobs, each job
/// numbers them differently: then rank 0 broadcasts its fingerprint, and the call is collective.
inline std::uint64_t group_of(MPI_Comm comm) {
  auto ranks = ranks_in_world(comm);
  bool is_world = size_of(MPI_COMM_WORLD) == size_of(comm);
  for (std::size_t r = 0; is_world && r < ranks.size(); ++r)
    is_world = ranks[r] == static_cast<int>(r);
  if (is_world) return 0;
  bool const has_others = std::find(ranks.begin(), ranks.end(), MPI_UNDEFINED) != ranks.end();
  static std::atomic<int> groups_of_jobs{0};  // the ranks of other jobs do not tell groups apart
  if (has_others) ranks.push_back(groups_of_jobs++);
  auto group = fingerprint(serial_group{}, reinterpret_cast<std::byte const*>(ranks.data()),
                           ranks.size() * sizeof(int));
  if (has_others) require(MPI_Bcast(&group, 1, MPI_UINT64_T, 0, comm), "MPI_Bcast");
  return group;
}

}  // namespace hcomp::mpi
