/* All-reduce of floats with a codec, in C with MPI.
 *   mpirun -n 4 ./example */
#include <hcomp/hcomp.h>
#include <mpi.h>
#include <stdio.h>

static float x[1000000];

int main(int argc, char** argv) {
  size_t const values = sizeof x / sizeof x[0];
  hcomp_plan* plan = NULL;
  hcomp_report report;
  int rank, ranks;
  double exact;
  size_t i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (i = 0; i < values; ++i) x[i] = 0.001f * (float)(rank + 1) * (float)(i % 1000);

  if (hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "error_bounded:1e-4", &plan) !=
          HCOMP_OK ||
      hcomp_all_reduce(plan, x, &report) != HCOMP_OK) {
    fprintf(stderr, "%s\n", hcomp_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  exact = 0.999 * ranks * (ranks + 1) / 2;
  if (rank == 0)
    printf("%d ranks: x[999] = %.3f (exact: %.3f), error at most %.0e, %.2f MB sent per rank\n",
           ranks, (double)x[999], exact, report.error, 1e-6 * (double)report.bytes_sent);
  hcomp_plan_free(&plan);
  MPI_Finalize();
  return x[999] < exact - 2e-4 || x[999] > exact + 2e-4;
}
