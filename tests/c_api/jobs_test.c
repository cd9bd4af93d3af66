/* The C API over a communicator of two jobs: MPI_Comm_spawn, MPI_Intercomm_merge. */
#include <hcomp/hcomp.h>
#include <stdio.h>

#include "checks.h"

enum { values = 1000 };
static float x[values];

static void reduce_over(MPI_Comm comm) {
  hcomp_plan* plan = NULL;
  int size, i;
  MPI_Comm_size(comm, &size);
  CHECK_OK(hcomp_plan_create(comm, values, MPI_FLOAT, "identity", &plan));
  for (i = 0; i < values; ++i) x[i] = 1;
  CHECK_OK(hcomp_all_reduce(plan, x, NULL));
  for (i = 0; i < values; ++i) CHECK(x[i] == (float)size);
  CHECK_OK(hcomp_plan_free(&plan));
}

int main(int argc, char** argv) {
  MPI_Comm parent, children, both;
  int all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(children, 0, &both);
  } else {
    MPI_Intercomm_merge(parent, 1, &both);
  }
  reduce_over(both);
  reduce_over(MPI_COMM_WORLD);
  reduce_over(both);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, both);
  MPI_Comm_free(&both);
  MPI_Finalize();
  return all > 0;
}
