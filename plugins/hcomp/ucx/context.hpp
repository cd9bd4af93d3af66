#pragma once
/// @file
/// RAII handles of UCX objects: context, worker, worker address.

#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <hcomp/core/error.hpp>
#include <hcomp/ucx/devices.hpp>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace hcomp::ucx {

/// UCX's text and number of a status, e.g. "Endpoint timeout (-80)".
inline std::string status_text(ucs_status_t status) {
  return std::string(ucs_status_string(status)) + " (" + std::to_string(int(status)) + ")";
}

/// @throws transport_error  `status` is not UCS_OK; the text contains `call` and UCX's text
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

/// A UCX request. Releasing a pending one is allowed: UCX frees it on completion.
using request_handle = std::unique_ptr<void, releaser<ucp_request_free>>;

/// The status in UCX's answer to the start of an operation: complete (UCS_OK), rejected, or in
/// progress.
inline ucs_status_t started_status(ucs_status_ptr_t answer) {
  return UCS_PTR_IS_PTR(answer) ? UCS_INPROGRESS : UCS_PTR_STATUS(answer);
}

/// The request in UCX's answer, or null.
inline request_handle started_request(ucs_status_ptr_t answer) {
  return request_handle(UCS_PTR_IS_PTR(answer) ? answer : nullptr);
}

inline bool under_way(request_handle const& request) {
  return request != nullptr && ucp_request_check_status(request.get()) == UCS_INPROGRESS;
}

/// Whether a list of UCX transports, as in UCX_TLS, allows one of `names`.
inline bool allows(std::string_view transports, std::initializer_list<std::string_view> names) {
  bool const all_but = transports.starts_with('^');
  if (all_but) transports.remove_prefix(1);
  while (!transports.empty()) {
    auto const name = transports.substr(0, transports.find(','));
    if (name == "all" || std::ranges::find(names, name) != names.end()) return !all_but;
    transports.remove_prefix(std::min(name.size() + 1, transports.size()));
  }
  return all_but;
}

inline bool allows_tcp(std::string_view transports) { return allows(transports, {"tcp"}); }

/// Whether a list of UCX transports allows only TCP between nodes.
inline bool allows_only_tcp(std::string_view transports) {
  while (!transports.empty()) {
    auto const name = transports.substr(0, transports.find(','));
    if (name != "tcp" && name != "self" && !name.starts_with("cuda")) return false;
    transports.remove_prefix(std::min(name.size() + 1, transports.size()));
  }
  return true;
}

/// UCX settings of TCP interfaces, by name.
///
/// UCX reads settings of interfaces as UCX_..., whatever the prefix of a context. So they are
/// passed one by one: first hcomp's own, then those in the environment.
inline std::map<std::string, std::string> tcp_settings() {
  std::map<std::string, std::string> settings{
      // Without it, connect() blocks; if a link is down, longer than any timeout.
      {"CONN_NB", "y"},
      // Without it, UCX 1.13 aborts if it closes a connection in the middle of a batch of events
      // that contains another event of that connection.
      {"MAX_POLL", "1"},
      // Bytes per read call, and per write call of a long message; UCX's default is 8k.
      {"RX_SEG_SIZE", "64k"}};
  constexpr std::string_view prefix = "HCOMP_UCX_TCP_";
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::string_view const text = *variable;
    auto const end = text.find('=');
    if (text.starts_with(prefix) && end != text.npos)
      settings[std::string(text.substr(prefix.size(), end - prefix.size()))] = text.substr(end + 1);
  }
  return settings;
}

/// The value of the environment variable HCOMP_UCX_<name>, or else UCX_<name>; or null.
inline char const* environment(std::string const& name) {
  char const* const ours = std::getenv(("HCOMP_UCX_" + name).c_str());
  return ours != nullptr ? ours : std::getenv(("UCX_" + name).c_str());
}

/// Whether messages may be in CUDA device memory: UCX was built with CUDA, a device exists, and an
/// enabled transport (HCOMP_UCX_TLS) supports it, for example cuda_copy.
inline bool supports_device(ucp_context_h context) {
  ucp_context_attr_t found{};
  found.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  require_ok(ucp_context_query(context, &found), "ucp_context_query");
  return (found.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

/// Whether messages between nodes use RDMA. @param ports  as rdma_ports
inline bool uses_rdma(char const* transports, std::vector<std::string> const& ports) {
  return !ports.empty() && (transports == nullptr || !allows_only_tcp(transports));
}

/// Whether CUDA IPC moves messages in device memory between processes of one node.
inline bool allows_cuda_ipc(char const* transports) {
  return transports == nullptr || allows(transports, {"cuda_ipc", "cuda"});
}

/// Whether UCX monitors the peers.
enum class peer_failure {
  detect,  ///< a dead peer is detected at once; UCX then uses no shared memory, even inside a node
  ignore   ///< shared memory is allowed; a dead peer is detected only by the timeout
};

/// Creates a context for tagged messages, configured by the environment variables HCOMP_UCX_...
///
/// This separates hcomp's UCX from the one inside an MPI library, which reads UCX_...:
///
/// variable | read by | default | |---|---|---|
/// `HCOMP_UCX_TLS`, `HCOMP_UCX_NET_DEVICES` and other settings of UCX's protocols | UCX | `UCX_TLS`
/// ... |
/// `HCOMP_UCX_TCP_...`, of TCP interfaces | hcomp, see `tcp_settings` | `UCX_TCP_...` |
/// `UCX_RC_...`, of other interfaces; `UCX_LOG_LEVEL` ..., of the process | UCX | UCX's default |
///
/// UCX warns that HCOMP_UCX_TCP_... is unused, because it does not read it itself. UCX before 1.18
/// applies such a setting also to other interfaces that have a setting of that name.
///
/// With peer_failure::detect there are two more defaults:
///
/// - UCX opens no shared memory, which would take 4 MiB of /dev/shm per rank and carry nothing.
/// - Where all connections are TCP, messages of up to 8 MiB are sent eagerly. Rendezvous replies
///   share a connection with the messages of their sender: two ranks that send to each other would
///   use one direction of the link after the other.
/// @param devices  as in HCOMP_UCX_NET_DEVICES; empty: taken from the environment
inline context_handle open_context(std::string const& devices = {},
                                   peer_failure failures = peer_failure::ignore,
                                   bool may_be_eager = true) {
  ucp_config_t* config = nullptr;
  require_ok(ucp_config_read("HCOMP", nullptr, &config), "ucp_config_read");
  config_handle const read(config);
  auto const set = [config](std::string const& name, std::string const& value) {
    require_ok(ucp_config_modify(config, name.c_str(), value.c_str()),
               ("ucp_config_modify(" + name + "=" + value + ")").c_str());
  };
  if (!devices.empty()) set("NET_DEVICES", devices);
  char const* const transports = environment("TLS");
  bool const detects = failures == peer_failure::detect;
  if (detects && transports == nullptr) set("TLS", "^sm");
  bool const chooses_eager = detects && may_be_eager && environment("RNDV_THRESH") == nullptr &&
                             !uses_rdma(transports, rdma_ports());
  if (chooses_eager) set("RNDV_THRESH", "8m");
  if (transports == nullptr || allows_tcp(transports)) {  // UCX warns about unused settings
    unsigned major = 0, minor = 0, patch = 0;
    ucp_get_version(&major, &minor, &patch);
    std::string const prefix = std::tie(major, minor) < std::tuple(1u, 18u) ? "" : "TCP_";
    for (auto const& [name, value] : tcp_settings()) set(prefix + name, value);
  }

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG;
  ucp_context_h context = nullptr;
  require_ok(ucp_init(&params, config, &context), "ucp_init");
  context_handle opened(context);
  // UCX copies eager messages in device memory in small pieces.
  if (chooses_eager && allows_cuda_ipc(transports) && supports_device(context))
    return open_context(devices, failures, false);
  return opened;
}

/// Creates a worker for one thread at a time.
inline worker_handle open_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  require_ok(ucp_worker_create(context, &params, &worker), "ucp_worker_create");
  return worker_handle(worker);
}

/// The address by which other ranks reach `worker`; some hundred bytes.
inline std::vector<std::byte> worker_address(ucp_worker_h worker) {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  require_ok(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
  auto const release = [worker](ucp_address_t* a) { ucp_worker_release_address(worker, a); };
  std::unique_ptr<ucp_address_t, decltype(release)> const held(address, release);
  auto const* first = reinterpret_cast<std::byte const*>(address);
  return {first, first + length};
}

}  // namespace hcomp::ucx
