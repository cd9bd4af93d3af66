#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <hcomp/core/detail/printable.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "mpi_kind.hpp"
#include "take_over.hpp"

namespace hcomp::drop_in {

namespace {

#if MPI_ABI_VERSION >= 1
constexpr std::string_view own = "abi";
#elif defined(OPEN_MPI)
constexpr std::string_view own = "openmpi";
#else
constexpr std::string_view own = "mpich";
#endif

/// A loaded program or library, and the MPI library that it links.
struct linked_file {
  std::string file, library;
  mpi_kind const* mpi = nullptr;  ///< null: it links no MPI
};

linked_file file_of(void const* address) {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || !map)
    return {};
  char const* names = nullptr;
  for (auto const* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<char const*>(entry->d_un.d_ptr);
  for (auto const* entry = map->l_ld; names && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    if (auto const* const mpi = mpi_kind_of(names + entry->d_un.d_val))
      return {info.dli_fname, names + entry->d_un.d_val, mpi};
  }
  return {info.dli_fname, "", nullptr};
}

}  // namespace

void require_own_mpi(void const* caller) noexcept {
  auto const program = file_of(caller);
  if (!program.mpi || program.mpi->name == own) return;
  Dl_info here;
  dladdr(reinterpret_cast<void*>(&require_own_mpi), &here);
  auto const folders = std::filesystem::path(here.dli_fname).parent_path().parent_path();
  auto const& mine = *mpi_kind_called(own);
  auto const wanted = preload_for(*program.mpi, folders);
  auto text = "MPI_Init: " + program.file + " is linked with " + program.library + ", which is " +
              std::string(program.mpi->words) + "; " + preload_for(mine, folders).string() +
              " is for " + std::string(mine.words) + "; instead preload " + wanted.string();
  std::error_code error;
  if (!std::filesystem::exists(wanted, error))
    text += ", which CMake's target hcomp_pmpi_" + std::string(program.mpi->name) + " builds";
  std::fprintf(stderr, "hcomp: %s\n", hcomp::detail::printable(text).c_str());
  // Every rank prints it, because ranks are unknown before MPI_Init.
  _exit(2);
}

}  // namespace hcomp::drop_in
