#include "request_queue.hpp"

#include <algorithm>
#include <utility>

namespace hcomp::drop_in {

void request_queue::begin(work run, manner how) {
  auto one = std::make_unique<pending_request>(pending_request{std::move(run), how});
  {
    std::lock_guard const lock(mutex_);
    waiting_.push_back(std::move(one));
  }
  changed_.notify_all();
}

std::unique_lock<std::mutex> request_queue::wait_for_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  return lock;
}

void request_queue::end() {
  {
    std::lock_guard const lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
}

void request_queue::make_all(concurrent_transport& over) {
  for (;;) {
    begin_those_that_may(over);
    if (under_way_.empty()) return;
    auto const goes_on = [&] {
      if (under_way_.front()->is_done) return true;
      std::lock_guard const lock(mutex_);
      return !waiting_.empty() && may_begin(*waiting_.front());
    };
    over.wait_until(std::ref(goes_on));
    while (!under_way_.empty() && under_way_.front()->is_done) under_way_.pop_front();
  }
}

std::unique_ptr<request_queue::pending_request> request_queue::first_that_waits() {
  std::lock_guard const lock(mutex_);
  auto first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

bool request_queue::may_begin(pending_request const& next) const {
  return under_way_.empty() || (next.how.together && under_way_.front()->how.together &&
                                under_way_.size() < most_together_);
}

void request_queue::begin_those_that_may(concurrent_transport& over) {
  for (;;) {
    {
      std::lock_guard const lock(mutex_);
      if (waiting_.empty() || !may_begin(*waiting_.front())) return;
    }
    under_way_.push_back(first_that_waits());
    auto& next = *under_way_.back();
    next.number = begun_++;
    if (next.how.directly) {
      next.run(next.number);
      under_way_.pop_back();
      continue;
    }
    next.runs.emplace(over.start(
        [&next] {
          next.run(next.number);
          next.is_done = true;
        },
        {.exclusive = next.how.exclusive}));
  }
}

void request_queue::wait_until_earlier(concurrent_transport& over, std::uint64_t number,
                                       bool (*are_so)(pending_request const&)) {
  auto const all_are = [&] {
    return std::ranges::all_of(under_way_, [&](auto const& one) {
      return one->number >= number || one->is_done || are_so(*one);
    });
  };
  over.wait_until(std::ref(all_are));
}

void request_queue::wait_for_earlier(concurrent_transport& over, std::uint64_t number) {
  wait_until_earlier(over, number, [](pending_request const&) { return false; });
}

}  // namespace hcomp::drop_in
