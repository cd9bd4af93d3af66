#pragma once
/// @file
/// SIGINT and SIGTERM as something to ask for between two measurements, instead of the end at once.

#include <mpi.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "program.hpp"

namespace example {

/// While one lives, SIGINT and SIGTERM are noted. One that comes half a second after the first or
/// later ends the process at once, as any does without this; launchers send more than one for one
/// that they get.
///
/// A program asks signal() between measurements and, once it is not 0, writes what it has and throws
/// `interrupted`. Launchers pass on the signals that they get. MPICH's waits for its ranks and mostly
/// exits with their status. Open MPI 4.1's sends SIGTERM for both, kills the ranks a second later (MCA
/// parameter odls_base_sigkill_timeout) and exits with 1. A program whose measurements may take longer
/// than a second must therefore write its figures while it measures.
class interruption {
 public:
  /// One at a time.
  interruption() {
    noted_ = 0;
    says_ = rank() == 0;
    struct sigaction note {};
    note.sa_handler = [](int signal) {
      timespec time{};
      clock_gettime(CLOCK_MONOTONIC, &time);
      std::int64_t const now = std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
      if (noted_ != 0) {
        if (now < noted_at_ + 500) return;
        ::signal(signal, SIG_DFL);
        ::raise(signal);  // when this returns
        return;
      }
      noted_at_ = now;
      noted_ = signal;
      constexpr char text[] = "\nends after this measurement; a second signal ends it now\n";
      if (says_ && write(STDERR_FILENO, text, sizeof text - 1) < 0) return;
    };
    note.sa_flags = SA_RESTART;
    sigaction(SIGINT, &note, &int_before_);
    sigaction(SIGTERM, &note, &term_before_);
  }
  ~interruption() {
    sigaction(SIGINT, &int_before_, nullptr);
    sigaction(SIGTERM, &term_before_, nullptr);
  }
  interruption(interruption const&) = delete;
  interruption& operator=(interruption const&) = delete;

  /// What this process has noted, SIGINT, SIGTERM, or 0. Any thread may ask.
  int noted() const { return noted_; }
  /// What any rank has noted, on all ranks alike: SIGINT, SIGTERM, or 0 for none. Collective.
  int signal() {
    if (agreed_ == 0) {
      agreed_ = noted_;
      MPI_Allreduce(MPI_IN_PLACE, &agreed_, 1, MPI_INT, MPI_MAX, comm);
    }
    return agreed_;
  }

 private:
  // Of the process, as its signals are; lock-free, as handlers need it.
  static inline std::atomic<int> noted_{0};
  static inline std::atomic<std::int64_t> noted_at_{0};  ///< in milliseconds
  static inline std::atomic<bool> says_{false};
  static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
                std::atomic<std::int64_t>::is_always_lock_free);

  struct sigaction int_before_ {
  }, term_before_{};
  int agreed_ = 0;
};

}  // namespace example
