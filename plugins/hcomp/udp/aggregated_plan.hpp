#pragma once
/// @file
/// All-reduce through aggregators that ranks reach by address.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/aggregation/aggregated_mean.hpp>
#include <hcomp/collective/aggregation/aggregation_layout.hpp>
#include <hcomp/collective/aggregation/aggregation_packet.hpp>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/call_session.hpp>
#include <hcomp/collective/engine/detail/outcome.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <hcomp/udp/chunk_values.hpp>
#include <hcomp/udp/frame.hpp>
#include <hcomp/udp/options.hpp>
#include <hcomp/udp/packets.hpp>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::udp {

/// Options of an aggregated_plan; equal on all ranks.
struct aggregated_plan_options {
  std::vector<std::string> aggregators = {};  ///< "HOST:PORT" of each; several share a vector
  int quota = 0;                              ///< number of contributions after which a result is
                                              ///< sent; 0: all
  std::chrono::nanoseconds deadline{0};       ///< after which a result is sent without the missing
                                              ///< ranks; 0: never
  std::chrono::nanoseconds word_deadline{0};  ///< the same for norms; 0: as deadline
  /// True: a result that does not arrive in time is 0 on this rank; other ranks may have it. False:
  /// such a call fails on all ranks.
  bool goes_on_without_results = false;
  /// Timeout of an aggregator's answer in the constructor.
  std::chrono::nanoseconds join_timeout = std::chrono::seconds(5);
  /// Timeouts of a call: for its norms, then for its results. Must exceed the deadlines.
  std::chrono::nanoseconds norm_timeout = std::chrono::seconds(10);
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);
  std::chrono::nanoseconds resend_after = std::chrono::milliseconds(200);
  nonfinite_policy nonfinite = nonfinite_policy::throw_error;
  /// True: ranks compare their arguments before every call, and exchange errors after it. False: no
  /// rank waits for a late rank, and only the rank that finds an error throws.
  bool check = true;
  /// Unanswered packets of this rank. 0: its share of 256, the capacity of Linux's default buffers,
  /// but 8 to 64.
  int window = 0;
  std::uint64_t bytes_per_second = 0;  ///< as in udp::options
  std::size_t datagram_bytes = ethernet_datagram_bytes;
  tag_t tag = 0;  ///< on the transport; different for plans used concurrently
};

/// An all-reduce whose additions run in hcomp-aggregator: each rank sends its indices once and
/// receives the results.
///
///     hcomp::udp::aggregated_plan plan(gradient.size(), hcomp::thc<float>(), transport,
///                                      {.aggregators = {"10.0.0.9:7475"}});
///     plan.all_reduce(gradient, feedback, {.step = step, .op = hcomp::reduce_op::mean});
///
/// The ranks are those of the transport. Over it they compare their arguments and exchange errors.
/// It is not owned, and must outlive the plan. For the aggregator the ranks are one job, with a
/// number that rank 0 draws.
///
/// If some ranks are late or missing, a sum over k of P ranks is scaled by P / k: the result is P
/// times the mean of those k. `last` counts such results. Every rank owns all values:
/// reduce_scatter equals all_reduce, and all_gather does nothing. All calls are collective,
/// including the constructor. Linux.
///
/// Memory: that of aggregated_mean and of queued packets.
/// Cost: each rank sends all its indices and norms once, and receives all results; with
/// options.check additionally 2 log2 P small messages between the ranks.
template <IndexCodec C> class aggregated_plan {
 public:
  using value_type = typename C::value_type;

  /// @throws std::invalid_argument  an unknown address, no aggregator, or more ranks than the
  ///                                codec's sums can hold
  /// @throws disagreement_error     numbers of values, codecs or settings differ between ranks
  /// @throws transport_error        an aggregator does not answer, or rejects the job
  /// All exceptions are thrown on all ranks alike.
  template <Transport T>
  aggregated_plan(std::size_t values, C const& codec, T& transport,
                  aggregated_plan_options const& wanted)
      : values_(values),
        transport_(transport),
        options_(wanted),
        session_(terms_of(codec), values, *transport_,
                 {.nonfinite = wanted.nonfinite, .check = wanted.check, .tag = wanted.tag},
                 memory_space::host) {
    auto const job = agreed_job(codec);
    auto const end = hcomp::detail::outcome_with_links([&] { join(codec, job); });
    try {
      raise(end);
    } catch (...) {
      leave();
      throw;
    }
  }
  aggregated_plan(aggregated_plan const&) = delete;
  aggregated_plan& operator=(aggregated_plan const&) = delete;
  /// Notifies the aggregators that this rank leaves.
  ~aggregated_plan() { leave(); }

  std::size_t values() const { return values_; }
  C const& codec() const { return mean_->codec(); }
  value_range shard() const { return {0, values_}; }
  std::size_t shard_alignment() const { return 0; }
  /// Statistics of this rank's part in the last call.
  aggregation_report const& last() const { return last_; }
  udp::stats const& stats() const { return link_->stats(); }

  /// In-place all-reduce of `x`: the same bits on all ranks, unless goes_on_without_results is set.
  /// @throws std::invalid_argument  wrong size, or a weight other than 1
  /// @throws memory_error           x is a null pointer
  /// @throws disagreement_error     sizes, steps, seeds, tensors or operations differ between ranks
  /// @throws nonfinite_error        as aggregated_mean
  /// @throws transport_error        results did not arrive; the plan must not be used again, and x
  ///                                is unchanged or holds a mean
  /// Unless options.check is off, all ranks throw alike, at the latest after the timeouts. After
  /// every other exception x is unchanged.
  report all_reduce(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    return all_reduce(x, nothing, call);
  }
  /// The same with error feedback: reduces x plus the compensation of `feedback`.
  template <Feedback<value_type> F>
  report all_reduce(std::span<value_type> x, F& feedback, call_options const& call = {}) {
    hcomp::detail::float_environment const environment;
    auto const key = call.key(calls_++, transport_->group());
    auto stats = start(operation::all_reduce, x, feedback, call);
    hcomp::detail::stopwatch watch;
    std::uint64_t const sent = link_->bytes_sent();
    auto const waited = link_->stats().waited;
    auto const work = [&] { sum(x, feedback, key, call.op); };
    outcome end;
    if (options_.check)
      end = hcomp::detail::outcome_with_links(work);
    else
      work();
    watch.add_to(stats.seconds_encode);
    if (options_.check) raise(end);
    watch.add_to(stats.seconds_communicate);
    double const idle = std::chrono::duration<double>(link_->stats().waited - waited).count();
    stats.seconds_encode -= idle;
    stats.seconds_communicate += idle;
    stats.hops = 2;
    stats.weight = static_cast<std::uint64_t>(transport_->size());
    stats = session_.done(stats);
    stats.bytes_sent += link_->bytes_sent() - sent;
    return stats;
  }
  report reduce_scatter(std::span<value_type> x, call_options const& call = {}) {
    return all_reduce(x, call);
  }
  template <Feedback<value_type> F>
  report reduce_scatter(std::span<value_type> x, F& feedback, call_options const& call = {}) {
    return all_reduce(x, feedback, call);
  }
  report all_gather(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    auto stats = start(operation::all_gather, x, nothing, call);
    stats.weight = 1;
    return session_.done(stats);
  }

 private:
  using outcome = hcomp::detail::outcome;
  using operation = hcomp::detail::operation;

  void leave() noexcept {
    try {
      if (mean_) mean_->leave();
    } catch (std::exception const&) {  // the job is about to end
    }
  }
  void raise(outcome const& mine) { hcomp::detail::raise_on_all(*transport_, options_.tag, mine); }

  static hcomp::detail::codec_terms terms_of(C const& codec) {
    // Whether sums of all ranks fit is checked by fitting the codec.
    return hcomp::detail::terms_of(codec, sizeof(value_type),
                                   std::numeric_limits<std::uint32_t>::max());
  }
  /// The job number, drawn by rank 0 once all ranks have passed the same arguments.
  std::uint32_t agreed_job(C const& codec) {
    hcomp::detail::call_session session(terms_of(codec), values_, *transport_,
                                        {.nonfinite = options_.nonfinite, .tag = options_.tag},
                                        memory_space::host);
    session.start(operation::all_reduce, {.values = values_, .feedback_values = values_}, {});
    std::uint64_t job = transport_->rank() == 0 ? std::random_device{}() : 0;
    session.unite(job, [](std::uint64_t& a, std::uint64_t b) { a = std::max(a, b); });
    return static_cast<std::uint32_t>(job);
  }

  void join(C const& codec, std::uint32_t job) {
    int const ranks = transport_->size();
    auto const fitted = codec.fitted(static_cast<std::uint32_t>(ranks));
    auto const largest = static_cast<std::uint64_t>(ranks) * fitted.levels().back();
    link_.emplace(udp::options{
        .rank = transport_->rank(),
        .workers = ranks,
        .aggregators = options_.aggregators,
        .job = job,
        .datagram_bytes = options_.datagram_bytes,
        .window = options_.window != 0 ? options_.window : std::clamp(256 / ranks, 8, 64),
        .bytes_per_second = options_.bytes_per_second});
    mean_.emplace(values_, codec, *link_,
                  aggregated_mean_options{
                      .share = {ranks, chunk_values_for(C::block_values, sum_bits_for(largest),
                                                        ranks, options_.datagram_bytes)},
                      .nonfinite = options_.nonfinite,
                      .norm_timeout = options_.norm_timeout,
                      .timeout = options_.timeout,
                      .resend_after = options_.resend_after});
    aggregator_options terms;
    terms.quota = options_.quota;
    terms.deadline = options_.deadline;
    terms.word_deadline = options_.word_deadline;
    link_->set_terms(mean_->layout().aggregator(terms));
    link_->join(options_.join_timeout);
  }

  /// @throws an error for invalid arguments; with options.check on all ranks
  template <class F>
  report start(operation what, std::span<value_type> x, F& feedback, call_options const& call) {
    host_executor* const any = nullptr;
    auto const stats = session_.start(what, hcomp::detail::arguments_of(any, x, feedback), call);
    for (int rank = 0; rank < transport_->size(); ++rank)
      if (auto const weight = session_.weight_of(rank); weight != 1)
        throw std::invalid_argument(hcomp::detail::error_text(
            {"aggregated_plan: rank ", rank, " has weight ", weight, ", aggregators know only 1"}));
    return stats;
  }

  std::string addresses() const {
    std::string text;
    for (auto const& one : options_.aggregators) text += (text.empty() ? "" : ", ") + one;
    return text;
  }

  template <class F>
  void sum(std::span<value_type> x, F& feedback, draw_key const& key, reduce_op result) {
    try {
      last_ = mean_->average(x, feedback, key);
    } catch (transport_error const& error) {
      throw transport_error(
          error.peer(), hcomp::detail::error_text({error.what(), "; aggregators: ", addresses()}));
    }
    if (last_.lost > 0 && !options_.goes_on_without_results)
      throw transport_error(
          transport_->rank(),
          hcomp::detail::error_text(
              {"aggregated_plan: ", last_.lost, " of ", last_.chunks, " sums did not come from ",
               addresses(), " within ",
               std::chrono::duration_cast<std::chrono::milliseconds>(options_.timeout).count(),
               " ms"}));
    if (result == reduce_op::mean) return;
    using wide = accumulator_t<value_type>;
    auto const ranks = static_cast<wide>(transport_->size());
    for (auto& value : x) value = static_cast<value_type>(static_cast<wide>(value) * ranks);
  }

  std::size_t values_;
  hcomp::detail::kept_transport transport_;
  aggregated_plan_options options_;
  hcomp::detail::call_session session_;
  std::optional<packets> link_;
  std::optional<aggregated_mean<C, packets>> mean_;
  aggregation_report last_;
  std::uint64_t calls_ = 0;
};

}  // namespace hcomp::udp
