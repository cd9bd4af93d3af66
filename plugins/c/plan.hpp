#pragma once
/// @file
/// What the C API does in the same way whoever moves the bytes: exceptions become codes and words.

#include <hcomp/plan.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/node/sums.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "handle_number.hpp"
#include "request_queue.hpp"
#include "settings.hpp"

namespace hcomp::c_api {

/// Which of the calls that were started a call is.
struct turn {
  std::uint64_t number;  ///< from 0
  bool together;         ///< others may be under way
};

/// What moves the bytes of a sum, and of others, maybe.
struct connection {
  connection() = default;
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  virtual ~connection() = default;

  virtual any_transport& transport() = 0;
  /// Who is on one host. Collective when it is asked first.
  virtual node::node_ranks& nodes();
  /// For a new sum. Collective.
  virtual std::uint64_t next_handle() { return drop_in::next_handle_number(transport()); }
  /// Compares what sums all ranks ask for.
  /// @param error  what is wrong with this rank's, or nothing
  /// @throws std::invalid_argument, disagreement_error  on all ranks alike
  virtual void agree_on_sum(std::string const& text, std::string const& error);
  /// Of a new sum. Errors as of make_feedback_plan.
  virtual any_plan<float> plan_of(drop_in::codec_spec const& how, std::size_t values,
                                  host_executor& executor, std::type_identity<float>);
  virtual any_plan<double> plan_of(drop_in::codec_spec const& how, std::size_t values,
                                   host_executor& executor, std::type_identity<double>);
  /// Steps of sums are numbered by what moves their bytes, not by how often a sum was called here.
  virtual bool numbers_steps() const { return false; }
  /// Begins a call; nothing else uses the transport while the caller holds what it gives.
  /// @throws not_running
  virtual std::unique_lock<std::mutex> enter() = 0;
  /// Has a call made soon, by a thread. In no call.
  /// @param work  must not throw
  /// @throws std::invalid_argument  there is no such thread
  virtual void begin(drop_in::request_queue::work /*work*/,
                     drop_in::request_queue::manner /*how*/) {
    throw std::invalid_argument("calls can be started over a group of hcomp_group_create only");
  }
  /// Compares what all ranks call, where some may wait otherwise than by the transport, or by other
  /// messages. First in a call.
  /// @param started   null: it was not
  /// @param hierarchical  it is hierarchical
  /// @throws disagreement_error  on all ranks alike
  virtual void meet(std::string const& /*call*/, turn const* /*started*/ = nullptr,
                    bool /*hierarchical*/ = false) {}
  /// Ranks that wait for this one otherwise than by the transport get the same error. Within a call.
  virtual void tell_others(transport_error const& /*error*/) {}

 private:
  std::unique_ptr<node::node_ranks> nodes_;
};

/// MPI or the drop-in library is not there.
struct not_running : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Keeps the words for hcomp_last_error. Gives the code.
/// @param where, note  begin the words: which function, and what is odd about the call
/// @param rank         for hcomp_last_error_rank
int failed(int code, std::string_view where, std::string const& note, std::string_view what,
           int rank = -1) noexcept;

/// Nothing that `f` throws gets out.
template <class F>
int guarded(char const* where, F const& f, std::string const& note = {}) noexcept {
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

template <class T> T& require(T* pointer, char const* name) {
  if (!pointer) throw std::invalid_argument(std::string(name) + " is a null pointer");
  return *pointer;
}

/// Texts of settings::from name the environment's variable.
std::string without(std::string_view prefix, std::string text);

hcomp_report to_c(report const& made);

/// Begins a call for hcomp_wait.
/// @param function  of the C API, which the words of its errors begin with; a literal
/// @param work      (what is odd about the call, for its errors; which turn it is), makes it
/// @throws std::invalid_argument  as connection::begin
hcomp_request* start(connection& over, char const* function, drop_in::request_queue::manner how,
                     std::function<hcomp_report(std::string& note, turn const& now)> work);

/// A sum, written to *sum, which may be null: that is a wrong argument. Collective.
/// @param type         float or double; others, and none, are wrong arguments
/// @param method_text  or null
/// @throws std::invalid_argument, disagreement_error  on all ranks alike
void make_sum(std::shared_ptr<connection> over, std::size_t values,
              std::optional<drop_in::value_type> type, char const* codec_text, hcomp_plan** sum);

/// Compares texts of all ranks. All throw or none does.
/// @param what   of the ranks differs, such as "ask for different sums"
/// @param error  what is wrong with this rank's, or nothing
/// @throws disagreement_error     their texts differ
/// @throws std::invalid_argument  with `error`
void agree(any_transport& transport, char const* what, std::string const& text,
           std::string const& error);
/// The same through memory.
void agree(node::sums& inside, char const* what, std::string const& text, std::string const& error);

}  // namespace hcomp::c_api
