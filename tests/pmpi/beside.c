/* What programs do beside their reductions must not be disturbed, and must not disturb them.
 *
 *   beside collectives N   on N communicators, other collectives follow the first reduction at once
 *   beside jobs            reductions between the ranks of two jobs (MPI_Comm_spawn)
 *   beside wide            MPI_REAL has 8 bytes, as gfortran's -fdefault-real-8 makes it
 *   beside environment     rank 1 rounds upwards and flushes denormals, the last rank traps errors
 *   beside directory       the working directory changes
 *
 * The program does not use hcomp. All values are whole numbers, or their bits are compared between
 * ranks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

enum { n = 1000, few = 10, most_ranks = 8 };
static int rank, ranks, failures;

static void require(int is_right, char const* what) {
  if (is_right) return;
  ++failures;
  fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
}

/* ---- Other collectives ----------------------------------------------------------------------- */
static void use(MPI_Comm comm, int first_waits, int root) {
  float x[n], sum[n];
  int from_root[few], mine[few], all[most_ranks * few], largest[few];
  for (int i = 0; i < n; ++i) x[i] = (float)(rank + i);
  for (int i = 0; i < few; ++i) {
    from_root[i] = rank == root ? i : -1;
    mine[i] = 100 * rank + i;
  }
  MPI_Request requests[4];
  if (first_waits) {
    MPI_Allreduce(x, sum, n, MPI_FLOAT, MPI_SUM, comm);
    requests[0] = MPI_REQUEST_NULL;
  } else {
    MPI_Iallreduce(x, sum, n, MPI_FLOAT, MPI_SUM, comm, &requests[0]);
  }
  if (rank == root) usleep(300);
  MPI_Ibcast(from_root, few, MPI_INT, root, comm, &requests[1]);
  MPI_Iallgather(mine, few, MPI_INT, all, few, MPI_INT, comm, &requests[2]);
  MPI_Ireduce(mine, largest, few, MPI_INT, MPI_MAX, root, comm, &requests[3]);
  MPI_Comm copy;
  MPI_Comm_dup(comm, &copy);
  for (int i = 0; i < 4; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  for (int i = 0; i < n; ++i)
    require(sum[i] == (float)(ranks * (ranks - 1) / 2 + i * ranks), "a sum");
  for (int i = 0; i < few; ++i) {
    require(from_root[i] == i, "a broadcast");
    require(rank != root || largest[i] == 100 * (ranks - 1) + i, "a reduction of integers");
    for (int r = 0; r < ranks; ++r) require(all[r * few + i] == 100 * r + i, "an all-gather");
  }
  MPI_Comm_free(&copy);
}
static void use_many(int communicators) {
  for (int k = 0; k < communicators && failures == 0; ++k) {
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
    use(comm, k % 2, k / 2 % ranks);
    MPI_Comm_free(&comm);
  }
}

/* ---- Two jobs -------------------------------------------------------------------------------- */
static void reduce_between_jobs(char* program) {
  MPI_Comm parent, children, both;
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    char* arguments[] = {"jobs", NULL};
    MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(children, 0, &both);
  } else {
    MPI_Intercomm_merge(parent, 1, &both);
  }
  int size;
  MPI_Comm_size(both, &size);
  require(size == ranks + 2, "the number of ranks");
  for (int k = 0; k < 4; ++k) {
    float x[n];
    for (int i = 0; i < n; ++i) x[i] = 1;
    if (k % 2 == 0) {
      MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, both);
    } else {
      MPI_Request request;
      MPI_Iallreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, both, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < n; ++i) require(x[i] == (float)size, "a sum over two jobs");
  }
  MPI_Comm_free(&both);
}

/* ---- MPI_REAL of 8 bytes --------------------------------------------------------------------- */
static int is_wide;
/* hcomp asks by this function. MPI itself still knows 4 bytes, so the call must not reach it. */
int PMPI_Type_size(MPI_Datatype type, int* size) {
  static int (*own)(MPI_Datatype, int*);
  if (!own) *(void**)&own = dlsym(RTLD_NEXT, "PMPI_Type_size");
  int const code = own(type, size);
  if (is_wide && type == MPI_REAL) *size = 8;
  return code;
}
static void reduce_wide(void) {
  double x[n];
  is_wide = 1;
  for (int i = 0; i < n; ++i) x[i] = i - 0.5;
  MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < n; ++i) require(x[i] == ranks * (i - 0.5), "a sum of 8-byte reals");
  is_wide = 0;
}

/* ---- The floating-point environment ---------------------------------------------------------- */
static unsigned environment(void) {
#if defined(__SSE2__)
  return _mm_getcsr() & ~0x3fu; /* without exception flags */
#else
  return (unsigned)fegetround();
#endif
}
static void set_environment(void) {
#if defined(__SSE2__)
  if (rank == 1) _mm_setcsr(_mm_getcsr() | 0x8040); /* FTZ, DAZ */
#endif
  if (rank == 1) fesetround(FE_UPWARD);
  if (rank == ranks - 1) feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
}
static void reduce_as(MPI_Datatype type, int bytes, void* x, char const* what) {
  set_environment();
  unsigned const before = environment();
  MPI_Allreduce(MPI_IN_PLACE, x, n, type, MPI_SUM, MPI_COMM_WORLD);
  require(environment() == before, "the environment after a call");
  fesetenv(FE_DFL_ENV);
  char* const first = malloc((size_t)(n * bytes));
  memcpy(first, x, (size_t)(n * bytes));
  MPI_Bcast(first, n * bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  require(memcmp(first, x, (size_t)(n * bytes)) == 0, what);
  free(first);
}
static void reduce_in_environments(void) {
  double const scales[] = {1e-2, 300, 1e-39, 1e-309};
  for (int k = 0; k < 8; ++k) {
    float x[n];
    double y[n];
    for (int i = 0; i < n; ++i) {
      int const whole = (int)((i * 2654435761u + 97u * (unsigned)rank) % 20011) - 10005;
      y[i] = i % 3 == 0 ? whole * 1e-6 : whole * 1e-4 * scales[k % 4];
      x[i] = (float)y[i];
    }
    reduce_as(MPI_FLOAT, sizeof *x, x, "a sum of floats");
    reduce_as(MPI_DOUBLE, sizeof *y, y, "a sum of doubles");
  }
}

int main(int argc, char** argv) {
  char const* const mode = argc > 1 ? argv[1] : "";
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (strcmp(mode, "collectives") == 0) {
    use_many(atoi(argv[2]));
  } else if (strcmp(mode, "jobs") == 0) {
    reduce_between_jobs(argv[0]);
  } else if (strcmp(mode, "wide") == 0) {
    reduce_wide();
  } else if (strcmp(mode, "environment") == 0) {
    reduce_in_environments();
  } else if (strcmp(mode, "directory") == 0) {
    require(chdir("/proc") == 0, "a change of the directory");
    reduce_in_environments();
  } else {
    require(0, mode);
  }
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) puts("as it should be");
  MPI_Finalize();
  return all > 0;
}
