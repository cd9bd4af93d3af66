#include "mpi_algorithms.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>

namespace perf {
namespace {

/// The library's names of its algorithms. The control variable takes their numbers, from 1 on;
/// 0 leaves the choice to the library.
#if defined(OPEN_MPI)
constexpr char const* variable = "coll_tuned_allreduce_algorithm";
constexpr std::array names{"linear", "nonoverlapping", "recursive_doubling",
                           "ring",   "segmented_ring", "rabenseifner"};
#elif defined(MPICH_VERSION)
constexpr char const* variable = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM";
constexpr std::array names{"nb", "smp", "recursive_doubling", "reduce_scatter_allgather"};
#else
constexpr char const* variable = "";
constexpr std::array<char const*, 0> names{};
#endif

/// Writes the control variable of this process.
void write(int number) {
  auto const require = [](int code, char const* what) {
    if (code != MPI_SUCCESS)
      throw std::runtime_error(
          fmt::format("{} of {} failed with {}; this MPI library does not let its algorithm be "
                      "chosen",
                      what, variable, code));
  };
  // Initialised once and never finalised: after MPI_T_finalize, MPICH 4.0 has no variables.
  static int const started = [] {
    int provided = 0;
    return MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  }();
  require(started, "MPI_T_init_thread");
  int index = 0, count = 0;
  require(MPI_T_cvar_get_index(variable, &index), "MPI_T_cvar_get_index");
  MPI_T_cvar_handle handle;
  require(MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count), "MPI_T_cvar_handle_alloc");
  require(MPI_T_cvar_write(handle, &number), "MPI_T_cvar_write");
  MPI_T_cvar_handle_free(&handle);
}

}  // namespace

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string name(text.data(), static_cast<std::size_t>(length));
#if defined(OPEN_MPI)
  return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                     OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
  return "MPICH " MPICH_VERSION;
#else
  return name.substr(0, name.find('\n'));
#endif
}

void allow_mpi_algorithms() {
  setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 1);  // other MPI libraries ignore it
}

std::vector<std::string> mpi_algorithms() { return {names.begin(), names.end()}; }

chosen_algorithm::chosen_algorithm(MPI_Comm comm, std::string const& name) {
  if (!name.empty()) {
    auto const* const found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw std::runtime_error(fmt::format("--mpi-algorithm '{}': {} has {}", name, mpi_library(),
                                           fmt::join(names, ", ")));
    number_ = static_cast<int>(found - names.begin()) + 1;
  }
#if defined(OPEN_MPI)
  write(number_);  // Open MPI reads it when it creates a communicator
#endif
  MPI_Comm_dup(comm, &comm_);
#if defined(OPEN_MPI)
  if (number_ != 0) write(0);
#endif
}

void chosen_algorithm::select() const {
#if defined(MPICH_VERSION)
  write(number_);  // MPICH reads it in every call
#endif
}

}  // namespace perf
