#pragma once
/// @file
/// Workers of an aggregator as processes, which a test can kill.

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/aggregation.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/udp/packets.hpp>
#include <new>
#include <span>
#include <string>
#include <support/mean_of_blocks.hpp>
#include <support/process.hpp>
#include <thread>
#include <vector>

namespace hcomp::testing {

/// Waits until `is_done()`. Returns false after a minute.
inline bool wait_until(std::function<bool()> const& is_done) {
  for (int n = 0; n < 60'000; ++n) {
    if (is_done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// Four processes of job 5. Each averages its vector in every round, with a pause after each round,
/// until the test ends them. They end with this object.
class worker_processes {
 public:
  static constexpr int count = 4;
  static constexpr std::size_t values = 5000;  // in five packets
  // for the norms, and again for the values
  static constexpr auto deadline = std::chrono::milliseconds(400);

  /// A worker's result of a round.
  struct round_result {
    /// equal for all packets of the round; 0 if they differ or a packet failed
    std::atomic<int> members;
    /// if members > 0: the mean of that number of first ranks, bit for bit
    std::atomic<bool> is_right;
    std::atomic<int> ms;  ///< duration
  };

  explicit worker_processes(std::string const& aggregator) : all_(map_shared()) {
    for (int rank = 0; rank < count; ++rank)
      workers_.emplace_back([&] {
        work(aggregator, rank);
        return 0;
      });
  }
  worker_processes(worker_processes const&) = delete;
  worker_processes& operator=(worker_processes const&) = delete;
  ~worker_processes() {
    workers_.clear();
    ::munmap(&all_, sizeof(shared_state));
  }

  /// The terms of the workers' job.
  static aggregator_options terms() {
    aggregation_layout const layout(values, thc<float>(), count + 1, {count});
    aggregator_options wanted;
    wanted.deadline = deadline;
    return layout.aggregator(wanted);
  }

  int rounds(int rank) const { return all_.rounds[static_cast<std::size_t>(rank)]; }  ///< done
  int most_rounds() const { return *std::max_element(all_.rounds.begin(), all_.rounds.end()); }
  round_result const& of(int rank, int round) const {
    return all_.results[static_cast<std::size_t>(rank)][static_cast<std::size_t>(round)];
  }

  void end_after(int rounds) { all_.end = rounds; }
  bool has_ended_well(int rank) { return workers_[static_cast<std::size_t>(rank)].wait() == 0; }
  void kill(int rank) { workers_[static_cast<std::size_t>(rank)].kill(SIGKILL); }

  /// Kills the last worker. The other workers end after three more rounds, whose sums wait for
  /// their deadlines.
  /// @return the round of the kill
  int kill_last() {
    kill(count - 1);
    int const last = rounds(count - 1);
    end_after(last + 4);
    return last;
  }
  /// Checks the other workers: no sum is wrong, and sums of rounds after `last` exclude the killed
  /// worker.
  void check_without_last(int last) {
    int whole = 0;
    for (int rank = 0; rank < count - 1; ++rank) {
      CHECK(has_ended_well(rank));
      for (int round = 0; round < all_.end; ++round) {
        auto const& one = of(rank, round);
        CAPTURE(rank);
        CAPTURE(round);
        int const members = one.members;
        if (members == count || (members == count - 1 && round > last)) CHECK(one.is_right);
        whole += members == count;
        if (round > last) CHECK(members == count - 1);
        CHECK(one.ms < 2 * (deadline / std::chrono::milliseconds(1)) + 1000);
      }
    }
    // A machine that stops for a moment misses a deadline.
    CHECK(whole >= (last - 5) * (count - 1));
  }

 private:
  static constexpr int round_limit = 400;  ///< rounds
  /// Memory shared by the processes.
  struct shared_state {
    std::atomic<int> end = round_limit;          ///< number of rounds; the test lowers it
    std::array<std::atomic<int>, count> rounds;  ///< completed by each worker
    std::array<std::array<round_result, round_limit>, count> results;
  };
  static shared_state& map_shared() {
    void* const memory = ::mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    return *new (memory) shared_state{};
  }

  void work(std::string const& aggregator, int rank) {
    using namespace std::chrono_literals;
    std::vector<std::vector<float>> x;
    for (int one = 0; one < count; ++one) x.push_back(uniform_values(values, 9, one));
    thc<float> const codec;
    udp::packets link({.rank = rank, .workers = count, .aggregators = {aggregator}, .job = 5});
    aggregated_mean mean(
        values, codec, link,
        {.share = {count}, .norm_timeout = 3s, .timeout = 2s, .resend_after = 30ms});
    link.set_terms(terms());
    auto const me = static_cast<std::size_t>(rank);
    for (int round = 0; round < all_.end; ++round) {
      auto& result = all_.results[me][static_cast<std::size_t>(round)];
      draw_key const key{.seed = 1, .step = static_cast<std::uint64_t>(round)};
      auto own = x[me];
      auto const start = link.now();
      try {
        auto const report = mean.average(std::span(own), key);
        if (report.lost == 0 && report.contributions % report.chunks == 0) {
          auto const members = report.contributions / report.chunks;
          auto const some = std::vector(x.begin(), x.begin() + static_cast<long>(members));
          result.is_right =
              first_difference(own, mean_of_blocks(codec.fitted(count), some, key)) == nowhere;
          result.members = static_cast<int>(members);
        }
      } catch (transport_error const&) {  // no sum arrived: the round failed
      }
      result.ms = static_cast<int>((link.now() - start) / 1ms);
      all_.rounds[me] = round + 1;
      std::this_thread::sleep_for(5ms);
    }
    mean.leave();
  }

  shared_state& all_;
  std::vector<child_process> workers_;
};

}  // namespace hcomp::testing
