/// @file
/// hcomp for C and for languages that call C: compressed all-reduce over MPI.
///
///     hcomp_plan* plan;
///     hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "thc:bits=4", &plan);
///     if (hcomp_all_reduce(plan, gradient, NULL) != HCOMP_OK) puts(hcomp_last_error());
///     hcomp_plan_free(&plan);
///
/// Link the libhcomp.so that was built for the program's MPI. To use an existing binary without
/// recompiling, preload libhcomp_pmpi.so instead. Call all functions between MPI_Init and
/// MPI_Finalize, except hcomp_last_error, hcomp_built_for and hcomp_version.
#ifndef HCOMP_HCOMP_H
#define HCOMP_HCOMP_H

#include <hcomp/plan.h>
#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Creates a plan for vectors of `values` values. Collective over `comm`, an intracommunicator. The
/// caller may free `comm` before the plan.
///
/// @param type   MPI_FLOAT or MPI_DOUBLE, or the Fortran name of such a type
/// @param codec  codec and keys as in a rule of HCOMP_CONFIG: "thc:bits=4", "error_bounded:1e-4",
///               "identity algorithm=direct". With feedback=yes, the default of sign and thc, the
///               plan stores the residual of each all-reduce and adds it to the next input.
/// @param plan   receives the plan; receives NULL if the call fails
/// Arguments are compared across ranks: all ranks fail alike, unless comm itself is invalid.
HCOMP_API int hcomp_plan_create(MPI_Comm comm, size_t values, MPI_Datatype type, char const* codec,
                                hcomp_plan** plan);

/// Replaces the program's HCOMP_CONFIG for MPI reductions on this communicator, and on duplicates
/// made from now on. Requires the preloaded libhcomp_pmpi.so; otherwise returns HCOMP_NOT_RUNNING.
/// Collective.
///
/// @param settings  as in HCOMP_CONFIG; NULL: restore the program's settings
HCOMP_API int hcomp_comm_set(MPI_Comm comm, char const* settings);

/// hcomp_plan_create and hcomp_comm_set for languages with Fortran handles.
/// @param comm         from MPI_Comm_c2f, or from MPI_Comm_toint with the ABI of MPI 5
/// @param value_bytes  4 or 8
HCOMP_API int hcomp_plan_create_f(int comm, size_t values, int value_bytes, char const* codec,
                                  hcomp_plan** plan);
HCOMP_API int hcomp_comm_set_f(int comm, char const* settings);

#ifdef __cplusplus
}
#endif

#endif
