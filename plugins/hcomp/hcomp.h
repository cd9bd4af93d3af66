/// @file
/// hcomp for C, and by it for other languages: sums of vectors over MPI ranks in few bytes.
///
///     hcomp_plan* plan;
///     hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "thc:bits=4", &plan);
///     if (hcomp_all_reduce(sum, gradient, NULL) != HCOMP_OK) puts(hcomp_last_error());
///     hcomp_plan_free(&plan);
///
/// Link libhcomp.so of the MPI that the program uses; programs that are not recompiled preload
/// libhcomp_pmpi.so instead. All functions but hcomp_last_error, hcomp_built_for and hcomp_version
/// are called between MPI_Init and MPI_Finalize.
#ifndef HCOMP_HCOMP_H
#define HCOMP_HCOMP_H

#include <hcomp/plan.h>
#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A sum of `values` values. Collective over `comm`, an intracommunicator, which may be freed
/// meanwhile.
///
/// @param type    MPI_FLOAT or MPI_DOUBLE, or a Fortran name of theirs
/// @param codec  codec and keys as in a rule of HCOMP_CONFIG: "thc:bits=4", "error_bounded:1e-4",
///                "identity algorithm=direct". With feedback=yes, which is what sign and thc have
///                unless told otherwise, the sum keeps what all_reduce lost and adds it next time.
/// @param plan     where to write it; NULL is written if the call fails
/// Other ranks' arguments are compared: all ranks fail alike, but if comm itself is none.
HCOMP_API int hcomp_plan_create(MPI_Comm comm, size_t values, MPI_Datatype type, char const* codec,
                                hcomp_plan** plan);

/// Settings for MPI's own sums on this communicator, and duplicates made from now on, in place of
/// the program's HCOMP_CONFIG; where libhcomp_pmpi.so is preloaded, otherwise HCOMP_NOT_RUNNING.
/// Collective.
///
/// @param settings  as in HCOMP_CONFIG; NULL: the program's again
HCOMP_API int hcomp_comm_set(MPI_Comm comm, char const* settings);

/// hcomp_plan_create and hcomp_comm_set for languages that have Fortran's handles.
/// @param comm         as MPI_Comm_c2f gives it, or MPI_Comm_toint with the ABI of MPI 5
/// @param value_bytes  4 or 8
HCOMP_API int hcomp_plan_create_f(int comm, size_t values, int value_bytes, char const* codec,
                                  hcomp_plan** plan);
HCOMP_API int hcomp_comm_set_f(int comm, char const* settings);

#ifdef __cplusplus
}
#endif

#endif
