/// @file
/// The queries that hcomp-info makes of an MPI and of Open MPI's component, with another machine's
/// answers.

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

bool that(char const* what) {
  char const* const told = std::getenv("FAKE_MPI");
  return told && std::strcmp(told, what) == 0;
}
bool is_running = false;
int has_cuda() { return is_running && !that("has_no_cuda") ? 1 : 0; }

}  // namespace

extern "C" {

int MPI_Get_library_version(char* text, int* length) {
#ifdef FAKE_openmpi
  std::strcpy(text, that("is_older") ? "Open MPI v4.0.7, of Debian" : "Open MPI v4.1.9, of Debian");
#else
  std::strcpy(text, "MPICH Version:\t4.0.2");
#endif
  *length = static_cast<int>(std::strlen(text));
  return 0;
}

int PMPI_Init(int*, char***) {
  if (that("does_not_start")) _exit(1);
  is_running = true;
  return 0;
}
int PMPI_Finalize() { return 0; }
int MPIX_Comm_get_failed() { return 0; }

#ifdef FAKE_openmpi
int MPIX_Query_cuda_support() { return has_cuda(); }

struct {
  int interface[3];
  char project[16];
  int version[3];
} mca_coll_hcomp_component = {{2, 1, 0}, "ompi", {4, 1, 9}};
#else
int MPIX_GPU_query_support(int kind, int* is_supported) {
  if (!is_running) _exit(1);
  *is_supported = kind == 0 ? has_cuda() : 0;
  return 0;
}
#endif
}
