#include "cuda_memory.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace hcomp::drop_in {

namespace {

/// Signature of cuPointerGetAttribute without cuda.h: CUresult (void*, CUpointer_attribute,
/// CUdeviceptr).
using pointer_attribute = int (*)(void* value, int attribute, unsigned long long pointer);
constexpr int memory_type_attribute = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned host_memory_type = 1;  // CU_MEMORYTYPE_HOST

/// Number of libraries that the process has loaded so far.
unsigned long long loaded_libraries() {
  unsigned long long loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<unsigned long long*>(out) = info->dlpi_adds;
        return 1;  // every entry holds the total
      },
      &loaded);
  return loaded;
}

/// The process's own libcuda; null if none is loaded.
void* loaded_cuda() { return dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY); }

/// Null until the process has loaded libcuda, at any time. Once found, the pointer stays valid.
pointer_attribute find() {
  static std::atomic<pointer_attribute> found{nullptr};
  static std::atomic<unsigned long long> looked_at{0};  ///< number of libraries at the last search
  if (auto const known = found.load(std::memory_order_acquire)) return known;
  auto const loaded = loaded_libraries();
  if (loaded == looked_at.load(std::memory_order_relaxed)) return nullptr;
  if (void* const cuda = loaded_cuda())
    found = reinterpret_cast<pointer_attribute>(dlsym(cuda, "cuPointerGetAttribute"));
  looked_at = loaded;
  return found;
}

/// Calls a function of libcuda. CUdeviceptr is unsigned long long, CUresult is int.
/// @throws std::runtime_error  libcuda lacks the function, or the function returns an error
template <class... Parameters, class... Arguments>
void call(int (*)(Parameters...), char const* name, Arguments... arguments) {
  void* const cuda = loaded_cuda();
  auto* const function =
      reinterpret_cast<int (*)(Parameters...)>(cuda ? dlsym(cuda, name) : nullptr);
  if (!function) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  if (int const code = function(arguments...); code != 0)
    throw std::runtime_error(std::string(name) + " returns " + std::to_string(code));
}
template <class... Parameters> constexpr int (*taking)(Parameters...) = nullptr;

unsigned long long address_of(void const* pointer) {
  return reinterpret_cast<unsigned long long>(pointer);
}

/// The context that owns `memory`. Null for memory from pools and for mapped memory.
void* context_of(void const* memory) {
  constexpr int context_attribute = 1;  // CU_POINTER_ATTRIBUTE_CONTEXT
  void* context = nullptr;
  call(taking<void*, int, unsigned long long>, "cuPointerGetAttribute",
       static_cast<void*>(&context), context_attribute, address_of(memory));
  return context;
}

}  // namespace

void* current_context() noexcept {
  void* context = nullptr;
  try {
    if (find()) call(taking<void**>, "cuCtxGetCurrent", &context);
  } catch (std::exception const&) {  // same result as without a context
    return nullptr;
  }
  return context;
}

used_context::used_context(void* context) : is_used_(context) {
  if (context) call(taking<void*>, "cuCtxPushCurrent_v2", context);
}
used_context::~used_context() {
  if (!is_used_) return;
  try {
    void* context = nullptr;
    call(taking<void**>, "cuCtxPopCurrent_v2", &context);
  } catch (std::exception const&) {  // a destructor cannot report it
  }
}

void copy_from_device(void* to, void const* from, std::size_t bytes) {
  if (bytes == 0) return;
  used_context const here(context_of(from));
  call(taking<void*, unsigned long long, std::size_t>, "cuMemcpyDtoH_v2", to, address_of(from),
       bytes);
}
void copy_to_device(void* to, void const* from, std::size_t bytes) {
  if (bytes == 0) return;
  used_context const here(context_of(to));
  call(taking<unsigned long long, void const*, std::size_t>, "cuMemcpyHtoD_v2", address_of(to),
       from, bytes);
  // A copy from pageable memory returns before the transfer to the device ends.
  call(taking<void*>, "cuStreamSynchronize", nullptr);
}

bool is_in_device(void const* pointer) noexcept {
  auto const attribute = pointer ? find() : nullptr;
  unsigned type = host_memory_type;
  return attribute &&
         attribute(&type, memory_type_attribute, reinterpret_cast<unsigned long long>(pointer)) ==
             0 &&
         type != host_memory_type;
}

}  // namespace hcomp::drop_in
