#pragma once
/// @file
/// Sums by way of aggregators, where contributions come late and packets get lost.

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

/// The mean over the ranks that came in time of what they sent; what is not in it is sent later.
///
/// Every rank is a worker and, in a thread of its own, an aggregator of its share of the chunks. In
/// a step that is drawn to be late, a rank does nothing before the sums have gone out without it.
/// Packets between a rank and its own aggregator are like all others: they count and get lost.
/// All ranks begin a step together, so no rank is late because it was late before.
/// A sum is divided by the number of those in it, and what was left out comes later: with a share
/// of s left out, parameters move 1 / (1 - s) times as far as with all in time.
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
    } catch (std::exception const&) {  // of a job that is about to end
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

  /// Ranks that miss different sums drift apart.
  hcomp::report settle(std::span<float> parameters) override {
    if (shares_.lost == 0) return {};
    return parameters_.all_reduce(parameters, {.seed = seed_, .op = hcomp::reduce_op::mean});
  }

  losses lost() const override { return losses::of(chunks_, left_out_, missed_); }

 private:
  /// After the first contribution to norms or to sums; of a time that is not waited for. A norm may
  /// get lost three times in a row before that is noticed.
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
