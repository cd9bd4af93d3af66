#include "glue.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <drop_in/take_over.hpp>
#include <limits>
#include <string_view>

namespace {

namespace drop_in = hcomp::drop_in;

std::string_view file_of(Dl_info const& info) {
  std::string_view const path = info.dli_fname ? info.dli_fname : "";
  return path.substr(path.rfind('/') + 1);
}

/// These components forward calls and may be between the caller and us.
bool hands_on(std::string_view file) {
  return file.starts_with("mca_coll_hcomp.") || file.starts_with("mca_coll_sync.") ||
         file.starts_with("mca_coll_monitoring.");
}

/// The caller's address, behind such components.
bool find_origin(void const* caller, Dl_info& info) {
  if (dladdr(caller, &info) == 0) return false;
  if (!hands_on(file_of(info))) return true;
  void* frames[16];
  int const count = backtrace(frames, 16);
  for (int i = 0; i < count; ++i)
    if (dladdr(frames[i], &info) != 0 && !hands_on(file_of(info))) return true;
  return false;
}

/// True if Open MPI itself makes the call. It numbers a new communicator with all-reduces, and
/// components such as coll/inter and coll/han build one collective from several on other
/// communicators.
bool is_mpis_own(hcomp_coll_call const& call) {
  Dl_info info;
  if (!find_origin(call.caller, info)) return false;
  auto const file = file_of(info);
  if (file.starts_with("mca_")) return true;
  if (!file.starts_with("libmpi.so")) return false;
  if (!info.dli_sname) return call.op != MPI_SUM;
  std::string_view name = info.dli_sname;
  name.remove_prefix(name.starts_with('P') ? 1 : 0);
  return name != call.function;
}

/// Where the program called MPI: the first stack frame outside Open MPI's libraries, language
/// bindings and components.
__attribute__((noinline)) void const* place_in_program() {
  void* frames[32];
  int const count = backtrace(frames, 32);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0) continue;
    auto const file = file_of(info);
    if (!file.starts_with("mca_") && !file.starts_with("libmpi")) return frames[i];
  }
  return nullptr;
}

drop_in::reduction_call as_ours(hcomp_coll_call const& call) {
  return {call.function,   drop_in::reports() ? place_in_program() : nullptr,
          call.send,       call.receive,
          call.count,      call.type,
          call.op,         call.comm,
          /*raises=*/false};
}

}  // namespace

bool hcomp_coll_is_interposed() { return drop_in::is_interposed(); }
void hcomp_coll_start() { drop_in::start(); }

bool hcomp_coll_is_small(int count) {
  return count < drop_in::least_count.load(std::memory_order_relaxed);
}
bool hcomp_coll_is_off() { return hcomp_coll_is_small(std::numeric_limits<int>::max() - 1); }

bool hcomp_coll_all_reduce(hcomp_coll_call const* call, int* code) {
  return !is_mpis_own(*call) && drop_in::all_reduce(as_ours(*call), *code);
}
bool hcomp_coll_reduce(hcomp_coll_call const* call, int root, int* code) {
  return !is_mpis_own(*call) && drop_in::reduce(as_ours(*call), root, *code);
}
bool hcomp_coll_reduce_scatter(hcomp_coll_call const* call, int const* counts, int* code) {
  return !is_mpis_own(*call) && drop_in::reduce_scatter(as_ours(*call), counts, *code);
}
bool hcomp_coll_reduce_scatter_block(hcomp_coll_call const* call, int count, int* code) {
  return !is_mpis_own(*call) && drop_in::reduce_scatter_block(as_ours(*call), count, *code);
}
bool hcomp_coll_iall_reduce(hcomp_coll_call const* call, MPI_Request* request, int* code) {
  return !is_mpis_own(*call) && drop_in::iall_reduce(as_ours(*call), request, *code);
}
bool hcomp_coll_all_reduce_init(hcomp_coll_call const* call, MPI_Request* request, int* code) {
  return !is_mpis_own(*call) && drop_in::all_reduce_init(as_ours(*call), request, *code);
}
void hcomp_coll_started(MPI_Request request) { drop_in::started(request); }
void hcomp_coll_request_freed(MPI_Request request) { drop_in::request_freed(request); }

unsigned long long hcomp_coll_total(hcomp_coll_counter which) {
  auto const& all = drop_in::so_far;
  switch (which) {
    case HCOMP_COLL_CALLS_TAKEN: return all.calls_taken;
    case HCOMP_COLL_CALLS_LEFT: return all.calls_left;
    case HCOMP_COLL_BYTES_PLAIN: return all.bytes_plain;
    case HCOMP_COLL_BYTES_SENT: return all.bytes_sent;
    case HCOMP_COLL_TOTALS: break;
  }
  return 0;
}
