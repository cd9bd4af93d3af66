#pragma once
/// @file
/// User Level Failure Mitigation (ULFM): continuing an MPI job after a rank fails.

#include <mpi.h>

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <hcomp/core/error.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/transport/detail/deadline.hpp>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

// Available in Open MPI from version 5. MPICH 4 and 5 declare most of these calls, too, but abort
// the process in MPIX_Comm_revoke with every device built today (ch4).
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && defined(OMPI_HAVE_MPIX_COMM_GET_FAILED)
#define HCOMP_MPI_HAS_ULFM 1
// Weak, so that programs also run with builds of their MPI that lack these functions.
#pragma weak MPIX_Comm_agree
#pragma weak MPIX_Comm_get_failed
#pragma weak MPIX_Comm_is_revoked
#pragma weak MPIX_Comm_revoke
#pragma weak MPIX_Comm_shrink
#endif

/// ULFM calls that every program can compile. Without ULFM, no rank is ever reported as failed, and
/// functions that need it throw std::logic_error.
namespace hcomp::mpi::ulfm {

/// True if this job continues after a rank fails. Open MPI 5 must be started for it (`mpirun
/// --with-ft ulfm`); otherwise its calls may wait for ever. MPI must be running.
inline bool is_on() {
#ifdef HCOMP_MPI_HAS_ULFM
  void* value = nullptr;
  int has_value = 0;
  return MPIX_Comm_agree != nullptr &&
         MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, static_cast<void*>(&value), &has_value) ==
             MPI_SUCCESS &&
         has_value && *static_cast<int const*>(value) != 0;
#else
  return false;
#endif
}

/// True if `code` means that a rank failed, or that some rank revoked the communicator.
inline bool is_loss([[maybe_unused]] int code) {
#ifdef HCOMP_MPI_HAS_ULFM
  int kind = MPI_SUCCESS;
  return code != MPI_SUCCESS && MPI_Error_class(code, &kind) == MPI_SUCCESS &&
         (kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING ||
          kind == MPIX_ERR_REVOKED);
#else
  return false;
#endif
}

/// True if some rank revoked the communicator.
inline bool is_revoked([[maybe_unused]] MPI_Comm comm) {
#ifdef HCOMP_MPI_HAS_ULFM
  int answer = 0;
  return is_on() && MPIX_Comm_is_revoked(comm, &answer) == MPI_SUCCESS && answer;
#else
  return false;
#endif
}

/// Ranks of `comm` known here to have failed, in ascending order. Not collective.
inline std::vector<int> lost_ranks([[maybe_unused]] MPI_Comm comm) {
  std::vector<int> lost;
#ifdef HCOMP_MPI_HAS_ULFM
  MPI_Group failed = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
  if (!is_on() || MPIX_Comm_get_failed(comm, &failed) != MPI_SUCCESS) return lost;
  int size = 0;
  MPI_Group_size(failed, &size);
  std::vector<int> places(static_cast<std::size_t>(size));
  std::iota(places.begin(), places.end(), 0);
  lost.resize(places.size());
  MPI_Comm_group(comm, &all);
  MPI_Group_translate_ranks(failed, size, places.data(), all, lost.data());
  MPI_Group_free(&failed);
  MPI_Group_free(&all);
  std::ranges::sort(lost);
#endif
  return lost;
}

/// A failed rank: `suspect` if it failed, otherwise the first one. If none is known yet, for
/// example on a rank that only knows that `comm` was revoked, waits up to a second; then returns
/// -1.
inline int lost_rank(MPI_Comm comm, int suspect) {
  hcomp::detail::deadline limit(std::chrono::seconds(1));
  for (;;) {
    auto const lost = lost_ranks(comm);
    if (!lost.empty()) return std::ranges::binary_search(lost, suspect) ? suspect : lost.front();
    if (limit.passed()) return -1;
    int arrived = 0;  // MPI detects failures only inside its calls
    MPI_Iprobe(0, 0, MPI_COMM_SELF, &arrived, MPI_STATUS_IGNORE);
    std::this_thread::yield();
  }
}

/// Revokes `comm`: pending and later operations on it end with an error on all ranks. Not
/// collective. No effect if ULFM is off.
inline void revoke([[maybe_unused]] MPI_Comm comm) {
#ifdef HCOMP_MPI_HAS_ULFM
  if (is_on()) MPIX_Comm_revoke(comm);
#endif
}

/// Logical AND over the remaining ranks of `comm`: the same answer on all of them, even if ranks
/// fail meanwhile. Collective over the remaining ranks, also after `revoke`.
/// @throws transport_error  MPI fails
inline bool agree([[maybe_unused]] MPI_Comm comm, [[maybe_unused]] bool mine) {
#ifdef HCOMP_MPI_HAS_ULFM
  int all = mine;
  int const code = MPIX_Comm_agree(comm, &all);
  if (!is_loss(code)) require(code, "MPIX_Comm_agree");  // it may report failures, but has agreed
  return all != 0;
#else
  throw std::logic_error("mpi: this MPI has no MPIX_Comm_agree");
#endif
}

/// A communicator of the remaining ranks in their order; the same set on all of them. Collective
/// over them, also after `revoke`.
/// @throws transport_error  MPI fails
inline MPI_Comm shrink([[maybe_unused]] MPI_Comm comm) {
#ifdef HCOMP_MPI_HAS_ULFM
  MPI_Comm left = MPI_COMM_NULL;
  require(MPIX_Comm_shrink(comm, &left), "MPIX_Comm_shrink");
  return left;
#else
  throw std::logic_error("mpi: this MPI has no MPIX_Comm_shrink");
#endif
}

}  // namespace hcomp::mpi::ulfm
