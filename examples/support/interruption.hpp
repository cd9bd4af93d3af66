#pragma once
/// @file
/// Deferred SIGINT and SIGTERM: a program polls for them between measurements.

#include <mpi.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "program.hpp"

namespace example {

/// While an object exists, it records SIGINT and SIGTERM. A signal that arrives half a second or
/// more after the first one ends the process at once. Earlier signals are ignored, because
/// launchers send several for one.
///
/// A program calls signal() between measurements. If the result is not 0, the program writes its
/// results and throws `interrupted`.
///
/// Launchers forward signals. MPICH's launcher waits for its ranks and usually exits with their
/// status. Open MPI 4.1's launcher sends SIGTERM for both signals, kills the ranks one second later
/// (MCA parameter odls_base_sigkill_timeout) and exits with 1. A program whose measurements can
/// take longer than a second must therefore write results while it measures.
class interruption {
 public:
  /// At most one object may exist.
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
        ::raise(signal);  // takes effect when this handler returns
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

  /// The signal that this process has received: SIGINT, SIGTERM, or 0 for none. Thread-safe.
  int noted() const { return noted_; }
  /// The signal that any rank has received: SIGINT, SIGTERM, or 0 for none. The same on all ranks.
  /// Collective.
  int signal() {
    if (agreed_ == 0) {
      agreed_ = noted_;
      MPI_Allreduce(MPI_IN_PLACE, &agreed_, 1, MPI_INT, MPI_MAX, comm);
    }
    return agreed_;
  }

 private:
  // Static, because signals belong to the process. Lock-free, because signal handlers use them.
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
