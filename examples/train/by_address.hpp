#pragma once
/// @file
/// All-reduce with hcomp-aggregator, a process at a given address.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/engine/detail/outcome.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/udp/aggregated_plan.hpp>
#include <memory>
#include <span>
#include <thread>

#include "../support/known_to_all.hpp"
#include "options.hpp"
#include "synchronizer.hpp"
#include "trial.hpp"

namespace train {

/// Like mean_by_aggregators, but in real time: a late rank sleeps until the results have been sent
/// without it, and all other ranks wait for the deadlines. The speed of the machines can also make
/// a rank late.
template <hcomp::IndexCodec Codec> class mean_by_address : public synchronizer {
 public:
  mean_by_address(std::size_t values, Codec const& codec, mishaps const& shares, options const& o,
                  std::uint64_t seed, paced_transport& transport, hcomp::host_executor& executor)
      : shares_(shares),
        seed_(seed),
        deadline_(std::chrono::milliseconds(o.deadline_ms)),
        transport_(&transport),
        feedback_(values),
        plan_(example::known_to_all([&] {
          return std::make_unique<hcomp::udp::aggregated_plan<Codec>>(
              values, codec, transport,
              hcomp::udp::aggregated_plan_options{
                  .aggregators = o.aggregators,
                  .deadline = deadline_,
                  .goes_on_without_results = true,
                  .norm_timeout = 10 * deadline_ + std::chrono::seconds(5),
                  .timeout = 10 * deadline_ + std::chrono::seconds(5),
                  .resend_after = deadline_ / 2,
                  .check = false,  // with checks, ranks would wait for late ranks
                  .bytes_per_second = static_cast<std::uint64_t>(o.link * 1e9 / 8)});
        })),
        parameters_(values, {}, transport, executor) {}

  hcomp::report operator()(std::span<float> update, std::uint64_t step, float) override {
    hcomp::report stats;
    hcomp::detail::stopwatch watch;
    if (is_late(shares_, step, transport_->rank(), seed_))
      std::this_thread::sleep_for(4 * deadline_);
    watch.add_to(stats.seconds_communicate);
    auto const end = hcomp::detail::outcome_with_links([&] {
      stats += plan_->all_reduce(update, feedback_,
                                 {.seed = seed_, .step = step, .op = hcomp::reduce_op::mean});
      auto const& came = plan_->last();
      chunks_ += came.chunks;
      left_out_ += came.left_out;
      missed_ += came.lost;
    });
    watch.skip();
    example::known_to_all([&] { hcomp::detail::raise_on_all(*transport_, 0, end); });
    watch.add_to(stats.seconds_communicate);
    return stats;
  }

  /// Averages the parameters: replicas drift apart if ranks miss different results.
  hcomp::report settle(std::span<float> parameters) override {
    return parameters_.all_reduce(parameters, {.seed = seed_, .op = hcomp::reduce_op::mean});
  }

  losses lost() const override { return losses::of(chunks_, left_out_, missed_); }

 private:
  mishaps shares_;
  std::uint64_t seed_;
  std::chrono::nanoseconds deadline_;
  paced_transport* transport_;
  hcomp::error_feedback<float> feedback_;
  std::unique_ptr<hcomp::udp::aggregated_plan<Codec>> plan_;
  hcomp::plan<hcomp::identity<float>, paced_transport, hcomp::host_executor> parameters_;
  std::uint64_t chunks_ = 0, left_out_ = 0, missed_ = 0;
};

}  // namespace train
