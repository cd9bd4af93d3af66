/* Ranks reduce vectors of different sizes: the communicator's error handler must be called once. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int heard = 0;
static void hear(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  if (*code == MPI_ERR_OTHER) ++heard;
}

int main(int argc, char** argv) {
  int rank;
  MPI_Errhandler handler;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_create_errhandler(hear, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);

  int const values = rank == 0 ? 30000 : 40000;
  float* const x = calloc((size_t)values, sizeof(float));
  int const code = MPI_Allreduce(MPI_IN_PLACE, x, values, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  int const failed = code != MPI_ERR_OTHER || heard != 1;
  if (failed) fprintf(stderr, "rank %d: returned %d, handler called %d times\n", rank, code, heard);
  free(x);
  MPI_Errhandler_free(&handler);
  MPI_Finalize();
  return failed;
}
