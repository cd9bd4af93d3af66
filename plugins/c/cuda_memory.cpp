#include "cuda_memory.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>

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

/// The process's own; null if it has none.
void* loaded_cuda() { return dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY); }

/// Null as long as the process has no libcuda, which may be loaded at any time; it stays then.
pointer_attribute find() {
  static std::atomic<pointer_attribute> found{nullptr};
  static std::atomic<unsigned long long> looked_at{0};  ///< libraries, and it was not among them
  if (auto const known = found.load(std::memory_order_acquire)) return known;
  auto const loaded = loaded_libraries();
  if (loaded == looked_at.load(std::memory_order_relaxed)) return nullptr;
  if (void* const cuda = loaded_cuda())
    found = reinterpret_cast<pointer_attribute>(dlsym(cuda, "cuPointerGetAttribute"));
  looked_at = loaded;
  return found;
}

/// Calls a function of libcuda, of which CUdeviceptr is unsigned long long, and CUresult an int.
/// @throws std::runtime_error  it is not there, or does not return 0
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

/// That some memory belongs to. Memory of pools and mapped memory belong to none: null.
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
  } catch (std::exception const&) {  // as if it had none
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
  } catch (std::exception const&) {  // there is nothing to be done
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
  // From memory that is not pinned the copy returns when it has read it all.
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
