/// @file
/// libcuda.so.1 for programs on the PTX machine: memory, its attributes, and copies, for code that
/// asks the driver and not the runtime. Memory belongs to no context, like that of pools.

#include <cuda_runtime.h>

#include <cstddef>

namespace {

constexpr int success = 0, invalid_value = 1, unknown = 999;

int copied(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpy(to, from, bytes, kind) == cudaSuccess ? success : unknown;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return success; }
int cuDeviceGet(int* device, int number) {
  *device = number;
  return number == 0 ? success : invalid_value;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = nullptr;
  return success;
}
int cuCtxSetCurrent(void*) { return success; }
int cuCtxSynchronize() { return cudaDeviceSynchronize() == cudaSuccess ? success : unknown; }
int cuMemAlloc_v2(unsigned long long* memory, std::size_t bytes) {
  void* allocated = nullptr;
  if (cudaMalloc(&allocated, bytes) != cudaSuccess) return unknown;
  *memory = reinterpret_cast<unsigned long long>(allocated);
  return success;
}
int cuMemAllocAsync(unsigned long long* memory, std::size_t bytes, void*) {
  return cuMemAlloc_v2(memory, bytes);
}

/// CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr)
int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  constexpr int context = 1, memory_type = 2;
  constexpr unsigned of_host = 1, of_device = 2;
  cudaPointerAttributes about;
  if (cudaPointerGetAttributes(&about, reinterpret_cast<void const*>(pointer)) != cudaSuccess)
    return unknown;
  if (about.type == cudaMemoryTypeUnregistered) return invalid_value;
  if (attribute == context)
    *static_cast<void**>(value) = nullptr;
  else if (attribute == memory_type)
    *static_cast<unsigned*>(value) = about.type == cudaMemoryTypeHost ? of_host : of_device;
  else
    return invalid_value;
  return success;
}
int cuCtxGetCurrent(void** context) {
  *context = nullptr;
  return success;
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
  return copied(to, reinterpret_cast<void const*>(from), bytes, cudaMemcpyDeviceToHost);
}
int cuMemcpyHtoD_v2(unsigned long long to, void const* from, std::size_t bytes) {
  return copied(reinterpret_cast<void*>(to), from, bytes, cudaMemcpyHostToDevice);
}
int cuStreamSynchronize(void* stream) {
  return cudaStreamSynchronize(static_cast<cudaStream_t>(stream)) == cudaSuccess ? success
                                                                                 : unknown;
}
}
