#pragma once
/// @file
/// Queue of nonblocking calls that a progress thread runs, in order or concurrently.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <hcomp/transport/concurrent_transport.hpp>
#include <memory>
#include <mutex>
#include <optional>

namespace hcomp::drop_in {

/// Nonblocking calls over one concurrent_transport. They start in the order of `begin`, which must
/// be the same on all ranks. Only the progress thread calls `serve`.
class request_queue {
 public:
  /// Runs a call. Must not throw.
  /// @param number  position in the order of `begin`, from 0
  using work = std::function<void(std::uint64_t number)>;
  /// How a call may overlap with neighbouring calls; equal on all ranks.
  struct manner {
    /// The call may overlap with up to most_together - 1 neighbours that also set this flag.
    /// Otherwise it runs alone.
    bool together = false;
    /// Calls with the same pointer run one after the other, see start_options.
    void const* exclusive = nullptr;
    /// The call runs alone and never waits on a transport, so it needs no stack of its own.
    bool directly = false;
  };

  /// @param most_together  1 to concurrent_transport::channels
  explicit request_queue(std::size_t most_together) : most_together_(most_together) {}
  request_queue(request_queue const&) = delete;
  request_queue& operator=(request_queue const&) = delete;

  // ---- For the program's threads

  void begin(work run, manner how);
  /// Returns when all queued calls are done. The progress thread pauses while the caller holds the
  /// lock.
  std::unique_lock<std::mutex> wait_for_all();
  /// Makes the progress thread check for work.
  void wake() { changed_.notify_all(); }
  /// Makes `serve` return after all queued calls are done.
  void end();

  // ---- For the progress thread

  /// Runs queued calls until `end`.
  /// @param make  () runs all waiting calls: see make_all
  /// @param rest  (lock, condition variable, predicate) waits until the predicate is true, or
  ///              shorter
  template <class Make, class Rest> void serve(Make const& make, Rest const& rest) {
    std::unique_lock lock(mutex_);
    for (;;) {
      rest(lock, changed_, [&] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) {
        if (ends_) return;
        continue;
      }
      busy_ = true;
      lock.unlock();
      make();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }
  /// Runs all waiting calls, and those queued meanwhile.
  void make_all(concurrent_transport& over);
  /// Runs the first waiting call outside any transport, for calls that only report an error.
  void make_first() { first_that_waits()->run(begun_); }

  // ---- For a call in progress

  /// Returns when all calls with smaller numbers are done.
  void wait_for_earlier(concurrent_transport& over, std::uint64_t number);
  /// Runs f(), once in each call, after the f of all calls with smaller numbers.
  template <class F> void in_turn(concurrent_transport& over, std::uint64_t number, F const& f) {
    wait_until_earlier(over, number, [](pending_request const& one) { return one.had_turn; });
    f();
    for (auto const& one : under_way_)
      if (one->number == number) one->had_turn = true;
  }

 private:
  struct pending_request {
    work run;
    manner how;
    std::uint64_t number = 0;
    bool had_turn = false;
    bool is_done = false;
    std::optional<hcomp::request<void>> runs = {};
  };

  void begin_those_that_may(concurrent_transport& over);
  bool may_begin(pending_request const& next) const;
  std::unique_ptr<pending_request> first_that_waits();
  void wait_until_earlier(concurrent_transport& over, std::uint64_t number,
                          bool (*are_so)(pending_request const&));

  std::size_t const most_together_;
  std::deque<std::unique_ptr<pending_request>>
      under_way_;            ///< owned by the progress thread, in order
  std::uint64_t begun_ = 0;  ///< by the progress thread
  std::mutex mutex_;         ///< of the members below
  std::condition_variable changed_;
  std::deque<std::unique_ptr<pending_request>> waiting_;
  bool busy_ = false, ends_ = false;
};

}  // namespace hcomp::drop_in
