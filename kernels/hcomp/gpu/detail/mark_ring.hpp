#pragma once
/// @file
/// Numbered marks in the work of one stream, and their progress. Independent of CUDA, so tests need
/// no GPU.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::gpu::detail {

/// Ring of events that mark places in the work of one stream.
///
/// Marks are numbered 1, 2, ... in the order of the work. If a mark is done, all earlier marks are
/// done. Any number of marks can be pending, and waiting for a mark is optional. A new mark reuses
/// the oldest event if its mark is done; otherwise it allocates an event.
/// @tparam Event  has record(stream), is_done(), wait() and hold(stream), as gpu::detail::event
template <class Event> class mark_ring {
 public:
  template <class Stream> std::uint64_t record(Stream stream) {
    if (!events_.empty() && (first_ <= done_ || events_[oldest_].is_done())) {
      events_[oldest_].record(stream);
      done_ = std::max(done_, first_);
      ++first_;
    } else {
      Event fresh;
      fresh.record(stream);
      events_.insert(events_.begin() + static_cast<std::ptrdiff_t>(oldest_), std::move(fresh));
    }
    oldest_ = (oldest_ + 1) % events_.size();
    return last();
  }

  /// Blocks until the work before mark `number` is done; number 0 precedes all work.
  /// @throws std::invalid_argument  this ring has no mark of this number
  void wait(std::uint64_t number) {
    if (number <= done_) return;
    event_of(number).wait();
    done_ = number;
  }

  /// True if the work before mark `number` is done.
  /// @throws std::invalid_argument  as wait
  bool is_done(std::uint64_t number) {
    if (number > done_ && event_of(number).is_done()) done_ = number;
    return number <= done_;
  }

  /// Makes later work of `stream` wait for mark `number`.
  /// @throws std::invalid_argument  as wait
  template <class Stream> void hold(Stream stream, std::uint64_t number) const {
    if (number > done_) event_of(number).hold(stream);
  }

  /// Tells the ring that all work is done, for instance after a stream synchronization.
  void all_done() { done_ = last(); }

  std::size_t events() const { return events_.size(); }

 private:
  std::uint64_t last() const { return first_ + events_.size() - 1; }
  Event const& event_of(std::uint64_t number) const {
    if (number > last())
      throw std::invalid_argument("stream_executor: wait for mark " + std::to_string(number) +
                                  ", but this executor has made " + std::to_string(last()));
    return events_[(oldest_ + (number - first_)) % events_.size()];
  }

  std::vector<Event> events_;  // in the order of their marks, starting at oldest_
  std::size_t oldest_ = 0;
  std::uint64_t first_ = 1;  // mark of the oldest event
  std::uint64_t done_ = 0;   // this mark and all earlier ones are known to be done
};

}  // namespace hcomp::gpu::detail
