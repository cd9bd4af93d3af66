/* Makes a known number of all-reduces and reads hcomp's counters through MPI_T.
 *
 *   totals T L   expects T all-reduces handled by hcomp and L calls left to MPI
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { values = 30000, totals = 4 };
static char const* const names[totals] = {"coll_hcomp_calls_taken", "coll_hcomp_calls_left",
                                          "coll_hcomp_bytes_plain", "coll_hcomp_bytes_sent"};

static MPI_T_pvar_session session;

static int index_of(char const* wanted) {
  int count = 0;
  MPI_T_pvar_get_num(&count);
  for (int i = 0; i < count; ++i) {
    char name[256] = "", words[1024];
    int length = sizeof name, words_length = sizeof words;
    int level, kind, bind, readonly, continuous, atomic;
    MPI_Datatype type;
    MPI_T_enum meanings;
    MPI_T_pvar_get_info(i, name, &length, &level, &kind, &type, &meanings, words, &words_length,
                        &bind, &readonly, &continuous, &atomic);
    if (strcmp(name, wanted) == 0) {
      if (type != MPI_UNSIGNED_LONG_LONG || !readonly || !continuous ||
          bind != MPI_T_BIND_NO_OBJECT)
        return -1;
      return i;
    }
  }
  return -1;
}

int main(int argc, char** argv) {
  unsigned long long const taken = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  unsigned long long const left = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  MPI_T_pvar_handle handles[totals];
  int rank, ranks, provided, failures = 0;
  MPI_Init(&argc, &argv);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_T_pvar_session_create(&session);
  for (int i = 0; i < totals; ++i) {
    int const index = index_of(names[i]);
    int count = 0;
    if (index < 0 ||
        MPI_T_pvar_handle_alloc(session, index, NULL, &handles[i], &count) != MPI_SUCCESS ||
        count != 1) {
      fprintf(stderr, "rank %d: MPI_T has no %s as it should be\n", rank, names[i]);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }

  float* const x = calloc(values, sizeof(float));
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other); /* internally calls MPI_Allreduce, which does not count */
  for (int k = 0; k < 3; ++k)
    MPI_Allreduce(MPI_IN_PLACE, x, values, MPI_FLOAT, MPI_SUM, k == 0 ? other : MPI_COMM_WORLD);
  /* large enough, and left to MPI */
  MPI_Allreduce(MPI_IN_PLACE, x, values, MPI_FLOAT, MPI_MAX, other);
  MPI_Allreduce(MPI_IN_PLACE, x, 10, MPI_FLOAT, MPI_SUM, other); /* too small to count */
  MPI_Comm_free(&other);

  unsigned long long got[totals];
  for (int i = 0; i < totals; ++i) MPI_T_pvar_read(session, handles[i], &got[i]);
  unsigned long long const plain =
      taken * (2 * (unsigned long long)(ranks - 1) * values * sizeof(float) / (unsigned)ranks);
  if (got[0] != taken || got[1] != left || got[2] != plain) ++failures;
  /* 16 of 32 bits, plus headers; the ranks' chunks differ slightly in size */
  if (got[3] < plain / 100 * 49 || got[3] > plain / 100 * 51) ++failures;
  if (failures > 0)
    fprintf(stderr,
            "rank %d: %llu taken, %llu left, %llu bytes plain, %llu sent; should be %llu, "
            "%llu, %llu, and half of that\n",
            rank, got[0], got[1], got[2], got[3], taken, left, plain);

  for (int i = 0; i < totals; ++i) MPI_T_pvar_handle_free(session, &handles[i]);
  MPI_T_pvar_session_free(&session);
  free(x);
  MPI_T_finalize();
  MPI_Finalize();
  return failures > 0;
}
