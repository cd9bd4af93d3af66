#pragma once
/// @file
/// All-reduces by way of aggregators that ranks find by their addresses.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/aggregated_mean.hpp>
#include <hcomp/collective/aggregation_layout.hpp>
#include <hcomp/collective/aggregation_packet.hpp>
#include <hcomp/collective/aggregator_options.hpp>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/detail/outcome.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <hcomp/udp/chunk_values.hpp>
#include <hcomp/udp/frame.hpp>
#include <hcomp/udp/options.hpp>
#include <hcomp/udp/packets.hpp>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::udp {

/// Settings of an aggregated_plan; equal on all ranks.
struct aggregated_plan_options {
  std::vector<std::string> aggregators = {};  ///< "HOST:PORT" of each; several share a vector
  int quota = 0;                              ///< contributions after which a sum goes out; 0: all
  std::chrono::nanoseconds deadline{0};  ///< after which it goes out without the others; 0: never
  std::chrono::nanoseconds word_deadline{0};  ///< the same for norms; 0: as deadline
  /// A sum that did not come in time is 0 on this rank, and others may have it. False: such a call
  /// fails on all ranks.
  bool goes_on_without_sums = false;
  /// Of the constructor, for an aggregator's answer.
  std::chrono::nanoseconds join_patience = std::chrono::seconds(5);
  /// Of a call: for its norms, and then for its sums. Longer than the deadlines.
  std::chrono::nanoseconds norm_patience = std::chrono::seconds(10);
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  std::chrono::nanoseconds resend_after = std::chrono::milliseconds(200);
  nonfinite_policy nonfinite = nonfinite_policy::throw_error;
  /// Ranks compare their arguments before every call, and tell each other of errors after it. Without,
  /// nobody waits for a rank that is late, and an error is that of the rank that meets it.
  bool check = true;
  /// Packets of a rank without an answer; 0: 256 of all ranks, which Linux' usual buffers hold, but 8 to 64
  /// of each.
  int window = 0;
  std::uint64_t bytes_per_second = 0;  ///< as of udp::options
  std::size_t datagram_bytes = ethernet_datagram_bytes;
  tag_t tag = 0;  ///< on the transport, different for plans that are used at the same time
};

/// What a plan is, with hcomp-aggregator adding for all ranks: each sends its indices once, and receives
/// the sums.
///
///     hcomp::udp::aggregated_plan sum(gradient.size(), hcomp::thc<float>(), transport,
///                                     {.aggregators = {"10.0.0.9:7475"}});
///     sum.all_reduce(gradient, feedback, {.step = step, .result = hcomp::reduction::mean});
///
/// Ranks are those of the transport, by which they tell each other what went wrong; it is used, not
/// owned, and must outlive the plan. The aggregator knows them as a job with a number that rank 0 draws.
/// A sum of k ranks counts as P / k times as much: where some came late or not at all, a result is what
/// the mean of the others says. `last` tells how many that were.
/// Every rank owns all values: reduce_scatter is all_reduce, and all_gather has nothing to do.
/// Collective, the constructor too. Memory: that of aggregated_mean, and of packets that wait. Linux.
/// Cost: of the indices and norms, each rank sends all, and the aggregator all sums to each; with
/// options.check 2 log2 P small messages between the ranks.
template <IndexCodec C> class aggregated_plan {
 public:
  using value_type = typename C::value_type;

  /// @throws std::invalid_argument  no address that is known, no aggregator, more ranks than the codec's
  ///                                sums have room for
  /// @throws disagreement_error     ranks ask for different sums
  /// @throws transport_error        an aggregator does not answer, or refuses the job
  /// All on all ranks alike.
  template <Transport T>
  aggregated_plan(std::size_t values, C const& codec, T& transport,
                  aggregated_plan_options const& wanted)
      : values_(values), transport_(transport), options_(wanted) {
    auto const job = agreed_job(codec);
    raise(hcomp::detail::outcome_with_links([&] { join(codec, job); }));
  }
  aggregated_plan(aggregated_plan const&) = delete;
  aggregated_plan& operator=(aggregated_plan const&) = delete;
  /// Tells the aggregators that this rank has left.
  ~aggregated_plan() {
    try {
      if (mean_) mean_->leave();
    } catch (std::exception const&) {  // of a job that is about to end
    }
  }

  std::size_t values() const { return values_; }
  C const& codec() const { return mean_->codec(); }
  value_range owned() const { return {0, values_}; }
  std::size_t part_unit() const { return 0; }
  /// What became of this rank's part in the last call.
  aggregation_report const& last() const { return last_; }
  udp::figures const& figures() const { return link_->figures(); }

  /// Sum `x` over all ranks, in place: the same bits on all ranks, unless options go on without sums.
  /// @throws std::invalid_argument  wrong size, a weight that is not 1
  /// @throws disagreement_error     ranks passed different steps, seeds, tensors, kinds of results
  /// @throws nonfinite_error        as aggregated_mean
  /// @throws transport_error        sums did not come; the plan must not be used again, and x holds
  ///                                what it was or a mean
  /// On all ranks alike, unless options.check is off, after the patiences at the latest. After all but
  /// the last x is unchanged.
  report all_reduce(std::span<value_type> x, call_options const& call = {}) {
    no_feedback<value_type> nothing(x.size());
    return all_reduce(x, nothing, call);
  }
  /// The same with compensation: what is summed is x and what `feedback` adds to it.
  template <Feedback<value_type> F>
  report all_reduce(std::span<value_type> x, F& feedback, call_options const& call = {}) {
    report figures;
    hcomp::detail::stopwatch watch;
    std::uint64_t const sent = transport_->bytes_sent() + link_->bytes_sent();
    auto const key = call.key(calls_++, transport_->group());
    agree(complaint(x, feedback.values(), call), fingerprint_of(key, call.result));
    watch.add_to(figures.seconds_agree);
    auto const waited = link_->figures().waited;
    auto const work = [&] { sum(x, feedback, key, call.result); };
    outcome end;
    if (options_.check)
      end = hcomp::detail::outcome_with_links(work);
    else
      work();
    watch.add_to(figures.seconds_encode);
    if (options_.check) raise(end);
    watch.add_to(figures.seconds_communicate);
    double const idle = std::chrono::duration<double>(link_->figures().waited - waited).count();
    figures.seconds_encode -= idle;
    figures.seconds_communicate += figures.seconds_agree + idle;
    figures.bytes_sent = transport_->bytes_sent() + link_->bytes_sent() - sent;
    figures.hops = 2;
    figures.weight = static_cast<std::uint64_t>(transport_->size());
    return figures;
  }
  report reduce_scatter(std::span<value_type> x, call_options const& call = {}) {
    return all_reduce(x, call);
  }
  template <Feedback<value_type> F>
  report reduce_scatter(std::span<value_type> x, F& feedback, call_options const& call = {}) {
    return all_reduce(x, feedback, call);
  }
  report all_gather(std::span<value_type> x, call_options const& call = {}) {
    agree(complaint(x, values_, call), 0);
    report figures;
    figures.weight = 1;
    return figures;
  }

 private:
  using outcome = hcomp::detail::outcome;
  using error_kind = hcomp::detail::error_kind;

  void raise(outcome const& mine) { hcomp::detail::raise_on_all(*transport_, options_.tag, mine); }

  /// A number that rank 0 draws, once all ranks ask for the same.
  std::uint32_t agreed_job(C const& codec) {
    struct request {
      std::uint64_t values, codec, job;
    };
    request mine{values_, static_cast<std::uint64_t>(codec.bits()), std::random_device{}()};
    std::vector<request> all;
    all_gather_records(*transport_, options_.tag, mine, all);
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (all[rank].values != all[0].values || all[rank].codec != all[0].codec)
        throw disagreement_error(
            hcomp::detail::error_text({"aggregated_plan: rank 0 asks for sums of ", all[0].values,
                                       " values with ", all[0].codec, " bits, rank ", rank, " for ",
                                       all[rank].values, " with ", all[rank].codec}));
    return static_cast<std::uint32_t>(all[0].job);
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
                      .norm_patience = options_.norm_patience,
                      .patience = options_.patience,
                      .resend_after = options_.resend_after});
    aggregator_options terms;
    terms.quota = options_.quota;
    terms.deadline = options_.deadline;
    terms.word_deadline = options_.word_deadline;
    link_->set_terms(mean_->layout().aggregator(terms));
    link_->join(options_.join_patience);
  }

  outcome complaint(std::span<value_type const> x, std::size_t fed_back,
                    call_options const& call) const {
    using hcomp::detail::error_text;
    if (x.size() != values_ || fed_back != values_)
      return {error_kind::argument,
              error_text({"aggregated_plan: ", x.size(), " values and feedback for ", fed_back,
                          ", the plan was made for ", values_})};
    if (call.weight != 1)
      return {error_kind::argument,
              error_text({"aggregated_plan: a weight of ", call.weight, ", it can be 1"})};
    return {};
  }
  static std::uint64_t fingerprint_of(draw_key const& key, reduction result) {
    return philox_key(key) ^ static_cast<std::uint64_t>(result);
  }
  /// @throws what is wrong with some rank's arguments; on all
  void agree(outcome const& mine, std::uint64_t print) {
    if (!options_.check) return mine.raise();
    struct summary {
      std::uint64_t has_failed, lowest, highest;
    };
    summary all{mine.has_failed(), print, print};
    unite_records(*transport_, options_.tag, all, [](summary& a, summary const& b) {
      a = {a.has_failed | b.has_failed, std::min(a.lowest, b.lowest),
           std::max(a.highest, b.highest)};
    });
    if (all.has_failed) raise(mine);
    if (all.lowest != all.highest)
      throw disagreement_error(
          "aggregated_plan: ranks passed different steps, seeds, tensors or kinds of results");
  }

  template <class F>
  void sum(std::span<value_type> x, F& feedback, draw_key const& key, reduction result) {
    last_ = mean_->average(x, feedback, key);
    if (last_.lost > 0 && !options_.goes_on_without_sums)
      throw transport_error(
          transport_->rank(),
          hcomp::detail::error_text(
              {"aggregated_plan: ", last_.lost, " of ", last_.chunks, " sums did not come from ",
               options_.aggregators.front(), options_.aggregators.size() > 1 ? " and others" : "",
               " within ",
               std::chrono::duration_cast<std::chrono::milliseconds>(options_.patience).count(),
               " ms"}));
    if (result == reduction::mean) return;
    using wide = accumulator_t<value_type>;
    auto const ranks = static_cast<wide>(transport_->size());
    for (auto& value : x) value = static_cast<value_type>(static_cast<wide>(value) * ranks);
  }

  std::size_t values_;
  hcomp::detail::kept_transport transport_;
  aggregated_plan_options options_;
  std::optional<packets> link_;
  std::optional<aggregated_mean<C, packets>> mean_;
  aggregation_report last_;
  std::uint64_t calls_ = 0;
};

}  // namespace hcomp::udp
