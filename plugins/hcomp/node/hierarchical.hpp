#pragma once
/// @file
/// Sums of ranks on several hosts: exact inside each, by a codec between them. Linux.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/collective/engine/detail/outcome.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/node/some_ranks.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hcomp::node {

/// How a hierarchical_plan is made.
struct hierarchical_options {
  /// Of the plans between hosts; none: the algorithm is the first of the codec's row.
  std::optional<plan_options> between = {};
  /// Of every rank, any numbers; none: those of one place are on one host.
  std::vector<std::uint64_t> node_of = {};
  /// Of one wait inside a host; 0: for ever.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

/// Sums of vectors of one size over ranks on several hosts. Those of one host add in full precision
/// through shared memory, each of them then sums its share with its peers of other hosts by a codec, and
/// all read the result: a value crosses a host's link as often as if the host had one rank, and all ranks
/// of it encode. Where there is one host, nothing is encoded.
///
///     hcomp::node::hierarchical_plan<float> sum("thc:bits=4", gradient.size(), transport, executor);
///     sum.all_reduce(gradient, {.op = hcomp::reduce_op::mean});
///
/// Errors as for plan::all_reduce, on all ranks alike, x unchanged; of a wrong argument other hosts hear
/// as a memory_error. Transport and executor are used, not owned, and must outlive this. Collective, the
/// constructor too. Over a concurrent_transport sums of several plans can be under way at the same time;
/// of plans with the same node_ranks they follow each other: `exclusive` of start_options is that.
/// Memory: that of sums, of a plan for the share, and the share.
/// @tparam Between  plans of shares between hosts: any_plan, or what looks like one
template <class V, class Between = any_plan<V>> class hierarchical_plan {
 public:
  using value_type = V;

  /// @param codec  between hosts, as make_plan takes it
  /// @throws std::invalid_argument  as make_plan, or node_of has not a number for every rank
  /// @throws disagreement_error     ranks pass different codecs, numbers of values or lists of hosts
  /// @throws std::runtime_error     ranks of a host cannot share memory; on all ranks alike
  template <Transport T>
  hierarchical_plan(std::string_view codec, std::size_t values, T& transport,
                    host_executor& executor, hierarchical_options options = {})
      : values_(values), own_transport_(std::in_place, transport) {
    auto& all = **own_transport_;
    auto const tag = options.between ? options.between->tag : plan_options{}.tag;
    require_same(all, codec, values, options.node_of, tag);
    codec_from(registered_codecs<V>(), codec);
    if (auto const given = options.node_of.size();
        given > 0 && given != static_cast<std::size_t>(all.size()))
      throw std::invalid_argument(detail::error_text(
          {"hierarchical_plan: nodes of ", given, " ranks, there are ", all.size()}));
    own_nodes_ = node_ranks::make(all, tag, options.timeout, std::move(options.node_of));
    if (!own_nodes_) throw std::runtime_error("hierarchical_plan: ranks of a host share no memory");
    nodes_ = &*own_nodes_;
    make_plans([&](std::size_t count, some_ranks& between) {
      return std::make_unique<Between>(
          options.between ? hcomp::make_plan<V>(codec, count, between, executor, *options.between)
                          : hcomp::make_plan<V>(codec, count, between, executor));
    });
  }
  /// Over hosts that are known already, which must outlive this.
  /// @param make  (values of a share, ranks that carry it), gives a std::unique_ptr<Between>
  /// @throws what make throws on any rank of this host
  template <class Make>
  hierarchical_plan(node_ranks& nodes, std::size_t values, Make const& make)
      : values_(values), nodes_(&nodes) {
    make_plans(make);
  }
  hierarchical_plan(hierarchical_plan const&) = delete;
  hierarchical_plan& operator=(hierarchical_plan const&) = delete;

  std::size_t values() const { return values_; }
  hierarchy const& ranks() const { return nodes_->ranks(); }
  /// The values that this rank sums with other hosts; none, where another host has fewer ranks.
  value_range share() const { return ranks().share(values_); }
  /// Those of which an error_feedback keeps what was lost.
  value_range encoded() const { return share(); }
  /// The values this rank holds after `reduce_scatter` and gives in `all_gather`: of its share.
  value_range shard() const {
    auto const mine = share();
    if (!plan_) return mine;
    auto const [first, count] = plan_->shard();
    return {mine.first + first, count};
  }
  /// See plan::shard_alignment. 0 too where hosts have different numbers of ranks.
  std::size_t shard_alignment() const {
    constexpr std::size_t word = 64;  // shares begin with one
    if (!ranks().all_carry()) return 0;
    return plan_ ? std::lcm(plan_->shard_alignment(), word) : word;
  }
  /// See any_plan::set_magnitude.
  void set_magnitude(double magnitude) requires requires(Between& between) {
    between.set_magnitude(magnitude);
  }
  {
    if (plan_) plan_->set_magnitude(magnitude);
  }
  /// See any_plan::about_last_call.
  std::string about_last_call() const { return plan_ ? plan_->about_last_call() : std::string(); }

  report all_reduce(std::span<V> x, call_options const& call = {}) {
    return sum(operation::all_reduce, x, call,
               [&](std::span<V> share) { return plan_->all_reduce(share, call); });
  }
  /// @param feedback  of share().count values
  report all_reduce(std::span<V> x, error_feedback<V>& feedback, call_options const& call = {}) {
    return sum(
        operation::all_reduce, x, call,
        [&](std::span<V> share) { return plan_->all_reduce(share, feedback, call); }, &feedback);
  }
  report reduce_scatter(std::span<V> x, call_options const& call = {}) {
    return sum(operation::reduce_scatter, x, call,
               [&](std::span<V> share) { return plan_->reduce_scatter(share, call); });
  }
  report reduce_scatter(std::span<V> x, error_feedback<V>& feedback,
                        call_options const& call = {}) {
    return sum(
        operation::reduce_scatter, x, call,
        [&](std::span<V> share) { return plan_->reduce_scatter(share, feedback, call); },
        &feedback);
  }
  report all_gather(std::span<V> x, call_options const& call = {}) {
    return steps(
        operation::all_gather, x, call, nullptr,
        [&] {
          auto const mine = shard();
          std::copy_n(x.data() + mine.first, mine.count,
                      sum_.data() + (mine.first - share().first));
        },
        [&](std::span<V> share) { return plan_->all_gather(share, call); }, [&] { spread(x); });
  }

 private:
  using error_kind = detail::error_kind;
  using outcome = detail::outcome;
  enum class operation : std::uint64_t { all_reduce, reduce_scatter, all_gather };

  /// @param between   (share), by the plan
  /// @param feedback  that it uses, or null
  template <class F>
  report sum(operation what, std::span<V> x, call_options const& call, F const& between,
             error_feedback<V>* feedback = nullptr) {
    auto& inside = nodes_->inside();
    // The plan divides by the hosts.
    double const divisor = call.op == reduce_op::mean ? ranks_of_a_node() : 1;
    if (what == operation::all_reduce && ranks().nodes == 1)
      return steps(
          what, x, call, feedback, [] {}, between, [&] { inside.all_reduce(x, divisor); });
    return steps(
        what, x, call, feedback,
        [&] {
          inside.reduce_scatter(std::span<V const>(x), ranks().share_of_each(values_),
                                std::span(sum_), divisor);
        },
        between,
        [&] {
          if (what == operation::all_reduce) return spread(x);
          auto const mine = shard();
          std::copy_n(sum_.data() + (mine.first - share().first), mine.count,
                      x.data() + mine.first);
        });
  }
  /// Gives all ranks of this host all shares.
  void spread(std::span<V> x) {
    std::ranges::copy(sum_, x.data() + share().first);
    nodes_->inside().all_gather(x, ranks().share_of_each(values_));
  }
  /// @param gather   (), fills sum_
  /// @param between  (share), by the plan
  /// @param scatter  (), of what has become of sum_
  template <class Gather, class F, class Scatter>
  report steps(operation what, std::span<V> x, call_options const& call,
               error_feedback<V>* feedback, Gather const& gather, F const& between,
               Scatter const& scatter) {
    return nodes_->telling_others([&] {
      double adding = 0, waiting = 0;
      detail::stopwatch watch;
      outcome const before =
          together(complaint(what, x, feedback, call), fingerprint_of(what, call));
      bool const is_fallback = !before.has_failed();
      watch.add_to(waiting);
      if (is_fallback) gather();
      watch.add_to(adding);
      report stats;
      outcome mine;
      if (plan_)
        // Without values it takes part all the same, so that other hosts hear of it.
        mine = detail::outcome_of(
            [&] { stats = between(is_fallback ? std::span(sum_) : no_values()); });
      watch.skip();  // the plan has told
      outcome const after = together(mine);
      watch.add_to(waiting);
      bool const has_failed = after.has_failed();
      // The residual before is where the pending one was.
      if (has_failed && plan_ && feedback && !mine.has_failed()) feedback->commit();
      before.raise();
      after.raise();
      scatter();
      watch.add_to(adding);
      stats.seconds_merge += adding;
      stats.seconds_communicate += waiting;
      stats.weight = static_cast<std::uint64_t>(nodes_->all().size());
      stats.seconds_of_last = 0;  // ranks of other shares had other ones
      return stats;
    });
  }
  /// What no plan takes.
  std::span<V> no_values() const {
    return {static_cast<V*>(nullptr), std::max<std::size_t>(sum_.size(), 1)};
  }
  double ranks_of_a_node() const {
    return static_cast<double>(nodes_->all().size()) / ranks().nodes;
  }
  /// What is wrong with this rank's arguments.
  outcome complaint(operation what, std::span<V const> x, error_feedback<V> const* feedback,
                    call_options const& call) const {
    using detail::error_text;
    constexpr auto who = "hierarchical_plan: rank ";
    int const rank = nodes_->all().rank();
    if (x.size() != values_)
      return {error_kind::argument,
              error_text({who, rank, " has ", x.size(), " values in x, the plan ", values_})};
    if (!x.data() && values_ > 0)
      return {error_kind::memory, error_text({who, rank, " has a null pointer for x"})};
    if (call.weight != 1)
      return {error_kind::argument,
              error_text({who, rank, " has weight ", call.weight, ", it can be 1"})};
    if (std::is_integral_v<V> && what != operation::all_gather && call.op == reduce_op::mean)
      return {error_kind::argument,
              error_text({who, rank, " asks for a mean, and integers have none"})};
    if (feedback && !plan_ && feedback->values() != share().count)  // otherwise the plan says so
      return {error_kind::argument,
              error_text({who, rank, " has a feedback of ", feedback->values(),
                          " values, its share has ", share().count})};
    return {};
  }
  /// Of what has to be equal on all ranks.
  static std::uint64_t fingerprint_of(operation what, call_options const& call) {
    std::uint64_t print = static_cast<std::uint64_t>(call.op);
    for (std::uint64_t const one :
         {static_cast<std::uint64_t>(what), call.seed, call.step.value_or(0), call.tensor})
      print = mix(print ^ one);
    return print;
  }
  /// @throws disagreement_error  ranks ask for different plans
  static void require_same(any_transport& ranks, std::string_view codec, std::size_t values,
                           std::span<std::uint64_t const> node_of, tag_t tag) {
    struct request {
      std::uint64_t print, values;
    };
    request mine{mix(values), values};
    for (char const letter : codec)
      mine.print = mix(mine.print ^ static_cast<std::uint64_t>(letter));
    for (std::uint64_t const host : node_of) mine.print = mix(mine.print ^ host);
    std::vector<request> all;
    all_gather_records(ranks, tag, mine, all);
    auto const other = std::ranges::find_if(
        all, [&](request const& one) { return one.print != all.front().print; });
    if (other != all.end())
      throw disagreement_error(detail::error_text(
          {"hierarchical_plan: ranks ask for different sums: rank 0 for one of ",
           all.front().values, " values, rank ", other - all.begin(), " for one of ", other->values,
           "; the codec and the list of nodes have to be the same, too"}));
  }
  /// Not all ranks make a plan, but all have to know that it cannot be made.
  template <class Make> void make_plans(Make const& make) {
    sum_.resize(share().count);
    together(detail::outcome_of([&] {
      auto* const between = nodes_->between();
      if (between && ranks().nodes > 1) plan_ = make(sum_.size(), *between);
    })).raise();
  }
  /// The first of this host's that went wrong.
  /// @param call  the same on all of them, or that is wrong
  outcome together(outcome mine, std::uint64_t call = 0) {
    mine.call = call;
    std::vector<outcome> all(ranks().inside.size());
    nodes_->inside().all_gather(std::as_bytes(std::span(&mine, 1)),
                                std::as_writable_bytes(std::span(all)));
    for (outcome const& one : all)
      if (one.has_failed()) return one;
    for (outcome const& one : all)
      if (one.call != all.front().call)
        return {error_kind::disagreement,
                "hierarchical_plan: ranks of a host make different calls"};
    return {};
  }
  std::size_t values_;
  std::optional<detail::kept_transport> own_transport_;
  std::optional<node_ranks> own_nodes_;
  node_ranks* nodes_ = nullptr;
  std::unique_ptr<Between> plan_;
  std::vector<V> sum_;  ///< of the share
};

/// A plan by the names of its codec and its algorithm, as hcomp::make_plan makes it, also where the
/// algorithm is hierarchical: then as hierarchical_plan, which must not outlive transport and executor.
///
///     auto sum = hcomp::node::make_plan<float>("thc:bits=4", gradient.size(), transport, executor,
///                                              {.algorithm = hcomp::algorithm::from("hierarchical")});
///
/// @param node_of  see hierarchical_options; other algorithms do not look at it
/// @throws as hierarchical_plan and hcomp::make_plan
template <class V, Transport T>
any_plan<V> make_plan(std::string_view codec, std::size_t values, T& transport,
                      host_executor& executor, plan_options options,
                      std::vector<std::uint64_t> node_of = {}) {
  if (!options.algorithm.hierarchical)
    return hcomp::make_plan<V>(codec, values, transport, executor, options);
  options.algorithm = options.algorithm.between_nodes();
  detail::kept_transport over(transport);
  auto body = std::make_unique<detail::some_plan<hierarchical_plan<V>>>(
      codec, values, *over, executor,
      hierarchical_options{.between = options, .node_of = std::move(node_of)});
  return {codec_from(registered_codecs<V>(), codec).text(), std::move(over), std::move(body)};
}

}  // namespace hcomp::node
