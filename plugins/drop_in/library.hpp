#pragma once
/// @file
/// The drop-in library of one process, between MPI_Init and MPI_Finalize.

#include <mpi.h>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <c/residual_store.hpp>
#include <c/settings.hpp>
#include "communicator.hpp"
#include "journal.hpp"
#include "passed_calls.hpp"

namespace hcomp::drop_in {

/// Settings, the state of communicators, and what was done.
class library {
 public:
  /// See drop_in::thread_level.
  static int thread_level(int asked);
  /// See drop_in::start.
  static void start();
  /// See drop_in::stop.
  static void stop();
  /// Null before `start` and after `stop` or MPI_Finalize began.
  static library* running() { return instance_.load(std::memory_order_acquire); }

  /// Those of the communicator, from set(), or the program's.
  settings const& settings_of(MPI_Comm comm);
  /// Of this communicator, in place of the program's; duplicates inherit them. Collective.
  /// @throws std::invalid_argument  not understood; if on some rank alone, there
  /// @throws disagreement_error     other ranks have others; on all that understood theirs
  void set(MPI_Comm comm, std::string const& text);
  /// Those of the program again. Collective.
  void unset(MPI_Comm comm);

  /// Made when it is asked for first, by all ranks alike; gone with the communicator.
  std::shared_ptr<communicator> state_of(MPI_Comm comm);
  /// When it has been released.
  void forget(communicator const& state);
  /// A receive from this process itself, which `finish_request` ends: a request that all of MPI's
  /// functions understand. Persistent ones are not started yet.
  int make_request(bool persistent, MPI_Request* request, int& tag);
  void finish_request(int tag);

  bool reports() const { return !report_.empty() || settings_.shadow_calls > 0; }
  bool has_threads() const { return thread_level_ == MPI_THREAD_MULTIPLE; }
  drop_in::journal& journal() { return journal_; }
  passed_calls& passed() { return passed_; }
  std::string text_of_settings() const { return settings_.text(); }

 private:
  library(settings const& asked, std::string report, int level);
  void finish();
  void write_report();
  void watch(settings const& asked);

  static int at_end(MPI_Comm, int, void* value, void*);
  static int freed(MPI_Comm, int, void* value, void*);

  static std::atomic<library*> instance_;  ///< while calls are taken over
  static std::atomic<library*> keeper_;    ///< while there are states

  bool is_finished_ = false;

  settings settings_;
  std::string report_;
  int thread_level_;  ///< that all ranks have
  MPI_Comm self_ = MPI_COMM_NULL;
  int end_key_ = MPI_KEYVAL_INVALID, state_key_ = MPI_KEYVAL_INVALID,
      settings_key_ = MPI_KEYVAL_INVALID;
  std::atomic<bool> has_special_{false};  ///< settings of some communicator
  std::atomic<int> next_tag_{0};
  int largest_tag_ = 32767;
  std::mutex mutex_;
  std::uint64_t communicators_ = 0;
  std::map<std::uint64_t, std::shared_ptr<communicator>> states_;
  residual_store residuals_;
  drop_in::journal journal_;
  passed_calls passed_;
};

}  // namespace hcomp::drop_in
