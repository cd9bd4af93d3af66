#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <hcomp/core/detail/printable.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_plan.hpp"

namespace hcomp::drop_in {

namespace {

constexpr char const* file_name = "libhcomp_cuda.so";

/// Files that can be the library, in the order of the search.
std::vector<std::string> candidates() {
  if (char const* const named = std::getenv("HCOMP_CUDA_LIBRARY"); named && *named) return {named};
  std::vector<std::string> files;
  Dl_info own;
  if (dladdr(reinterpret_cast<void const*>(&loaded_cuda_library), &own) != 0 && own.dli_fname) {
    auto const folder = std::filesystem::absolute(own.dli_fname).parent_path();
    for (auto const& file : {folder / file_name, folder.parent_path() / "cuda" / file_name})
      if (std::error_code none; std::filesystem::exists(file, none)) files.push_back(file);
  }
  files.push_back(file_name);
  return files;
}

/// @throws std::runtime_error  see loaded_cuda_library
cuda_library const& load() {
  std::string why;
  void* handle = nullptr;
  for (auto const& file : candidates()) {
    handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) break;
    char const* const error = dlerror();
    why += (why.empty() ? "" : "; ") + std::string(error ? error : file);
  }
  if (!handle)
    throw std::runtime_error(detail::printable(
        "libhcomp_cuda.so, which reduces vectors in a device's memory, cannot be loaded (" + why +
        "); hcomp builds it where CMake finds nvcc; HCOMP_CUDA_LIBRARY can name it"));
  auto const made_for =
      reinterpret_cast<decltype(&hcomp_cuda_made_for)>(dlsym(handle, "hcomp_cuda_made_for"));
  auto const library =
      reinterpret_cast<decltype(&hcomp_cuda_library)>(dlsym(handle, "hcomp_cuda_library"));
  std::string const theirs = made_for && library ? made_for() : "no version";
  if (theirs != cuda_library_version())
    throw std::runtime_error(detail::printable("libhcomp_cuda.so was made for hcomp " + theirs +
                                               "; this is " + cuda_library_version()));
  return *library();
}

}  // namespace

cuda_library const& loaded_cuda_library() {
  static std::atomic<cuda_library const*> loaded{nullptr};
  if (auto const* const known = loaded.load(std::memory_order_acquire)) return *known;
  auto const& found = load();  // two threads may both load it, and find the same
  loaded.store(&found, std::memory_order_release);
  return found;
}

}  // namespace hcomp::drop_in
