#pragma once
/// @file
/// A group of several workers on the CPU, one thread each: simulates a warp for codecs, without a
/// GPU.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <hcomp/core/group.hpp>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace workers {

/// The barrier of all workers of a group. A worker that never arrives is an error after a while,
/// not a hang.
class meeting {
 public:
  explicit meeting(int workers) : workers_(workers), values_(static_cast<std::size_t>(workers)) {}

  /// Returns the sum of all workers' values to each worker.
  std::uint64_t sum(std::uint64_t value) {
    std::unique_lock lock(mutex_);
    unsigned const round = round_;
    brought_ += value;
    if (++arrived_ == workers_) {
      result_ = brought_;
      brought_ = 0;
      arrived_ = 0;
      ++round_;
      everyone_.notify_all();
    } else if (!everyone_.wait_for(lock, std::chrono::seconds(20),
                                   [&] { return round_ != round; })) {
      throw std::logic_error(
          "only some workers of a group came to meet: a collective is in a branch");
    }
    return result_;
  }

  hcomp::running_sums running_sum(int worker, std::uint64_t value) {
    values_[static_cast<std::size_t>(worker)] = value;
    hcomp::running_sums found{0, sum(value)};
    for (int below = 0; below < worker; ++below)
      found.before += values_[static_cast<std::size_t>(below)];
    sum(0);  // before a worker writes the next values
    return found;
  }

 private:
  std::mutex mutex_;
  std::condition_variable everyone_;
  int workers_;
  int arrived_ = 0;
  unsigned round_ = 0;
  std::uint64_t brought_ = 0, result_ = 0;
  std::vector<std::uint64_t> values_;
};

/// The group that a block function gets.
template <int Workers> class worker_group {
 public:
  static constexpr int workers = Workers;

  worker_group(meeting& place, int worker) : place_(&place), worker_(worker) {}

  int worker() const { return worker_; }
  void sync() const { place_->sum(0); }
  bool any(bool value) const { return place_->sum(value ? 1 : 0) != 0; }
  std::uint64_t sum(std::uint64_t value) const { return place_->sum(value); }
  hcomp::running_sums running_sum(std::uint64_t value) const {
    return place_->running_sum(worker_, value);
  }

 private:
  meeting* place_;
  int worker_;
};

/// Workers in warps of 32 with shared memory: simulates a thread block.
template <int Workers> class warped_group : public worker_group<Workers> {
 public:
  /// Shared state of the workers of one warp.
  struct warp {
    meeting place{32};
    std::uint64_t values[32] = {};
  };

  /// @param warps    Workers / 32
  /// @param scratch  for all workers together
  warped_group(worker_group<Workers> group, std::vector<std::unique_ptr<warp>> const& warps,
               float* scratch)
      : worker_group<Workers>(group),
        warp_(warps[static_cast<std::size_t>(group.worker() / 32)].get()),
        scratch_(scratch) {}

  std::uint32_t vote(bool value) const {
    return static_cast<std::uint32_t>(warp_->place.sum(std::uint64_t{value} << number()));
  }
  template <class T> T xor_shuffle(T value, int distance) const {
    return lane_value(value, number() ^ distance);
  }
  template <class T> T lane_value(T value, int lane) const {
    std::memcpy(warp_->values + number(), &value, sizeof(T));
    warp_->place.sum(0);
    T other;
    std::memcpy(&other, warp_->values + lane, sizeof(T));
    warp_->place.sum(0);
    return other;
  }
  float* scratch() const { return scratch_; }

 private:
  int number() const { return this->worker() % 32; }

  warp* warp_;
  float* scratch_;
};

/// Teams of one warp each, which can work independently.
template <int Teams> class teamed_group : public warped_group<32 * Teams> {
 public:
  static constexpr int teams = Teams;
  using team_group = warped_group<32>;
  /// Shared state of the workers of one team.
  struct shared {
    meeting place{32};
    std::vector<std::unique_ptr<typename team_group::warp>> warps;
    shared() { warps.push_back(std::make_unique<typename team_group::warp>()); }
  };

  teamed_group(warped_group<32 * Teams> group, std::vector<std::unique_ptr<shared>> const& all)
      : warped_group<32 * Teams>(group), mine_(all[static_cast<std::size_t>(team())].get()) {}

  int team() const { return this->worker() / 32; }
  team_group own_team() const {
    return {worker_group<32>(mine_->place, this->worker() % 32), mine_->warps, nullptr};
  }

 private:
  shared* mine_;
};

/// Calls f(group) in `Workers` threads at once.
/// @throws the exception of the first worker that failed
template <int Workers, class F> void run(F const& f) {
  meeting place(Workers);
  std::vector<std::exception_ptr> errors(Workers);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < Workers; ++worker)
    threads.emplace_back([&, worker] {
      try {
        f(worker_group<Workers>(place, worker));
      } catch (...) {
        errors[static_cast<std::size_t>(worker)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (auto const& error : errors)
    if (error) std::rethrow_exception(error);
}

/// The same in warps.
/// @param scratch_bytes  of shared memory
template <int Workers, class F> void run_in_warps(std::size_t scratch_bytes, F const& f) {
  std::vector<std::unique_ptr<typename warped_group<Workers>::warp>> warps;
  for (int w = 0; w < Workers / 32; ++w)
    warps.push_back(std::make_unique<typename warped_group<Workers>::warp>());
  std::vector<float> scratch(scratch_bytes / sizeof(float), -7.0f);
  run<Workers>([&](auto group) { f(warped_group<Workers>(group, warps, scratch.data())); });
}

/// The same in teams.
template <int Teams, class F> void run_in_teams(std::size_t scratch_bytes, F const& f) {
  std::vector<std::unique_ptr<typename teamed_group<Teams>::shared>> all;
  for (int t = 0; t < Teams; ++t)
    all.push_back(std::make_unique<typename teamed_group<Teams>::shared>());
  run_in_warps<32 * Teams>(scratch_bytes, [&](auto group) { f(teamed_group<Teams>(group, all)); });
}

}  // namespace workers
