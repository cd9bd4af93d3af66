#pragma once
/// @file
/// A group of several lanes on the CPU, one thread each: what a warp is to a codec, without a GPU.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/core/group.hpp>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lanes {

/// Where all lanes of a group meet. A lane that never comes is an error after a while, not a hang.
class meeting {
 public:
  explicit meeting(int lanes) : lanes_(lanes), values_(static_cast<std::size_t>(lanes)) {}

  /// Returns, to all lanes alike, the sum of what they brought.
  std::uint64_t sum(std::uint64_t value) {
    std::unique_lock lock(mutex_);
    unsigned const round = round_;
    brought_ += value;
    if (++arrived_ == lanes_) {
      result_ = brought_;
      brought_ = 0;
      arrived_ = 0;
      ++round_;
      everyone_.notify_all();
    } else if (!everyone_.wait_for(lock, std::chrono::seconds(20),
                                   [&] { return round_ != round; })) {
      throw std::logic_error(
          "only some lanes of a group came to meet: a collective is in a branch");
    }
    return result_;
  }

  hcomp::running_sums running_sum(int lane, std::uint64_t value) {
    values_[static_cast<std::size_t>(lane)] = value;
    hcomp::running_sums found{0, sum(value)};
    for (int below = 0; below < lane; ++below)
      found.before += values_[static_cast<std::size_t>(below)];
    sum(0);  // before somebody writes the next ones
    return found;
  }

 private:
  std::mutex mutex_;
  std::condition_variable everyone_;
  int lanes_;
  int arrived_ = 0;
  unsigned round_ = 0;
  std::uint64_t brought_ = 0, result_ = 0;
  std::vector<std::uint64_t> values_;
};

/// The group that a block function sees.
template <int Lanes> class lane_group {
 public:
  static constexpr int lanes = Lanes;

  lane_group(meeting& place, int lane) : place_(&place), lane_(lane) {}

  int lane() const { return lane_; }
  void sync() const { place_->sum(0); }
  bool any(bool value) const { return place_->sum(value ? 1 : 0) != 0; }
  std::uint64_t sum(std::uint64_t value) const { return place_->sum(value); }
  hcomp::running_sums running_sum(std::uint64_t value) const {
    return place_->running_sum(lane_, value);
  }

 private:
  meeting* place_;
  int lane_;
};

/// Calls f(group) in `Lanes` threads at once.
/// @throws what the first lane that failed threw
template <int Lanes, class F> void run(F const& f) {
  meeting place(Lanes);
  std::vector<std::exception_ptr> errors(Lanes);
  std::vector<std::thread> threads;
  for (int lane = 0; lane < Lanes; ++lane)
    threads.emplace_back([&, lane] {
      try {
        f(lane_group<Lanes>(place, lane));
      } catch (...) {
        errors[static_cast<std::size_t>(lane)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (auto const& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace lanes
