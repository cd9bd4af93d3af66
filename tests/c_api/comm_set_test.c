/* hcomp_comm_set with libhcomp_pmpi.so before MPI: its effect on MPI_Allreduce. */
#include <hcomp/hcomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { values = 100000 };
static float x[values], total[values];
static int rank, ranks;

static void require(int holds, int line) {
  if (holds) return;
  printf("rank %d of %d, line %d; the last error was '%s'\n", rank, ranks, line,
         hcomp_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define REQUIRE(condition) require((condition), __LINE__)

/* Returns the common value of all elements of the sum of x. */
static float sum_over(MPI_Comm comm) {
  int i;
  MPI_Allreduce(x, total, values, MPI_FLOAT, MPI_SUM, comm);
  for (i = 1; i < values; ++i) REQUIRE(total[i] == total[0]);
  return total[0];
}

int main(int argc, char** argv) {
  MPI_Comm comm, copy;
  float exact;
  int i, code;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (i = 0; i < values; ++i) x[i] = 1 + 0x1p-20f; /* fp16 rounds it to 1 */
  exact = (float)ranks * x[0];
  REQUIRE(sum_over(comm) == exact);

  REQUIRE(hcomp_comm_set(comm, "float: fp16") == HCOMP_OK);
  REQUIRE(sum_over(comm) == (float)ranks);
  REQUIRE(sum_over(MPI_COMM_WORLD) == exact); /* other communicators keep their settings */
  MPI_Comm_dup(comm, &copy);
  REQUIRE(sum_over(copy) == (float)ranks);
  REQUIRE(hcomp_comm_set(comm, NULL) == HCOMP_OK);
  REQUIRE(sum_over(comm) == exact);
  REQUIRE(sum_over(copy) == (float)ranks);

  code = hcomp_comm_set(comm, rank == 0 ? "float: gzip" : "float: fp16");
  REQUIRE(code != HCOMP_OK && strncmp(hcomp_last_error(), "hcomp_comm_set: ", 16) == 0);
  REQUIRE(rank != 0 || strstr(hcomp_last_error(), "no codec is called 'gzip'") != NULL);
  REQUIRE(sum_over(comm) == exact);
  code = hcomp_comm_set(comm, rank == 0 ? "float: bf16" : "float: fp16");
  REQUIRE(code != HCOMP_OK && strstr(hcomp_last_error(), "ranks have different settings") != NULL);
  code = hcomp_comm_set(comm, "float: sign when=faster");
  REQUIRE(code != HCOMP_OK && strstr(hcomp_last_error(), "conflicts with feedback=yes") != NULL);

  /* either strategy, the same on all ranks */
  REQUIRE(hcomp_comm_set(comm, "float: fp16 when=faster") == HCOMP_OK);
  for (i = 0; i < 20; ++i) {
    float const sum = sum_over(comm);
    float of_rank_0 = sum;
    MPI_Bcast(&of_rank_0, 1, MPI_FLOAT, 0, comm);
    REQUIRE(sum == of_rank_0);
    REQUIRE(sum == exact || sum == (float)ranks);
    REQUIRE(i >= 8 || ranks == 1 || sum == (i % 2 ? (float)ranks : exact)); /* during the trial */
  }
  REQUIRE(hcomp_comm_set(comm, NULL) == HCOMP_OK);
  REQUIRE(sum_over(comm) == exact);
  REQUIRE(hcomp_comm_set(MPI_COMM_NULL, NULL) == HCOMP_INVALID_ARGUMENT);

  MPI_Comm_free(&copy);
  MPI_Comm_free(&comm);
  if (rank == 0) printf("hcomp_comm_set does what it says on %d ranks\n", ranks);
  MPI_Finalize();
  return 0;
}
