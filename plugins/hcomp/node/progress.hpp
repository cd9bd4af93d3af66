#pragma once
/// @file
/// Progress counters in shared memory, and waiting for them. Linux.

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <functional>
#include <hcomp/transport/any_transport.hpp>
#include <optional>

namespace hcomp::node {

/// A counter in shared memory that one rank increments and other ranks wait for. Zeroed memory is a
/// valid counter of 0.
class progress {
 public:
  /// Sets the counter. Only by its owner. Earlier writes of this rank become visible first.
  void raise_to(std::uint32_t count) {
    count_.store(count);
    if (waiting_.load() > 0)
      ::syscall(SYS_futex, &count_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  /// Returns when the counter is at least `count`. Counters wrap around at 2^32: a value is greater
  /// if it is ahead by less than half of the range.
  /// @param spins  how often to look before the core is given to other threads: few where the
  ///               awaited rank may need this core
  /// @param look   called from time to time while waiting; may throw
  template <class Look> void wait_for(std::uint32_t count, int spins, Look const& look) {
    if (spin(count, spins)) return;
    for (int turn = 0; turn < 80; ++turn) {
      if (has(count)) return;
      ::sched_yield();
    }
    while (!has(count)) {
      waiting_.fetch_add(1);
      if (auto const seen = count_.load(); !is_reached(seen, count)) {
        constexpr ::timespec time{0, std::chrono::nanoseconds(a_while).count()};
        ::syscall(SYS_futex, &count_, FUTEX_WAIT, seen, &time, nullptr, 0);
      }
      waiting_.fetch_sub(1);
      if (!has(count)) look();
    }
  }

  /// The same; other collectives, or messages of the program, progress meanwhile.
  /// @param over  must have wait_until
  template <class Look>
  void wait_for(std::uint32_t count, int spins, Look const& look, any_transport& over) {
    if (spin(count, spins)) return;
    using clock = std::chrono::steady_clock;
    std::optional<clock::time_point> looked;
    auto const has_arrived = [&] {
      if (has(count)) return true;
      auto const now = clock::now();
      if (!looked) looked = now;
      if (now - *looked >= a_while) {
        looked = now;
        look();
      }
      return false;
    };
    over.wait_until(std::ref(has_arrived));
  }

 private:
  static constexpr std::chrono::milliseconds a_while{20};  ///< between calls of `look`

  static bool is_reached(std::uint32_t seen, std::uint32_t count) {
    return static_cast<std::int32_t>(seen - count) >= 0;
  }
  bool has(std::uint32_t count) const { return is_reached(count_.load(), count); }
  bool spin(std::uint32_t count, int spins) const {
    for (int turn = 0; turn < spins; ++turn) {
      if (has(count)) return true;
#if defined(__x86_64__)
      if (turn >= 20) __builtin_ia32_pause();
#endif
    }
    return false;
  }

  std::atomic<std::uint32_t> count_;
  std::atomic<std::uint32_t> waiting_;  ///< waiting ranks; too high after one of them was killed
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace hcomp::node
