/* The C API with vectors in emulated device memory that it copies, or refuses. Any access except a
 * copy by libcuda ends the program with SIGSEGV. tests/gpu/c_api_test.cu has vectors that stay on
 * a device.
 *
 *   device_test LIBRARY   LIBRARY: the libcuda.so.1 of tests/pmpi/fake_cuda.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hcomp/hcomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "checks.h"

enum { values = 5003, bytes = 8 * 4096 };

static float* device;
static float host[values];
static void* cuda;

static int says(char const* part) { return strstr(hcomp_last_error(), part) != NULL; }

static void (*fail)(int);
static void (*use_pool)(void);

static float input(int of_rank, int i) { return (float)((i * 7 + of_rank * 5) % 11 - 5); }
static void fill(void) {
  int i;
  mprotect(device, bytes, PROT_READ | PROT_WRITE);
  for (i = 0; i < values; ++i) device[i] = input(rank, i);
  mprotect(device, bytes, PROT_NONE);
}
/* Returns whether the device has the results (sums != 0) or the inputs. */
static int has(int sums) {
  int i, r, right = 1;
  mprotect(device, bytes, PROT_READ);
  for (i = 0; i < values; ++i) {
    float expected = sums ? 0 : input(rank, i);
    for (r = 0; sums && r < ranks; ++r) expected += input(r, i);
    right &= device[i] == expected;
  }
  mprotect(device, bytes, PROT_NONE);
  return right;
}

int main(int count, char** arguments) {
  hcomp_plan *exact = NULL, *lossy = NULL;
  int turn, code;
  if (count != 2) return 2;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  cuda = dlopen(arguments[1], RTLD_NOW);
  device = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!cuda || device == MAP_FAILED) return 2;
  *(void**)&fail = dlsym(cuda, "fake_cuda_fail");
  *(void**)&use_pool = dlsym(cuda, "fake_cuda_use_pool");
  {
    void (*own)(void const*, size_t);
    *(void**)&own = dlsym(cuda, "fake_cuda_own");
    own(device, bytes);
  }

  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "identity", &exact));
  for (turn = 0; turn < 2; ++turn) {
    fill();
    CHECK_OK(hcomp_all_reduce(exact, device, NULL));
    CHECK(has(1));
  }

  /* One rank cannot read its vector: all ranks return an error, and no rank waits. */
  fill();
  if (rank == ranks - 1) fail(700);
  code = hcomp_all_reduce(exact, device, NULL);
  fail(0);
  CHECK(code == (ranks == 1 ? HCOMP_INVALID_ARGUMENT : HCOMP_DISAGREEMENT));
  CHECK(has(0));
  if (rank == ranks - 1)
    CHECK(
        says("with x in a device's memory, which cannot be reduced: cuMemcpyDtoH_v2 returns 700"));
  CHECK_OK(hcomp_all_reduce(exact, device, NULL));
  CHECK(has(1));

  use_pool();
  fill();
  CHECK_OK(hcomp_all_reduce(exact, device, NULL));
  CHECK(has(1));
  CHECK_OK(hcomp_plan_free(&exact));

  /* Without libhcomp_cuda.so nothing is copied to the host in its place. */
  setenv("HCOMP_CUDA_LIBRARY", "/no/libhcomp_cuda.so", 1);
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "thc feedback=yes", &lossy));
  fill();
  CHECK(hcomp_all_reduce(lossy, device, NULL) == HCOMP_INVALID_ARGUMENT);
  CHECK(says("with x in a device's memory, which cannot be reduced: libhcomp_cuda.so"));
  CHECK(says("/no/libhcomp_cuda.so: cannot open shared object file"));
  CHECK(has(0));
  for (turn = 0; turn < values; ++turn) host[turn] = input(rank, turn);
  CHECK_OK(hcomp_all_reduce(lossy, host, NULL));
  CHECK_OK(hcomp_plan_get_residual(lossy, host));
  CHECK(hcomp_plan_get_residual(lossy, device) == HCOMP_INVALID_ARGUMENT);
  CHECK(says("residual is in a device's memory, it has to be in the host's"));
  CHECK_OK(hcomp_plan_free(&lossy));

  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
