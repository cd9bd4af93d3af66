/* A program that does not use hcomp, with vectors in emulated device memory. Only copies by libcuda
 * may access that memory; any other access ends the program with SIGSEGV. The MPI is CUDA-aware.
 *
 *   device LIBRARY [CASE]   LIBRARY: the libcuda.so.1 to load after the first all-reduce
 *
 * Cases: pool, the memory belongs to a pool; unreadable and unwritable, copies from the device or
 * to the device fail on the last rank; returning, copies fail for a while and the program gets
 * MPI's errors.
 *
 * The program asks for MPI_THREAD_MULTIPLE.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { n = 30000 };

static int rank, ranks, failures = 0;
static float *device, *host; /* two vectors each */

static void open_device(void) { mprotect(device, 2 * n * sizeof(float), PROT_READ | PROT_WRITE); }
static void close_device(void) { mprotect(device, 2 * n * sizeof(float), PROT_NONE); }

/* ---- MPI functions that read device memory: hcomp calls them, too --------------------------- */

#define REAL(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))
#define REACHING(call)     \
  open_device();           \
  int const code = (call); \
  close_device();          \
  return code

int PMPI_Allreduce(void const* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm) {
  REACHING(REAL(PMPI_Allreduce)(send, receive, count, type, op, comm));
}
int PMPI_Reduce(void const* send, void* receive, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm) {
  REACHING(REAL(PMPI_Reduce)(send, receive, count, type, op, root, comm));
}
int PMPI_Reduce_scatter(void const* send, void* receive, int const* counts, MPI_Datatype type,
                        MPI_Op op, MPI_Comm comm) {
  REACHING(REAL(PMPI_Reduce_scatter)(send, receive, counts, type, op, comm));
}
int PMPI_Reduce_scatter_block(void const* send, void* receive, int count, MPI_Datatype type,
                              MPI_Op op, MPI_Comm comm) {
  REACHING(REAL(PMPI_Reduce_scatter_block)(send, receive, count, type, op, comm));
}

/* ---- Vectors and operations ----------------------------------------------------------------- */

static float value(int r, int i) { return (float)((i * 7 + r * 5) % 11 - 5); }

/* Fills `from` with the input and `to` with garbage. */
static void fill(float* from, float* to) {
  open_device();
  for (int i = 0; i < n; ++i) {
    if (to) to[i] = -1000;
    from[i] = value(rank, i);
  }
  close_device();
}
static void check(char const* what, float const* found, int first, int count) {
  open_device();
  for (int i = 0; i < count; ++i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value(r, first + i);
    if (found[i] == sum) continue;
    fprintf(stderr, "rank %d, %s: value %d is %g, should be %g\n", rank, what, i, (double)found[i],
            (double)sum);
    ++failures;
    break;
  }
  close_device();
}

static void reduce_on_devices(MPI_Comm comm) {
  float *const x = device, *const y = device + n;
  fill(x, y);
  MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, comm);
  check("MPI_Allreduce", y, 0, n);
  MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, comm);
  check("MPI_Allreduce in place", x, 0, n);
  fill(x, host);
  MPI_Allreduce(x, host, n, MPI_FLOAT, MPI_SUM, comm);
  check("MPI_Allreduce to the host", host, 0, n);
  fill(host, y);
  MPI_Allreduce(host, y, n, MPI_FLOAT, MPI_SUM, comm);
  check("MPI_Allreduce from the host", y, 0, n);

  /* on one rank only: the other ranks cannot see it */
  int const on_device = rank == ranks - 1;
  float *const from = on_device ? x : host, *const to = on_device ? y : host + n;
  fill(from, to);
  MPI_Allreduce(from, to, n, MPI_FLOAT, MPI_SUM, comm);
  check("MPI_Allreduce of one device", to, 0, n);
  MPI_Allreduce(MPI_IN_PLACE, from, n, MPI_FLOAT, MPI_SUM, comm);
  check("MPI_Allreduce of one device in place", from, 0, n);

  fill(x, y);
  MPI_Reduce(x, rank == 0 ? y : NULL, n, MPI_FLOAT, MPI_SUM, 0, comm);
  if (rank == 0) check("MPI_Reduce", y, 0, n);
  fill(host, y);
  MPI_Reduce(host, rank == 0 ? y : NULL, n, MPI_FLOAT, MPI_SUM, 0, comm);
  if (rank == 0) check("MPI_Reduce to one device", y, 0, n);

  int const each = n / ranks;
  fill(from, to);
  MPI_Reduce_scatter_block(from, to, each, MPI_FLOAT, MPI_SUM, comm);
  check("MPI_Reduce_scatter_block", to, rank * each, each);
  int* const counts = calloc((size_t)ranks, sizeof(int)); /* shards too unequal for segments */
  counts[0] = n - ranks + 1;
  for (int r = 1; r < ranks; ++r) counts[r] = 1;
  fill(from, to);
  MPI_Reduce_scatter(from, to, counts, MPI_FLOAT, MPI_SUM, comm);
  check("MPI_Reduce_scatter", to, rank == 0 ? 0 : n - ranks + rank, counts[rank]);
  free(counts);

  MPI_Request request;
  fill(from, to);
  MPI_Iallreduce(from, to, n, MPI_FLOAT, MPI_SUM, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check("MPI_Iallreduce", to, 0, n);

  MPI_Request both[2]; /* two concurrent requests, completed in another order */
  fill(x, NULL);
  fill(y, NULL);
  MPI_Iallreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, comm, &both[0]);
  MPI_Iallreduce(MPI_IN_PLACE, y, n, MPI_FLOAT, MPI_SUM, comm, &both[1]);
  MPI_Wait(&both[1], MPI_STATUS_IGNORE);
  check("the second MPI_Iallreduce", y, 0, n);
  MPI_Wait(&both[0], MPI_STATUS_IGNORE);
  check("the first MPI_Iallreduce", x, 0, n);

  MPI_Allreduce_init(from, to, n, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL, &request);
  for (int i = 0; i < 3; ++i) {
    fill(from, to);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check("MPI_Allreduce_init", to, 0, n);
  }
  MPI_Request_free(&request);
}

static void (*fail_reading)(int);
static void (*fail_writing)(int);

/* Some calls fail on one rank: all ranks continue together, through trials and probes of
 * when=faster. */
static void reduce_with_errors(MPI_Comm comm, int is_last) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  float *const x = device, *const y = device + n;
  int errors = 0;
  for (int i = 0; i < 80; ++i) {
    if (is_last) fail_writing(i < 12 ? 700 : 0);
    if (is_last) fail_reading(i >= 12 && i < 60 ? 700 : 0);
    fill(x, y);
    if (MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, comm) != MPI_SUCCESS)
      ++errors;
    else
      check("MPI_Allreduce beside errors", y, 0, n);
  }
  if (is_last ? errors == 0 || errors > 12 : errors != 0) {
    fprintf(stderr, "rank %d: %d calls have failed\n", rank, errors);
    ++failures;
  }
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  host = malloc(2 * n * sizeof(float));
  device = mmap(NULL, 2 * n * sizeof(float), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  fill(host, host + n);
  MPI_Allreduce(host, host + n, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);

  void* const cuda = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  void (*own)(void const*, size_t) = NULL;
  if (cuda) *(void**)&own = dlsym(cuda, "fake_cuda_own");
  if (!own) {
    fprintf(stderr, "%s\n", dlerror());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  own(device, 2 * n * sizeof(float));
  char const* const what = argc > 2 ? argv[2] : "";
  int const is_last = rank == ranks - 1;
  void (*use_pool)(void) = NULL;
  *(void**)&use_pool = dlsym(cuda, "fake_cuda_use_pool");
  *(void**)&fail_reading = dlsym(cuda, "fake_cuda_fail_reading");
  *(void**)&fail_writing = dlsym(cuda, "fake_cuda_fail_writing");
  if (strcmp(what, "pool") == 0) use_pool();
  if (strcmp(what, "unreadable") == 0 && is_last) fail_reading(700);
  if (strcmp(what, "unwritable") == 0 && is_last) fail_writing(700);
  if (strcmp(what, "returning") == 0)
    reduce_with_errors(MPI_COMM_WORLD, is_last);
  else
    reduce_on_devices(MPI_COMM_WORLD);

  fill(host, host + n);
  MPI_Allreduce(host, host + n, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);

  int all = 0;
  PMPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) puts("as it should be");
  MPI_Finalize();
  return all > 0;
}
