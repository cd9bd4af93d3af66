#pragma once
/// @file
/// All-reduce with aggregators, with late contributions and packet loss.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/aggregation.hpp>
#include <hcomp/hcomp.hpp>
#include <span>
#include <thread>

#include "lockstep.hpp"
#include "synchronizer.hpp"
#include "trial.hpp"

namespace train {

/// The mean over the contributions that arrive in time. Late and lost contributions stay in the
/// error feedback, which sends them later.
///
/// Every rank is a worker and, in a second thread, an aggregator of its share of the chunks.
/// `mishaps` draws the steps in which a rank is late: it starts after the aggregators have sent the
/// results without it. Packets between a rank and its own aggregator also count and get lost.
/// All ranks start a step together, so a late step does not delay the next one.
///
/// A sum is divided by the number of its contributions, and missing contributions are sent later.
/// With a share s missing, parameters therefore move 1 / (1 - s) times as far as without late ranks
/// and losses.
template <hcomp::IndexCodec Codec> class mean_by_aggregators : public synchronizer {
 public:
  mean_by_aggregators(std::size_t values, Codec const& codec, mishaps const& shares,
                      std::uint64_t seed, paced_transport& transport,
                      hcomp::host_executor& executor)
      : shares_(shares),
        seed_(seed),
        post_(transport),
        worker_(post_.worker()),
        aggregator_(post_.aggregator()),
        up_(worker_, shares.lost, seed),
        down_(aggregator_, shares.lost, seed),
        feedback_(values),
        average_(values, codec, up_,
                 {.share = {transport.size()},
                  .norm_timeout = 4 * deadline,
                  .timeout = 2 * deadline,
                  .resend_after = deadline / 4,
                  .resend_indices = false}),
        parameters_(values, {}, transport, executor),
        server_([this] { serve(); }) {}

  ~mean_by_aggregators() override {
    try {
      if (failed_) {
        post_.stop();
      } else {
        average_.leave();
        post_.part();
      }
    } catch (std::exception const&) {  // the job is about to end
      post_.stop();
    }
    server_.join();
  }

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    auto const bytes = bytes_sent();
    double const seconds = post_.seconds();
    try {
      if (is_late(shares_, step, worker_.rank(), seed_)) sleep(4 * deadline);
      auto const came = average_.average(update, feedback_, {.seed = seed_, .step = step});
      chunks_ += came.chunks;
      left_out_ += came.left_out;
      missed_ += came.lost;
      post_.meet();
    } catch (hcomp::nonfinite_error const&) {
      failed_ = true;
      post_.give_up();
      throw;
    } catch (...) {
      failed_ = true;
      throw;
    }
    hcomp::report stats;
    stats.bytes_sent = bytes_sent() - bytes;
    stats.seconds_communicate = post_.seconds() - seconds;
    return stats;
  }

  /// Averages the parameters: replicas drift apart if ranks miss different results.
  hcomp::report settle(std::span<float> parameters) override {
    if (shares_.lost == 0) return {};
    return parameters_.all_reduce(parameters, {.seed = seed_, .op = hcomp::reduce_op::mean});
  }

  losses lost() const override { return losses::of(chunks_, left_out_, missed_); }

 private:
  /// Simulated time from the first contribution to norms or indices on. It is long enough for a
  /// norm that gets lost three times in a row.
  static constexpr auto deadline = std::chrono::milliseconds(400);

  void serve() {
    std::exception_ptr why;
    try {
      hcomp::aggregator_options wanted;
      wanted.deadline = deadline;
      hcomp::serve_aggregation(down_, average_.layout().aggregator(wanted));
    } catch (lockstep::stopped const&) {
    } catch (...) {
      why = std::current_exception();
    }
    post_.aggregator_ends(why);
  }

  void sleep(std::chrono::nanoseconds time) {
    for (auto const end = worker_.now() + time; worker_.now() < end;)
      worker_.receive({}, end - worker_.now());
  }

  std::uint64_t bytes_sent() const { return up_.bytes_sent() + down_.bytes_sent(); }

  mishaps shares_;
  std::uint64_t seed_;
  lockstep post_;
  lockstep::link worker_, aggregator_;
  hcomp::lossy_packets<lockstep::link> up_, down_;
  hcomp::error_feedback<float> feedback_;
  hcomp::aggregated_mean<Codec, hcomp::lossy_packets<lockstep::link>> average_;
  hcomp::plan<hcomp::identity<float>, paced_transport, hcomp::host_executor> parameters_;
  std::uint64_t chunks_ = 0, left_out_ = 0, missed_ = 0;
  bool failed_ = false;
  std::thread server_;
};

}  // namespace train
