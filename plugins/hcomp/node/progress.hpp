#pragma once
/// @file
/// How far ranks that share memory are, and how they wait for each other. Linux.

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

/// A count in shared memory that one rank raises and others wait for. Zeros are a count of 0.
class progress {
 public:
  /// Raises it, by the rank whose it is: what this rank wrote before can be read.
  void raise_to(std::uint32_t count) {
    count_.store(count);
    if (waiting_.load() > 0)
      ::syscall(SYS_futex, &count_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  /// Returns when the count is at least so high. Counts begin anew at 0 after 2^32 - 1: one is the
  /// higher of two where it is ahead by less than half of all.
  /// @param look  called from time to time while it waits; may throw
  template <class Look> void wait_for(std::uint32_t count, Look const& look) {
    // Others may need this core to get there: it is left to them before long.
    for (int turn = 0; turn < 100; ++turn) {
      if (has(count)) return;
      if (turn >= 20) ::sched_yield();
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

  /// The same, where other collectives go on meanwhile.
  /// @param over  has wait_until
  template <class Look> void wait_for(std::uint32_t count, Look const& look, any_transport& over) {
    using clock = std::chrono::steady_clock;
    std::optional<clock::time_point> looked;
    auto const is_there = [&] {
      if (has(count)) return true;
      auto const now = clock::now();
      if (!looked) looked = now;
      if (now - *looked >= a_while) {
        looked = now;
        look();
      }
      return false;
    };
    over.wait_until(std::ref(is_there));
  }

 private:
  static constexpr std::chrono::milliseconds a_while{20};  ///< between looks

  static bool is_reached(std::uint32_t seen, std::uint32_t count) {
    return static_cast<std::int32_t>(seen - count) >= 0;
  }
  bool has(std::uint32_t count) const { return is_reached(count_.load(), count); }

  std::atomic<std::uint32_t> count_;
  std::atomic<std::uint32_t> waiting_;  ///< ranks; more, if one of them was killed
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace hcomp::node
