/* What a process sees of libcuda.so.1 when it asks whose memory a pointer points to. */
#include <stddef.h>

static char const *begin, *end;

/* From now on this is the memory of a device. */
void fake_cuda_own(void const* memory, size_t bytes) {
  begin = memory;
  end = begin + bytes;
}

/* CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) */
int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  if (attribute != 2 /* MEMORY_TYPE */) return 1 /* INVALID_VALUE */;
  char const* const place = (char const*)pointer;
  if (place < begin || place >= end) return 1; /* as of memory that CUDA does not know */
  *(unsigned*)value = 2 /* DEVICE */;
  return 0;
}
