#pragma once
/// @file
/// Parts of the C API that do not depend on the transport. Exceptions become error codes and texts.

#include <hcomp/plan.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "handle_number.hpp"
#include "request_queue.hpp"
#include "settings.hpp"

namespace hcomp::c_api {

/// Position of a nonblocking call among all nonblocking calls.
struct turn {
  std::uint64_t number;  ///< from 0
  bool together;         ///< other calls may run concurrently
};

/// Moves the bytes of one plan, or of several plans.
struct connection {
  connection() = default;
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  virtual ~connection() = default;

  virtual any_transport& transport() = 0;
  /// The ranks by node. The first call is collective.
  virtual node::node_ranks& nodes();
  /// Memory for the uncompressed all-reduces of one plan, or null; see node::make_shared_memory.
  /// Collective. Null where calls may run concurrently: they would wait for each other.
  virtual std::shared_ptr<node::collectives> shared_memory() { return nullptr; }
  /// Number of a new plan. Collective.
  virtual std::uint64_t next_handle() { return drop_in::next_handle_number(transport()); }
  /// Compares the create arguments of all ranks.
  /// @param error  why this rank's arguments are invalid; empty if they are valid
  /// @throws std::invalid_argument, disagreement_error  on all ranks alike
  virtual void agree_on_plan(std::string const& text, std::string const& error);
  /// The engine of a new plan. Errors: those of make_feedback_plan.
  /// @param memory  from shared_memory, or null
  virtual any_plan<float> plan_of(drop_in::codec_spec const& how, std::size_t values,
                                  host_executor& executor,
                                  std::shared_ptr<node::collectives> memory,
                                  std::type_identity<float>);
  virtual any_plan<double> plan_of(drop_in::codec_spec const& how, std::size_t values,
                                   host_executor& executor,
                                   std::shared_ptr<node::collectives> memory,
                                   std::type_identity<double>);
  /// True if plans for device memory can use the transport as plans for host memory do.
  virtual bool makes_device_plans() const { return true; }
  /// True if the connection numbers the calls; false if the plan counts its own calls.
  virtual bool numbers_steps() const { return false; }
  /// Begins a call. The caller has exclusive use of the transport while it holds the lock.
  /// @throws not_running  MPI is not running
  virtual std::unique_lock<std::mutex> enter() = 0;
  /// Queues a nonblocking call for the progress thread. Not callable within a call.
  /// @param work  must not throw
  /// @throws std::invalid_argument  the connection has no progress thread
  virtual void begin(drop_in::request_queue::work /*work*/,
                     drop_in::request_queue::manner /*how*/) {
    throw std::invalid_argument("calls can be started over a group of hcomp_group_create only");
  }
  /// Compares the calls of all ranks where a mismatch would leave ranks waiting in shared memory or
  /// in different messages. The first step of a call.
  /// @param started       null for a blocking call
  /// @param hierarchical  the algorithm is hierarchical
  /// @throws disagreement_error  on all ranks alike
  virtual void meet(std::string const& /*call*/, turn const* /*started*/ = nullptr,
                    bool /*hierarchical*/ = false) {}
  /// Reports the error to ranks that wait in shared memory instead of the transport. Used within a
  /// call.
  virtual void tell_others(transport_error const& /*error*/) {}

 private:
  std::unique_ptr<node::node_ranks> nodes_;
};

/// MPI is not running, or the drop-in library is not loaded.
struct not_running : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Stores the text for hcomp_last_error and returns the code.
/// @param where, note  start of the text: the function, and a remark on the call
/// @param rank         for hcomp_last_error_rank
int failed(int code, std::string_view where, std::string const& note, std::string_view what,
           int rank = -1) noexcept;

/// Runs f and turns every exception into an error code.
template <class F>
int guarded(char const* where, F const& f, std::string const& note = {}) noexcept {
  hcomp::detail::float_environment const environment;
  try {
    f();
    return HCOMP_OK;
  } catch (std::invalid_argument const& error) {
    return failed(HCOMP_INVALID_ARGUMENT, where, note, error.what());
  } catch (disagreement_error const& error) {
    return failed(HCOMP_DISAGREEMENT, where, note, error.what());
  } catch (nonfinite_error const& error) {
    return failed(HCOMP_NONFINITE, where, note, error.what());
  } catch (wire_error const& error) {
    return failed(HCOMP_DAMAGED, where, note, error.what());
  } catch (transport_error const& error) {
    return failed(HCOMP_TRANSPORT, where, note, error.what(), error.peer());
  } catch (not_running const& error) {
    return failed(HCOMP_NOT_RUNNING, where, note, error.what());
  } catch (std::bad_alloc const&) {
    return failed(HCOMP_OTHER, where, note, "there is not enough memory");
  } catch (std::exception const& error) {
    return failed(HCOMP_OTHER, where, note, error.what());
  } catch (...) {
    return failed(HCOMP_OTHER, where, note, "something was thrown that is no std::exception");
  }
}

/// Base of every handle. A forked child has copies of its parent's handles, without their threads
/// and on the same connections: it must not use them.
struct handle {
  ::pid_t process = ::getpid();

  bool is_forked() const { return process != ::getpid(); }
};

/// @throws std::invalid_argument  a null pointer, or a handle in a forked child
template <class T> T& require(T* pointer, char const* name) {
  if (!pointer) throw std::invalid_argument(std::string(name) + " is a null pointer");
  if constexpr (std::is_base_of_v<handle, T>)
    if (pointer->is_forked())
      throw std::invalid_argument(std::string(name) + " was made by process " +
                                  std::to_string(pointer->process) + ", of which process " +
                                  std::to_string(::getpid()) +
                                  " is a fork; a forked process needs handles of its own");
  return *pointer;
}

/// Takes a handle from the caller, to end it. Null in a forked child, which drops the handle: its
/// connections are its parent's.
template <class T> std::unique_ptr<T> taken(T** place, char const* name) {
  std::unique_ptr<T> it(std::exchange(require(place, name), nullptr));
  if (it && it->is_forked()) static_cast<void>(it.release());
  return it;
}

/// Parses the codec of a plan, as in a rule without the keys that choose vectors.
/// @throws std::invalid_argument  the text says what is wrong
drop_in::codec_spec codec_spec_from(drop_in::value_type type, std::string const& text);

/// Removes a prefix, for example the name of the environment variable in errors of settings::from.
std::string without(std::string_view prefix, std::string text);

hcomp_report to_c(report const& made);

/// Starts a nonblocking call, which hcomp_wait completes.
/// @param function  name in the C API, the start of error texts; a string literal
/// @param work      (remark on the call, for its errors; its turn) runs the call
/// @throws std::invalid_argument  as connection::begin
hcomp_request* start(connection& over, char const* function, drop_in::request_queue::manner how,
                     std::function<hcomp_report(std::string& note, turn const& now)> work);

/// Creates a plan in *plan. A null `plan` is an invalid argument. Collective.
/// @param type        float or double; other types and none are invalid arguments
/// @param codec_text  null is an invalid argument
/// @throws std::invalid_argument, disagreement_error  on all ranks alike
void create_plan(std::shared_ptr<connection> over, std::size_t values,
                 std::optional<drop_in::value_type> type, char const* codec_text,
                 hcomp_plan** plan);

/// Compares the texts of all ranks. Either all ranks throw or none does.
/// @param what   what differs between the ranks: "ask for different plans"
/// @param error  why this rank's call is invalid; empty if it is valid
/// @throws disagreement_error     the texts differ
/// @throws std::invalid_argument  with the text `error`
void agree(any_transport& transport, char const* what, std::string const& text,
           std::string const& error);
/// The same through shared memory.
void agree(node::collectives& inside, char const* what, std::string const& text,
           std::string const& error);

}  // namespace hcomp::c_api
