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

/// Settings, state of the communicators, and statistics.
class library {
 public:
  /// See drop_in::thread_level.
  static int thread_level(int asked);
  /// See drop_in::start.
  static void start();
  /// See drop_in::stop.
  static void stop();
  /// Null before `start`, and after `stop` or the begin of MPI_Finalize.
  static library* running() { return instance_.load(std::memory_order_acquire); }

  /// The settings of the communicator from set(), or else those of the program.
  settings const& settings_of(MPI_Comm comm);
  /// Replaces the program's settings on this communicator. Its duplicates inherit them. Collective.
  /// @throws std::invalid_argument  the text is invalid; if only on some ranks, only there
  /// @throws disagreement_error     the texts differ; on all ranks with a valid text
  void set(MPI_Comm comm, std::string const& text);
  /// Restores the program's settings. Collective.
  void unset(MPI_Comm comm);

  /// State of the communicator, created on first use on all ranks and freed with the communicator.
  std::shared_ptr<communicator> state_of(MPI_Comm comm);
  /// Removes the state of a released communicator.
  void forget(communicator const& state);
  /// Creates a receive from this process itself, which all MPI functions accept as a request.
  /// `finish_request` completes it. A persistent request is not started yet.
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

  static std::atomic<library*> instance_;  ///< set while calls are taken over
  static std::atomic<library*> keeper_;    ///< set while states exist

  bool is_finished_ = false;

  settings settings_;
  std::string report_;
  int thread_level_;  ///< supported by all ranks
  MPI_Comm self_ = MPI_COMM_NULL;
  int end_key_ = MPI_KEYVAL_INVALID, state_key_ = MPI_KEYVAL_INVALID,
      settings_key_ = MPI_KEYVAL_INVALID;
  std::atomic<bool> has_special_{false};  ///< some communicator has its own settings
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
