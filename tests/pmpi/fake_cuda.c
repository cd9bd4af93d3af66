/* An emulated libcuda.so.1: pointer attributes and copies. Only its copies can access the
 * emulated device memory. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef unsigned long long device_pointer; /* CUdeviceptr */

static char const *begin, *end;
static int reading_failure, writing_failure, is_of_pool;
static _Thread_local int contexts; /* of this thread */
static int the_context;
/* A copy to the device that has read its source and has not written its destination. */
static struct {
  device_pointer to;
  void* bytes;
  size_t count;
} late;

/* Makes these whole pages device memory from now on. */
void fake_cuda_own(void const* memory, size_t bytes) {
  begin = memory;
  end = begin + bytes;
}
/* Sets the result of copies from now on. */
void fake_cuda_fail(int code) { reading_failure = writing_failure = code; }
/* Sets the result of copies from the device, or to the device, from now on. */
void fake_cuda_fail_reading(int code) { reading_failure = code; }
void fake_cuda_fail_writing(int code) { writing_failure = code; }
/* From now on the memory belongs to a pool, hence to no context. This thread has one context. */
void fake_cuda_use_pool(void) {
  is_of_pool = 1;
  ++contexts;
}

static int is_inside(device_pointer pointer) {
  char const* const place = (char const*)pointer;
  return place >= begin && place < end;
}

/* CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) */
int cuPointerGetAttribute(void* value, int attribute, device_pointer pointer) {
  if (!is_inside(pointer)) return 1; /* INVALID_VALUE: memory that CUDA does not know */
  if (attribute == 1 /* CONTEXT */)
    *(void**)value = is_of_pool ? NULL : &the_context;
  else if (attribute == 2 /* MEMORY_TYPE */)
    *(unsigned*)value = 2 /* DEVICE */;
  else
    return 1;
  return 0;
}

int cuCtxGetCurrent(void** context) {
  *context = contexts > 0 ? &the_context : NULL;
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  if (context != &the_context) return 201; /* INVALID_CONTEXT */
  ++contexts;
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  if (contexts == 0) return 201;
  --contexts;
  *context = &the_context;
  return 0;
}

static void move(void* to, void const* from, size_t bytes) {
  mprotect((void*)begin, (size_t)(end - begin), PROT_READ | PROT_WRITE);
  memcpy(to, from, bytes);
  mprotect((void*)begin, (size_t)(end - begin), PROT_NONE);
}
static void finish(void) {
  if (late.bytes) move((void*)late.to, late.bytes, late.count);
  free(late.bytes);
  late.bytes = NULL;
}
int cuStreamSynchronize(void* stream) {
  if (contexts == 0) return 201;
  if (stream == NULL) finish();
  return 0;
}
int cuMemcpyDtoH_v2(void* to, device_pointer from, size_t bytes) {
  if (!is_inside(from)) return 1;
  if (contexts == 0) return 201;
  if (reading_failure != 0) return reading_failure;
  finish();
  move(to, (void const*)from, bytes);
  return 0;
}
int cuMemcpyHtoD_v2(device_pointer to, void const* from, size_t bytes) {
  if (!is_inside(to)) return 1;
  if (contexts == 0) return 201;
  if (writing_failure != 0) return writing_failure;
  finish();
  late.to = to;
  late.count = bytes;
  late.bytes = malloc(bytes);
  if (!late.bytes) return 2; /* OUT_OF_MEMORY */
  memcpy(late.bytes, from, bytes);
  return 0;
}
