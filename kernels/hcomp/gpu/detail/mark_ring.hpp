#pragma once
/// @file
/// Numbered places in one stream's work, and how far the work is: no CUDA, so that it can be tested
/// anywhere.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::gpu::detail {

/// Marks are numbered 1, 2, ... in the order of the work, so what is before a finished one is
/// finished, too. As many as the caller likes can be under way, waited for or not: an event is used
/// again when its mark is finished, and made new only if not even the oldest one is.
/// @tparam Event  record(stream), is_done() and wait(), as gpu::detail::event
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

  /// Returns when the work before mark `number` is done; number 0 is before all work.
  /// @throws std::invalid_argument  no such mark was made here
  void wait(std::uint64_t number) {
    if (number <= done_) return;
    event_of(number).wait();
    done_ = number;
  }

  /// Whether the work before mark `number` is done.
  /// @throws std::invalid_argument  as wait
  bool is_done(std::uint64_t number) {
    if (number > done_ && event_of(number).is_done()) done_ = number;
    return number <= done_;
  }

  /// Work that `stream` gets from now on waits for mark `number`.
  /// @throws std::invalid_argument  as wait
  template <class Stream> void hold(Stream stream, std::uint64_t number) const {
    if (number > done_) event_of(number).hold(stream);
  }

  /// The caller has seen that all work is done.
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

  std::vector<Event> events_;  // in the order of their marks, beginning with oldest_
  std::size_t oldest_ = 0;
  std::uint64_t first_ = 1;  // the oldest event's mark
  std::uint64_t done_ = 0;   // this mark and all before are known to be finished
};

}  // namespace hcomp::gpu::detail
