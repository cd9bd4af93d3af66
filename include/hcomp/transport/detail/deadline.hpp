#pragma once
/// @file
/// Time limits.

#include <algorithm>
#include <chrono>

namespace hcomp::detail {

/// The time limit of a wait that polls it.
///
/// Time in which the process does not run does not count, for example while a batch system or a
/// debugger has stopped it: of the time between two polls, at most a quarter of the limit counts.
class deadline {
 public:
  using time = std::chrono::nanoseconds;  ///< since an arbitrary epoch

  static time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

  /// @param limit  from now on; 0: none
  explicit deadline(time limit, time now = deadline::now())
      : left_(limit.count() == 0 ? time::max() : limit),
        most_(std::max<time>(limit / 4, std::chrono::milliseconds(1))),
        polled_(now) {}

  /// The time that is left; negative after the deadline, time::max() if there is none.
  time left(time now = deadline::now()) {
    if (left_ != time::max()) left_ -= std::min(now - polled_, most_);
    polled_ = now;
    return left_;
  }
  bool passed(time now = deadline::now()) { return left(now).count() <= 0; }

  /// The longest sleep before the next poll.
  time longest_sleep() const { return std::min(left_, most_); }

 private:
  time left_, most_, polled_;
};

}  // namespace hcomp::detail
