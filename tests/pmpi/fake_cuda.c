/* What a process sees of libcuda.so.1: whose memory a pointer points to, and copies. That memory is
 * closed but for copies. */
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

typedef unsigned long long device_pointer; /* CUdeviceptr */

static char const *begin, *end;
static int contexts, failure;
static int the_context;

/* From now on this is the memory of a device: whole pages. */
void fake_cuda_own(void const* memory, size_t bytes) {
  begin = memory;
  end = begin + bytes;
}
/* What copies return from now on. */
void fake_cuda_fail(int code) { failure = code; }

static int is_inside(device_pointer pointer) {
  char const* const place = (char const*)pointer;
  return place >= begin && place < end;
}

/* CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) */
int cuPointerGetAttribute(void* value, int attribute, device_pointer pointer) {
  if (!is_inside(pointer)) return 1; /* INVALID_VALUE, as of memory that CUDA does not know */
  if (attribute == 1 /* CONTEXT */)
    *(void**)value = &the_context;
  else if (attribute == 2 /* MEMORY_TYPE */)
    *(unsigned*)value = 2 /* DEVICE */;
  else
    return 1;
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

static int copy(void* to, void const* from, size_t bytes) {
  if (contexts == 0) return 201;
  if (failure != 0) return failure;
  mprotect((void*)begin, (size_t)(end - begin), PROT_READ | PROT_WRITE);
  memcpy(to, from, bytes);
  mprotect((void*)begin, (size_t)(end - begin), PROT_NONE);
  return 0;
}
int cuMemcpyDtoH_v2(void* to, device_pointer from, size_t bytes) {
  return is_inside(from) ? copy(to, (void const*)from, bytes) : 1;
}
int cuMemcpyHtoD_v2(device_pointer to, void const* from, size_t bytes) {
  return is_inside(to) ? copy((void*)to, from, bytes) : 1;
}
