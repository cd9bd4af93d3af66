#pragma once
/// @file
/// What UCX gives out, held so that it is given back: context, worker, worker address.

#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <hcomp/core/error.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
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

/// Whether UCX may choose TCP, as far as the environment says.
inline bool allows_tcp(std::string_view transports) {
  bool const all_but = transports.starts_with('^');
  if (all_but) transports.remove_prefix(1);
  while (!transports.empty()) {
    auto const name = transports.substr(0, transports.find(','));
    if (name == "tcp" || name == "all") return !all_but;
    transports.remove_prefix(std::min(name.size() + 1, transports.size()));
  }
  return all_but;
}

/// Whether UCX may choose nothing but TCP between processes, as far as the environment says.
inline bool allows_only_tcp(std::string_view transports) {
  while (!transports.empty()) {
    auto const name = transports.substr(0, transports.find(','));
    if (name != "tcp" && name != "self") return false;
    transports.remove_prefix(std::min(name.size() + 1, transports.size()));
  }
  return true;
}

/// How connections over TCP are set up: UCX's names and values, of interfaces only.
///
/// UCX reads the settings of interfaces as UCX_..., whatever the prefix of a context, so they are
/// handed over one by one: ours, then those in the environment.
inline std::map<std::string, std::string> tcp_settings() {
  std::map<std::string, std::string> settings{
      // Otherwise connect() blocks, longer than any time limit where a link is cut.
      {"CONN_NB", "y"},
      // Otherwise UCX 1.13 aborts when it closes a connection in the middle of a batch of events
      // that has another one of it.
      {"MAX_POLL", "1"},
      // How much one system call reads, or writes of a long message; UCX's own choice is 8k.
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

/// The value of the environment variable HCOMP_UCX_<name>, or UCX_<name>, or null.
inline char const* environment(std::string const& name) {
  char const* const ours = std::getenv(("HCOMP_UCX_" + name).c_str());
  return ours != nullptr ? ours : std::getenv(("UCX_" + name).c_str());
}

/// Whether there is a device that UCX may reach other hosts by without TCP.
inline bool has_rdma_device() {
  std::error_code none;
  return std::filesystem::directory_iterator("/sys/class/infiniband", none) !=
         std::filesystem::directory_iterator();
}

/// Whether messages may be in the memory of a CUDA device: UCX was built with CUDA, there is a
/// device, and a transport that UCX uses (HCOMP_UCX_TLS) is for it, such as cuda_copy.
inline bool reaches_device(ucp_context_h context) {
  ucp_context_attr_t found{};
  found.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  require_ok(ucp_context_query(context, &found), "ucp_context_query");
  return (found.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

/// Which messages are sent without the receiver's permission.
enum class eager_messages {
  as_ucx_likes,
  /// Those of up to 8 MiB, where all connections are TCP. Permissions travel in the same connection as
  /// the messages of their sender: two ranks that send to each other would wait for each other's
  /// messages to pass, and use one direction of the link after the other. A sum of two ranks takes
  /// twice as long then.
  over_tcp
};

/// A context for tagged messages, set up by the environment variables HCOMP_UCX_...
///
/// So hcomp's UCX can be set up apart from the one inside an MPI library, which reads UCX_...:
///
/// | variable | who reads it | without it |
/// |---|---|---|
/// | `HCOMP_UCX_TLS`, `HCOMP_UCX_NET_DEVICES` and others of UCX's protocols | UCX | `UCX_TLS` ... |
/// | `HCOMP_UCX_TCP_...`, of TCP interfaces | hcomp, see `tcp_settings` | `UCX_TCP_...` |
/// | `UCX_RC_...`, of other interfaces; `UCX_LOG_LEVEL` ..., of the process | UCX | its default |
///
/// UCX warns that HCOMP_UCX_TCP_... is unused, since it does not read it itself. UCX before 1.18
/// takes such a setting for other interfaces, too, that have one of that name.
/// @param devices  as in HCOMP_UCX_NET_DEVICES; empty leaves it to the environment
/// @param eager    HCOMP_UCX_RNDV_THRESH comes before it
inline context_handle open_context(std::string const& devices = {},
                                   eager_messages eager = eager_messages::as_ucx_likes) {
  ucp_config_t* config = nullptr;
  require_ok(ucp_config_read("HCOMP", nullptr, &config), "ucp_config_read");
  config_handle const read(config);
  auto const set = [config](std::string const& name, std::string const& value) {
    require_ok(ucp_config_modify(config, name.c_str(), value.c_str()),
               ("ucp_config_modify(" + name + "=" + value + ")").c_str());
  };
  if (!devices.empty()) set("NET_DEVICES", devices);
  char const* const transports = environment("TLS");
  bool const chooses_eager =
      eager == eager_messages::over_tcp && environment("RNDV_THRESH") == nullptr &&
      ((transports != nullptr && allows_only_tcp(transports)) || !has_rdma_device());
  if (chooses_eager) set("RNDV_THRESH", "8m");
  if (transports == nullptr || allows_tcp(transports)) {  // UCX warns of settings nobody takes
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
  // Of messages in a device's memory UCX copies small pieces if they are eager.
  if (chooses_eager && reaches_device(context)) return open_context(devices);
  return opened;
}

/// A worker for one thread at a time.
inline worker_handle open_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
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

  /// Negative when it has passed.
  std::chrono::milliseconds left() const {
    if (at_ == clock::time_point::max()) return std::chrono::milliseconds::max();
    return std::chrono::duration_cast<std::chrono::milliseconds>(at_ - clock::now());
  }

  bool passed() const { return at_ != clock::time_point::max() && clock::now() >= at_; }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point at_;
};

}  // namespace hcomp::ucx
