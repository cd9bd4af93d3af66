#include "device_memory.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#ifdef HCOMP_INFO_HAS_UCX
#include <ucp/api/ucp.h>
#endif

#include <cstdlib>
#include <filesystem>

#include "try_library.hpp"

namespace hcomp::info {

namespace {

std::string answer(bool reached, std::string const& why_not) {
  return reached ? "device memory: yes"
                 : "device memory: no, " + why_not + "; compressed bytes go through host memory";
}
std::string unknown(std::string const& why) { return "device memory: not known, " + why; }

/// Prepares the process for a trial, which may print and may not return.
void begin_a_try() {
  int const nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, 1), dup2(nowhere, 2);
  alarm(10);
}

/// Starts MPI first: MPICH ends a process that asks earlier, and Open MPI 5 needs it, too.
std::string describe_mpi_device_memory(void* handle) {
  auto* const mpich = function_in<int(int, int*)>(handle, "MPIX_GPU_query_support");
  auto* const open_mpi = function_in<int()>(handle, "MPIX_Query_cuda_support");
  if (!mpich && !open_mpi) return answer(false, "this MPI does not offer it");
  auto* const start = function_in<int(int*, char***)>(handle, "PMPI_Init");
  auto* const end = function_in<int()>(handle, "PMPI_Finalize");
  if (!start || !end) return unknown("this MPI has no PMPI_Init");
  begin_a_try();
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);  // Open MPI 4 starts no daemon
  setenv("OMPI_MCA_coll_hcomp_priority", "0", 1);     // our component ignores HCOMP_CONFIG
  if (int const code = start(nullptr, nullptr); code != 0)
    return unknown(fmt::format("MPI_Init says {}", code));
  int cuda = 0;
  if (mpich)
    mpich(0, &cuda);  // MPIX_GPU_SUPPORT_CUDA
  else
    cuda = open_mpi();
  end();
  return answer(cuda == 1, "this MPI has no CUDA");
}

#ifdef HCOMP_INFO_HAS_UCX
/// The variable that selects UCX's transports. The first one that is set counts.
std::string chosen_transports() {
  for (char const* const name : {"HCOMP_UCX_TLS", "UCX_TLS"})
    if (char const* const names = std::getenv(name)) return fmt::format("{}={}", name, names);
  return "";
}

/// True if UCX was built with CUDA: its transports are modules beside the library of `function`.
bool has_cuda_module(void const* function) {
  Dl_info about{};
  if (dladdr(function, &about) == 0 || !about.dli_fname) return false;
  std::error_code unknown;
  return std::filesystem::exists(
      std::filesystem::path(about.dli_fname).parent_path() / "ucx" / "libuct_cuda.so.0", unknown);
}

#define HCOMP_OF_UCX(name) function_in<decltype(name)>(handle, #name)
/// Empty if UCX does not start.
std::string describe_ucx_device_memory(void* handle) {
  begin_a_try();
  auto* const read = HCOMP_OF_UCX(ucp_config_read);
  auto* const start = HCOMP_OF_UCX(ucp_init_version);
  auto* const query = HCOMP_OF_UCX(ucp_context_query);
  ucp_config_t* config = nullptr;
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG;
  ucp_context_h context = nullptr;
  ucp_context_attr_t found{};
  found.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  if (!read || !start || !query || read("HCOMP", nullptr, &config) != UCS_OK ||
      start(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context) != UCS_OK ||
      query(context, &found) != UCS_OK)
    return {};
  bool const reached = (found.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
  auto const chosen = chosen_transports();
  if (chosen.empty() && has_cuda_module(reinterpret_cast<void const*>(query)))
    return answer(reached, "UCX has transports for CUDA, and they find no GPU");
  return answer(reached, "no transport" + (chosen.empty() ? "" : " of " + chosen) + " is for CUDA");
}
#endif

}  // namespace

std::string mpi_device_memory(std::string const& library) {
  auto const tried = try_library(library, describe_mpi_device_memory);
  return tried.loads ? tried.words : unknown("MPI does not start here by itself");
}

#ifdef HCOMP_INFO_HAS_UCX
std::string ucx_device_memory(std::string const& library) {
  auto const tried = try_library(library, describe_ucx_device_memory);
  if (tried.loads && !tried.words.empty()) return tried.words;
  auto const chosen = chosen_transports();
  return unknown("UCX does not start" + (chosen.empty() ? "" : " with " + chosen));
}
#else
std::string ucx_device_memory(std::string const&) {
  return unknown("UCX was not found when hcomp was built");
}
#endif

}  // namespace hcomp::info
