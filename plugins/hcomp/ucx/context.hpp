#pragma once
/// @file
/// What UCX gives out, held so that it is given back: context, worker, worker address.

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstddef>
#include <hcomp/core/error.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace hcomp::ucx {

/// UCX's words and its number, e.g. "Endpoint timeout (-80)".
inline std::string status_text(ucs_status_t status) {
  return std::string(ucs_status_string(status)) + " (" + std::to_string(int(status)) + ")";
}

/// @throws transport_error  with `call` and UCX's words, when `status` is not UCS_OK
inline void require_ok(ucs_status_t status, char const* call) {
  if (status != UCS_OK)
    throw transport_error(-1, std::string("ucx: ") + call + " failed: " + status_text(status));
}

template <auto Release> struct releaser {
  template <class T> void operator()(T* handle) const { Release(handle); }
};

using context_handle = std::unique_ptr<std::remove_pointer_t<ucp_context_h>, releaser<ucp_cleanup>>;
using worker_handle =
    std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, releaser<ucp_worker_destroy>>;
using config_handle = std::unique_ptr<ucp_config_t, releaser<ucp_config_release>>;

/// A request of UCX. Letting go of one under way is fine: UCX takes it back when it has ended.
using request_handle = std::unique_ptr<void, releaser<ucp_request_free>>;

/// What UCX answers to the start of an operation: done (UCS_OK), refused, or under way.
inline ucs_status_t started_status(ucs_status_ptr_t answer) {
  return UCS_PTR_IS_PTR(answer) ? UCS_INPROGRESS : UCS_PTR_STATUS(answer);
}

/// The request in UCX's answer, or nothing.
inline request_handle started_request(ucs_status_ptr_t answer) {
  return request_handle(UCS_PTR_IS_PTR(answer) ? answer : nullptr);
}

inline bool under_way(request_handle const& request) {
  return request != nullptr && ucp_request_check_status(request.get()) == UCS_INPROGRESS;
}

/// A context for tagged messages, set up by the environment variables HCOMP_UCX_...
///
/// Every variable that UCX knows works with the prefix, e.g. HCOMP_UCX_TLS=tcp,self, so hcomp's UCX
/// can be pinned without touching the one inside an MPI library, which reads UCX_TLS.
inline context_handle open_context() {
  ucp_config_t* config = nullptr;
  require_ok(ucp_config_read("HCOMP", nullptr, &config), "ucp_config_read");
  config_handle const read(config);

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG;
  ucp_context_h context = nullptr;
  require_ok(ucp_init(&params, config, &context), "ucp_init");
  return context_handle(context);
}

/// Whether messages may be in the memory of a CUDA device: UCX was built with CUDA, there is a
/// device, and a transport that UCX uses (HCOMP_UCX_TLS) is for it, such as cuda_copy.
inline bool reaches_device(ucp_context_h context) {
  ucp_context_attr_t found{};
  found.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  require_ok(ucp_context_query(context, &found), "ucp_context_query");
  return (found.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

/// A worker for one thread at a time.
inline worker_handle open_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  require_ok(ucp_worker_create(context, &params, &worker), "ucp_worker_create");
  return worker_handle(worker);
}

/// What other ranks need to reach `worker`; some hundred bytes.
inline std::vector<std::byte> worker_address(ucp_worker_h worker) {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  require_ok(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
  auto const release = [worker](ucp_address_t* a) { ucp_worker_release_address(worker, a); };
  std::unique_ptr<ucp_address_t, decltype(release)> const held(address, release);
  auto const* first = reinterpret_cast<std::byte const*>(address);
  return {first, first + length};
}

/// A point in time after which one stops waiting.
class deadline {
 public:
  /// @param after  counted from now; 0 is never
  explicit deadline(std::chrono::milliseconds after)
      : at_(after.count() == 0 ? clock::time_point::max() : clock::now() + after) {}

  bool passed() const { return at_ != clock::time_point::max() && clock::now() >= at_; }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point at_;
};

}  // namespace hcomp::ucx
