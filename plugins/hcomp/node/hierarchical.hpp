#pragma once
/// @file
/// Hierarchical all-reduce over several nodes: exact inside each node, encoded between them. Linux.

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
#include <hcomp/node/shared_memory_plan.hpp>
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

/// Options of a hierarchical_plan.
struct hierarchical_options {
  /// Options of the plans between nodes; empty: the codec's default algorithm.
  std::optional<plan_options> between = {};
  /// The node number of every rank, any numbers; empty: ranks with equal place_of_this_process
  /// share a node.
  std::vector<std::uint64_t> node_of = {};
  /// Timeout of one wait inside a node; 0: none.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

/// Hierarchical all-reduce of vectors of one size over ranks on several nodes.
///
/// Ranks of one node add in full precision through shared memory. Each rank then all-reduces its
/// share with its peers on other nodes, using a codec; finally all ranks of the node read the
/// result. A value crosses a node's link as often as if the node had one rank, and all its ranks
/// share the encoding. On a single node, nothing is encoded.
///
///     hcomp::node::hierarchical_plan<float> plan("thc:bits=4", gradient.size(), transport,
///                                                executor);
///     plan.all_reduce(gradient, {.op = hcomp::reduce_op::mean});
///
/// Errors as for plan::all_reduce, on all ranks alike, with x unchanged; other nodes report an
/// invalid argument as a memory_error. Transport and executor are not owned, and must outlive this
/// object. All calls are collective, including the constructor.
///
/// Over a concurrent_transport, all-reduces of several plans can run concurrently. Plans with the
/// same node_ranks must run one after the other: pass it as `exclusive` of start_options.
/// Memory: that of node::collectives, of a plan for the share, and the share itself.
/// @tparam Between  type of the plans between nodes: any_plan, or a type with its interface
template <class V, class Between = any_plan<V>> class hierarchical_plan {
 public:
  using value_type = V;

  /// @param codec  between nodes, as make_plan takes it
  /// @throws std::invalid_argument  as make_plan; or node_of has not one number per rank
  /// @throws disagreement_error     codecs, numbers of values or node lists differ between ranks
  /// @throws std::runtime_error     ranks of a node cannot share memory; on all ranks alike
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
  /// Uses existing node_ranks, which must outlive this object.
  /// @param make  (number of values of the share, ranks that carry it): returns a
  ///              std::unique_ptr<Between>
  /// @throws all exceptions of `make` on any rank of this node
  template <class Make>
  hierarchical_plan(node_ranks& nodes, std::size_t values, Make const& make)
      : values_(values), nodes_(&nodes) {
    make_plans(make);
  }
  hierarchical_plan(hierarchical_plan const&) = delete;
  hierarchical_plan& operator=(hierarchical_plan const&) = delete;

  std::size_t values() const { return values_; }
  hierarchy const& ranks() const { return nodes_->ranks(); }
  /// The values that this rank reduces with other nodes; empty if another node has fewer ranks.
  value_range share() const { return ranks().share(values_); }
  /// The values for which error_feedback keeps residuals.
  value_range encoded() const { return share(); }
  /// The shard of this rank: its result of `reduce_scatter` and its input of `all_gather`; part of
  /// its share.
  value_range shard() const {
    auto const mine = share();
    if (!plan_) return mine;
    auto const [first, count] = plan_->shard();
    return {mine.first + first, count};
  }
  /// See plan::shard_alignment. Also 0 if nodes have different numbers of ranks.
  std::size_t shard_alignment() const {
    constexpr std::size_t word = 64;  // shares are aligned to it
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
  /// @param feedback  for share().count values
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

  /// @param between   (share): all-reduce by the plan
  /// @param feedback  used by `between`, or null
  template <class F>
  report sum(operation what, std::span<V> x, call_options const& call, F const& between,
             error_feedback<V>* feedback = nullptr) {
    auto& inside = nodes_->inside();
    // The plan divides by the number of nodes.
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
  /// Gives all shares to all ranks of this node.
  void spread(std::span<V> x) {
    std::ranges::copy(sum_, x.data() + share().first);
    nodes_->inside().all_gather(x, ranks().share_of_each(values_));
  }
  /// @param gather   (): fills sum_
  /// @param between  (share): all-reduce by the plan
  /// @param scatter  (): distributes sum_
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
      if (!plan_) stats.error = unknown_error;
      if (ranks().nodes == 1 && ranks().ranks > 1) stats.messages = message_memory::shared;
      outcome mine;
      if (plan_)
        // Even without values this rank takes part, so that other nodes learn of the error.
        mine = detail::outcome_of(
            [&] { stats = between(is_fallback ? std::span(sum_) : no_values()); });
      watch.skip();  // the plan has reported its time
      outcome const after = together(mine);
      watch.add_to(waiting);
      bool const has_failed = after.has_failed();
      // The pending buffer holds the previous residual.
      if (has_failed && plan_ && feedback && !mine.has_failed()) feedback->commit();
      before.raise();
      after.raise();
      scatter();
      watch.add_to(adding);
      stats.seconds_merge += adding;
      stats.seconds_communicate += waiting;
      stats.weight = static_cast<std::uint64_t>(nodes_->all().size());
      stats.seconds_of_last = 0;  // differs between ranks of different shares
      return stats;
    });
  }
  /// An argument that every plan rejects.
  std::span<V> no_values() const {
    return {static_cast<V*>(nullptr), std::max<std::size_t>(sum_.size(), 1)};
  }
  double ranks_of_a_node() const {
    return static_cast<double>(nodes_->all().size()) / ranks().nodes;
  }
  /// Checks this rank's arguments.
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
  /// A hash of the arguments that must be equal on all ranks.
  static std::uint64_t fingerprint_of(operation what, call_options const& call) {
    std::uint64_t print = static_cast<std::uint64_t>(call.op);
    for (std::uint64_t const one :
         {static_cast<std::uint64_t>(what), call.seed, call.step.value_or(0), call.tensor})
      print = mix(print ^ one);
    return print;
  }
  /// @throws disagreement_error  plans differ between ranks
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
          {"hierarchical_plan: ranks ask for different plans: rank 0 for one of ",
           all.front().values, " values, rank ", other - all.begin(), " for one of ", other->values,
           "; the codec and the list of nodes have to be the same, too"}));
  }
  /// Only carriers create a plan, but all ranks must learn of its errors.
  template <class Make> void make_plans(Make const& make) {
    sum_.resize(share().count);
    together(detail::outcome_of([&] {
      auto* const between = nodes_->between();
      if (between && ranks().nodes > 1) plan_ = make(sum_.size(), *between);
    })).raise();
  }
  /// The first error of any rank of this node.
  /// @param call  must be equal on all of them; otherwise an error
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
  std::vector<V> sum_;  ///< of this rank's share
};

/// Creates a plan from the names of its codec and algorithm, as hcomp::make_plan does. Collective.
/// The plan must not outlive transport and executor.
///
/// If the algorithm is hierarchical, it is a hierarchical_plan. If the codec is uncompressed
/// (`identity`), the algorithm the default, and all ranks share a node, it is a shared_memory_plan;
/// over a concurrent_transport pass it as `exclusive` of start_options.
///
///     auto plan = hcomp::node::make_plan<float>(
///         "thc:bits=4", gradient.size(), transport, executor,
///         {.algorithm = hcomp::algorithm::from("hierarchical")});
///
/// @param node_of  see hierarchical_options; ignored by other algorithms
/// @throws as hierarchical_plan and hcomp::make_plan
template <class V, Transport T>
any_plan<V> make_plan(std::string_view codec, std::size_t values, T& transport,
                      host_executor& executor, plan_options options,
                      std::vector<std::uint64_t> node_of = {}) {
  if (!options.algorithm.hierarchical) {
    auto plan = hcomp::make_plan<V>(codec, values, transport, executor, options);
    auto const& info = *codec_from(registered_codecs<V>(), codec).entry;
    if (!uses_shared_memory(info, options, node_of)) return plan;
    detail::kept_transport over(transport);
    auto memory = make_shared_memory(*over, options.tag);
    return in_shared_memory(std::move(plan), options, std::move(over), std::move(memory));
  }
  options.algorithm = options.algorithm.between_nodes();
  detail::kept_transport over(transport);
  auto body = std::make_unique<detail::some_plan<hierarchical_plan<V>>>(
      codec, values, *over, executor,
      hierarchical_options{.between = options, .node_of = std::move(node_of)});
  return {codec_from(registered_codecs<V>(), codec).text(), std::move(over), std::move(body)};
}

}  // namespace hcomp::node
