/* All-reduces with a codec from outside the tree: through the C API, and with an argument through
 * MPI_Allreduce, with libhcomp_pmpi.so before MPI and "float: steps 0.5" in HCOMP_CONFIG. */
#include <hcomp/hcomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { values = 100000 };
static float x[values];
static double y[values];
static int rank, ranks;

static void require(int holds, int line) {
  if (holds) return;
  printf("rank %d of %d, line %d; the last error was '%s'\n", rank, ranks, line,
         hcomp_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define REQUIRE(condition) require((condition), __LINE__)

int main(int argc, char** argv) {
  hcomp_plan* sum = NULL;
  int i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (i = 0; i < values; ++i) x[i] = 0.3f;
  for (i = 0; i < values; ++i) y[i] = 0.3;
  if (argc > 1) { /* the error for a file that is no codec library */
    REQUIRE(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "fp16", &sum) ==
            HCOMP_INVALID_ARGUMENT);
    REQUIRE(strstr(hcomp_last_error(), argv[1]) != NULL);
    if (rank == 0) printf("%s\n", hcomp_last_error());
    MPI_Finalize();
    return 0;
  }

  REQUIRE(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "steps 0.25", &sum) == HCOMP_OK);
  REQUIRE(hcomp_all_reduce(sum, x, NULL) == HCOMP_OK);
  for (i = 0; i < values; ++i) REQUIRE(x[i] == 0.25f * (float)ranks);
  REQUIRE(hcomp_plan_free(&sum) == HCOMP_OK);
  REQUIRE(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_DOUBLE, "steps step=0.125", &sum) ==
          HCOMP_OK);
  REQUIRE(hcomp_all_reduce(sum, y, NULL) == HCOMP_OK);
  for (i = 0; i < values; ++i) REQUIRE(y[i] == 0.25 * ranks);
  REQUIRE(hcomp_plan_free(&sum) == HCOMP_OK);
  REQUIRE(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "steps 3", &sum) != HCOMP_OK);
  REQUIRE(strstr(hcomp_last_error(), "step is a number from 1e-06 to 1") != NULL);

  for (i = 0; i < values; ++i) x[i] = 0.3f;
  MPI_Allreduce(MPI_IN_PLACE, x, values, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (i = 0; i < values; ++i)
    REQUIRE(x[i] == (ranks > 1 && getenv("HCOMP_CONFIG") ? 0.5f * (float)ranks : x[0]));
  if (rank == 0) printf("a codec from outside sums on %d ranks\n", ranks);
  MPI_Finalize();
  return 0;
}
