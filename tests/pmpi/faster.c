/* Tests which strategy all-reduces use with a when=faster rule, and that their results are right.
 * The program can slow down MPI's own all-reduce or its messages.
 *
 *   `faster B [1]`   no result may be off by more than B; 1 adds nonblocking all-reduces
 *
 * The calls are plain MPI calls. hcomp's calls of MPI reach the functions below: all-reduces
 * through PMPI_Allreduce and the functions like it, messages through MPI_Isend.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { n = 60000, most_reductions = 20000, in_a_row = 12 };
static float x[n], y[n];
static int rank, ranks, failures;
static double tolerance;

/* ---- Delays: nanoseconds per value of MPI's all-reduce, or per four bytes of a message ------- */
/* The fast setting takes 2 ms and the slow one 90 ms, so that other load on the machine hardly
 * matters. */
enum { fast_delay = 30, changed = 150, slow = 1500 };
static long of_sums, of_messages;
static int whole_sums; /* made by MPI */

static void take(double nanoseconds) {
  struct timespec const t = {0, (long)nanoseconds};
  if (nanoseconds > 0) nanosleep(&t, NULL);
}
static void take_for_call(int count) {
  whole_sums += count == n;
  if (count >= 1000) take((double)of_sums * count);
}
/* Finds MPI's own function of this name. */
#define MPIS_OWN(name, ...)       \
  static int (*own)(__VA_ARGS__); \
  if (!own) *(void**)&own = dlsym(RTLD_NEXT, #name);

int PMPI_Allreduce(void const* a, void* b, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  MPIS_OWN(PMPI_Allreduce, void const*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm)
  take_for_call(count);
  return own(a, b, count, type, op, comm);
}
int PMPI_Reduce(void const* a, void* b, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm) {
  MPIS_OWN(PMPI_Reduce, void const*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm)
  take_for_call(count);
  return own(a, b, count, type, op, root, comm);
}
int PMPI_Reduce_scatter(void const* a, void* b, int const counts[], MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm) {
  MPIS_OWN(PMPI_Reduce_scatter, void const*, void*, int const*, MPI_Datatype, MPI_Op, MPI_Comm)
  int all = 0;
  for (int r = 0; r < ranks; ++r) all += counts[r];
  take_for_call(all);
  return own(a, b, counts, type, op, comm);
}
int PMPI_Reduce_scatter_block(void const* a, void* b, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm) {
  MPIS_OWN(PMPI_Reduce_scatter_block, void const*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm)
  take_for_call(count * ranks);
  return own(a, b, count, type, op, comm);
}
int PMPI_Iallreduce(void const* a, void* b, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                    MPI_Request* request) {
  MPIS_OWN(PMPI_Iallreduce, void const*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*)
  whole_sums += count == n;
  return own(a, b, count, type, op, comm, request);
}
int MPI_Isend(void const* a, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  take((double)of_messages * count / 4);
  return PMPI_Isend(a, count, type, to, tag, comm, request);
}

/* ---- All-reduces ----------------------------------------------------------------------------- */
static float value(int of_rank, int i, int vector) {
  return (float)((i * 7 + of_rank * 13 + vector) % 101 - 50) * 0.01f;
}
static void check(char const* what, int first, int count, int vector) {
  for (int i = 0; i < count; ++i) {
    double exact = 0;
    for (int r = 0; r < ranks; ++r) exact += value(r, first + i, vector);
    if (fabs(y[i] - exact) <= tolerance) continue;
    fprintf(stderr, "rank %d, %s: value %d is %g, should be %g\n", rank, what, first + i, y[i],
            exact);
    ++failures;
    return;
  }
}
static void check_equal_bits(char const* what) {
  uint64_t hash = 14695981039346656037u, ends[2];
  for (int i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, &y[i], 4);
    hash = (hash ^ bits) * 1099511628211u;
  }
  ends[0] = hash, ends[1] = ~hash;
  MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (ends[0] == ~ends[1]) return;
  if (rank == 0) fprintf(stderr, "%s: ranks have different bits\n", what);
  ++failures;
}

static char const* const names[] = {
    "MPI_Allreduce",      "MPI_Allreduce in place",   "MPI_Reduce",
    "MPI_Reduce_scatter", "MPI_Reduce_scatter_block", "MPI_Iallreduce"};
/* Returns whether MPI's own all-reduce made the call. */
static int sum(int kind, int vector, MPI_Comm comm) {
  int const before = whole_sums, root = vector % ranks, each = n / ranks;
  int counts[8], first = 0, count = n;
  MPI_Request request;
  for (int i = 0; i < n; ++i) x[i] = value(rank, i, vector);
  for (int r = 0; r < ranks; ++r) counts[r] = r == 0 ? n - (ranks - 1) * (each / 2) : each / 2;
  if ((vector + rank) % 7 == 0) take(300e3); /* this rank is late */
  if (kind == 0) MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, comm);
  if (kind == 1) {
    memcpy(y, x, sizeof x);
    MPI_Allreduce(MPI_IN_PLACE, y, n, MPI_FLOAT, MPI_SUM, comm);
  }
  if (kind == 2) {
    MPI_Reduce(x, rank == root ? y : NULL, n, MPI_FLOAT, MPI_SUM, root, comm);
    if (rank != root) count = 0;
  }
  if (kind == 3) {
    MPI_Reduce_scatter(x, y, counts, MPI_FLOAT, MPI_SUM, comm);
    count = counts[rank];
    first = rank == 0 ? 0 : counts[0] + (rank - 1) * counts[1];
  }
  if (kind == 4) {
    MPI_Reduce_scatter_block(x, y, each, MPI_FLOAT, MPI_SUM, comm);
    count = each;
    first = rank * each;
  }
  if (kind == 5) {
    MPI_Iallreduce(x, y, n, MPI_FLOAT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  check(names[kind], first, count, vector);
  if (vector % 10 == 0 && count == n && kind != 2) check_equal_bits(names[kind]);
  return whole_sums != before;
}

/* Calls until the last few all-reduces in a row took the faster strategy on all ranks, at the
 * same call on each. If the ranks disagreed, some rank would wait forever. */
static void reduce_until(int kind, int by_mpi, int slow_delay, MPI_Comm comm) {
  int sums = 0;
  of_sums = by_mpi ? fast_delay : slow_delay;
  of_messages = by_mpi ? slow_delay : fast_delay;
  for (int row = 0; row < in_a_row && sums < most_reductions; ++sums)
    row = sum(kind, sums, comm) == by_mpi ? row + 1 : 0;
  if (rank == 0)
    printf("%s: %d sums until they go by %s\n", names[kind], sums, by_mpi ? "MPI" : "the codec");
  fflush(stdout);
  if (sums == most_reductions) ++failures;
}

int main(int argc, char** argv) {
  int const has_threads = argc > 2;
  int provided = 0;
  if (argc < 2) return 2;
  tolerance = atof(argv[1]);
  MPI_Init_thread(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int kind = 0; kind < 5; ++kind) {
    MPI_Comm one, other; /* each communicator has a trial of its own */
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    reduce_until(kind, 0, slow, one);
    reduce_until(kind, 1, slow, other);
    /* nonblocking all-reduces use the result of the blocking trials */
    if (has_threads && kind == 0 && (sum(5, 3, one) || !sum(5, 4, other))) ++failures;
    /* Detects a change. The opposite change may go unnoticed on a busy machine, where latency
     * dominates the time of messages with small parts of vectors. */
    if (kind == 0) reduce_until(kind, 1, changed, one);
    for (int k = 0; k < 50; ++k) sum(kind, k, other);
    MPI_Comm_free(&one);
    MPI_Comm_free(&other);
  }
  int all = 0;
  MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return rank == 0 && all > 0;
}
