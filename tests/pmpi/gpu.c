/* A program that does not use hcomp, with vectors in GPU memory. The MPI need not be CUDA-aware.
 * All ranks share the first GPU. Without a GPU the program prints "Skipped: " and the reason.
 *
 *   gpu [VALUES [TURNS]]    floats, default 1000003; all-reduces to time and print, default 0
 *
 * The program loads libcuda.so.1 at run time.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks, failures = 0;

/* ---- The CUDA driver API, by the names that its header gives the functions ------------------- */

typedef unsigned long long device_pointer;

static int (*get_device)(int*, int);
static int (*retain_context)(void**, int);
static int (*use_context)(void*);
static int (*allocate)(device_pointer*, size_t);
static int (*allocate_of_pool)(device_pointer*, size_t, void*);
static int (*copy_to_device)(device_pointer, void const*, size_t);
static int (*copy_from_device)(void*, device_pointer, size_t);
static int (*wait_for_all)(void);

static void require(int code, char const* what) {
  if (code == 0) return;
  fprintf(stderr, "rank %d: %s returns %d\n", rank, what, code);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Returns null, or the reason why no GPU is available. */
static char const* find_gpu(void) {
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (!cuda) return "no GPU: there is no libcuda.so.1";
  int (*init)(unsigned) = NULL;
  *(void**)&init = dlsym(cuda, "cuInit");
  *(void**)&get_device = dlsym(cuda, "cuDeviceGet");
  *(void**)&retain_context = dlsym(cuda, "cuDevicePrimaryCtxRetain");
  *(void**)&use_context = dlsym(cuda, "cuCtxSetCurrent");
  *(void**)&allocate = dlsym(cuda, "cuMemAlloc_v2");
  *(void**)&allocate_of_pool = dlsym(cuda, "cuMemAllocAsync");
  *(void**)&copy_to_device = dlsym(cuda, "cuMemcpyHtoD_v2");
  *(void**)&copy_from_device = dlsym(cuda, "cuMemcpyDtoH_v2");
  *(void**)&wait_for_all = dlsym(cuda, "cuCtxSynchronize");
  if (!init || !allocate_of_pool || !wait_for_all) return "no GPU: its driver is too old";
  int device = 0;
  void* context = NULL;
  if (init(0) != 0 || get_device(&device, 0) != 0) return "no GPU: the driver finds none";
  require(retain_context(&context, device), "cuDevicePrimaryCtxRetain");
  require(use_context(context), "cuCtxSetCurrent");
  return NULL;
}

/* ---- Vectors and operations ------------------------------------------------------------------ */

static float value(int r, int i) { return (float)((i * 7 + r * 5) % 11 - 5); }

static void fill(device_pointer to, float* host, int n) {
  for (int i = 0; i < n; ++i) host[i] = value(rank, i);
  require(copy_to_device(to, host, (size_t)n * sizeof(float)), "cuMemcpyHtoD_v2");
}
static void check(char const* what, device_pointer from, float* host, int n) {
  require(copy_from_device(host, from, (size_t)n * sizeof(float)), "cuMemcpyDtoH_v2");
  for (int i = 0; i < n; ++i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value(r, i);
    if (host[i] == sum) continue;
    fprintf(stderr, "rank %d, %s: value %d is %g, should be %g\n", rank, what, i, (double)host[i],
            (double)sum);
    ++failures;
    return;
  }
}

static void sum(char const* memory, device_pointer x, device_pointer y, float* host, int n) {
  char what[80];
  fill(x, host, n);
  MPI_Allreduce((void*)x, (void*)y, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  snprintf(what, sizeof(what), "MPI_Allreduce of memory of %s", memory);
  check(what, y, host, n);
  MPI_Allreduce(MPI_IN_PLACE, (void*)x, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  snprintf(what, sizeof(what), "MPI_Allreduce in place of memory of %s", memory);
  check(what, x, host, n);
  MPI_Request request;
  fill(x, host, n);
  MPI_Iallreduce((void*)x, (void*)y, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  snprintf(what, sizeof(what), "MPI_Iallreduce of memory of %s", memory);
  check(what, y, host, n);
}

/* The baseline: a program without hcomp copies through pageable memory. */
static void say_times(device_pointer x, float* host, int n, int turns) {
  size_t const bytes = (size_t)n * sizeof(float);
  double times[3] = {1e9, 1e9, 1e9};
  for (int turn = 0; turn < turns; ++turn)
    for (int strategy = 0; strategy < 3; ++strategy) {
      MPI_Barrier(MPI_COMM_WORLD);
      double const begin = MPI_Wtime();
      if (strategy == 0) {
        MPI_Allreduce(MPI_IN_PLACE, (void*)x, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      } else {
        if (strategy == 1) require(copy_from_device(host, x, bytes), "cuMemcpyDtoH_v2");
        MPI_Allreduce(MPI_IN_PLACE, host, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (strategy == 1) require(copy_to_device(x, host, bytes), "cuMemcpyHtoD_v2");
      }
      require(wait_for_all(), "cuCtxSynchronize");
      double const took = MPI_Wtime() - begin;
      if (took < times[strategy]) times[strategy] = took;
    }
  if (rank == 0)
    printf("%d floats, least of %d, ms: %.3f, copied by hand %.3f, of the host %.3f\n", n, turns,
           1e3 * times[0], 1e3 * times[1], 1e3 * times[2]);
}

int main(int argc, char** argv) {
  int provided = 0, skipped = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int const n = argc > 1 ? atoi(argv[1]) : 1000003, turns = argc > 2 ? atoi(argv[2]) : 0;
  if (n < 1 || turns < 0) {
    fprintf(stderr, "gpu: %s values and %s turns; it takes at least 1 and 0\n", argv[1],
            argc > 2 ? argv[2] : "0");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  float* const host = malloc((size_t)n * sizeof(float));

  char const* const missing = find_gpu();
  int const mine = missing != NULL;
  MPI_Allreduce(&mine, &skipped, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (skipped && rank == 0) printf("Skipped: %s\n", missing ? missing : "a rank has no GPU");
  if (!skipped) {
    device_pointer x = 0, y = 0;
    require(allocate(&x, (size_t)n * sizeof(float)), "cuMemAlloc_v2");
    require(allocate(&y, (size_t)n * sizeof(float)), "cuMemAlloc_v2");
    sum("the device", x, y, host, n);
    if (turns > 0) say_times(x, host, n, turns);
    require(allocate_of_pool(&x, (size_t)n * sizeof(float), NULL), "cuMemAllocAsync");
    require(allocate_of_pool(&y, (size_t)n * sizeof(float), NULL), "cuMemAllocAsync");
    require(wait_for_all(), "cuCtxSynchronize");
    sum("a pool", x, y, host, n);
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    failures = all;
    if (rank == 0 && all == 0) puts("as it should be");
  }
  free(host);
  MPI_Finalize();
  return failures > 0;
}
