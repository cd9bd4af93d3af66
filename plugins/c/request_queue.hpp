#pragma once
/// @file
/// Sums that a program begins and a thread makes: in their order, or several at a time.

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

/// Sums over one concurrent_transport. They begin in the order of the calls of `begin`, which is the
/// same on all ranks. Its maker is the one thread that calls `serve`.
class request_queue {
 public:
  /// Makes a sum. Must not throw.
  /// @param number  of the sum, from 0, in the order of the calls of `begin`
  using work = std::function<void(std::uint64_t number)>;
  /// How a sum goes with others; the same on all ranks.
  struct manner {
    /// It may be under way with up to most_together - 1 of those before and behind it that may, too;
    /// otherwise it is alone.
    bool together = false;
    /// Those with the same one follow each other, see start_options.
    void const* exclusive = nullptr;
    /// It is alone, and waits by no transport: it needs no stack of its own.
    bool directly = false;
  };

  /// @param most_together  1 to concurrent_transport::channels
  explicit request_queue(std::size_t most_together) : most_together_(most_together) {}
  request_queue(request_queue const&) = delete;
  request_queue& operator=(request_queue const&) = delete;

  // ---- For the program's threads

  void begin(work sum, manner how);
  /// Returns when all that was begun is done. The maker rests as long as the caller keeps the lock.
  std::unique_lock<std::mutex> wait_for_all();
  /// Has the maker look whether there is something to do.
  void wake() { changed_.notify_all(); }
  /// `serve` returns when all that was begun is done.
  void end();

  // ---- For the maker

  /// Until `end`.
  /// @param make  (), makes all that waits: see make_all
  /// @param rest  (lock, condition variable, function), waits until the function says that there is
  ///              something to do; or for less long
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
  /// Makes all that waits, and what is begun meanwhile.
  void make_all(concurrent_transport& over);
  /// Makes the first that waits, outside of any transport: for sums that only say what is wrong.
  void make_first() { first_that_waits()->sum(begun_); }

  // ---- For a sum under way

  /// Returns when those with smaller numbers are done.
  void wait_for_earlier(concurrent_transport& over, std::uint64_t number);
  /// Does f(), once in each sum, after that of all sums with smaller numbers.
  template <class F> void in_turn(concurrent_transport& over, std::uint64_t number, F const& f) {
    wait_until_earlier(over, number, [](begun_sum const& one) { return one.had_turn; });
    f();
    for (auto const& one : under_way_)
      if (one->number == number) one->had_turn = true;
  }

 private:
  struct begun_sum {
    work sum;
    manner how;
    std::uint64_t number = 0;
    bool had_turn = false;
    bool is_done = false;
    std::optional<hcomp::request<void>> runs = {};
  };

  void begin_those_that_may(concurrent_transport& over);
  bool may_begin(begun_sum const& next) const;
  std::unique_ptr<begun_sum> first_that_waits();
  void wait_until_earlier(concurrent_transport& over, std::uint64_t number,
                          bool (*are_so)(begun_sum const&));

  std::size_t const most_together_;
  std::deque<std::unique_ptr<begun_sum>> under_way_;  ///< the maker's, in order
  std::uint64_t begun_ = 0;                           ///< by the maker
  std::mutex mutex_;                                  ///< of what follows
  std::condition_variable changed_;
  std::deque<std::unique_ptr<begun_sum>> waiting_;
  bool busy_ = false, ends_ = false;
};

}  // namespace hcomp::drop_in
