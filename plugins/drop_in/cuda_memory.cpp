#include "cuda_memory.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstddef>

namespace hcomp::drop_in {

namespace {

/// cuPointerGetAttribute, without cuda.h: CUresult (void*, CUpointer_attribute, CUdeviceptr).
using pointer_attribute = int (*)(void* value, int attribute, unsigned long long pointer);
constexpr int memory_type_attribute = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned host_memory_type = 1;  // CU_MEMORYTYPE_HOST

/// How many libraries the process has loaded so far.
unsigned long long loaded_libraries() {
  unsigned long long loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<unsigned long long*>(out) = info->dlpi_adds;
        return 1;  // the first one has the number
      },
      &loaded);
  return loaded;
}

/// Null as long as the process has no libcuda, which may be loaded at any time; it stays then.
pointer_attribute find() {
  static std::atomic<pointer_attribute> found{nullptr};
  static std::atomic<unsigned long long> looked_at{0};  ///< libraries, and it was not among them
  if (auto const known = found.load(std::memory_order_acquire)) return known;
  auto const loaded = loaded_libraries();
  if (loaded == looked_at.load(std::memory_order_relaxed)) return nullptr;
  if (void* const cuda = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY))
    found = reinterpret_cast<pointer_attribute>(dlsym(cuda, "cuPointerGetAttribute"));
  looked_at = loaded;
  return found;
}

}  // namespace

bool is_in_device(void const* pointer) noexcept {
  auto const attribute = pointer ? find() : nullptr;
  unsigned type = host_memory_type;
  return attribute &&
         attribute(&type, memory_type_attribute, reinterpret_cast<unsigned long long>(pointer)) ==
             0 &&
         type != host_memory_type;
}

}  // namespace hcomp::drop_in
