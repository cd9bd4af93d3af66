#pragma once
/// @file
/// Derives the state of link and processors, and the fastest strategy, from the measured times of
/// calls. Arithmetic only, no communication.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/automatic/choose.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// Times of a call; equal on all ranks.
struct call_time {
  double seconds = 0;  ///< from the last rank's call until the last rank had its result
  double work = 0;     ///< encoding, merging and decoding on the slowest rank
};

/// Costs that follow measured times.
///
/// Two observations of a call determine the load of the processors (`load`, one factor for all
/// codecs): work that took longer than expected, or a total below the expectation. The rest of the
/// time is the link's. If work dominates, a call shows only an upper bound of the link's cost per
/// byte. The link must then be measured, if another strategy could be faster (`wants_link`).
///
/// Any remaining difference is the model's error for this strategy, such as `direct` on a switch
/// that drops packets when many ranks send to one. It is kept while link and load stay similar.
class running_costs {
 public:
  /// Strategies and predictions are those of choose, in an order that is equal on all ranks.
  /// @throws std::invalid_argument  as choose
  running_costs(cost_table measured, int ranks, std::size_t values,
                allowed_strategies const& allowed, plan_options const& options)
      : costs_(std::move(measured)),
        ranks_(ranks),
        values_(values),
        options_(options),
        strategies_(choose(costs_, ranks, values, allowed, options)),
        errors_(strategies_.size()),
        link_per_byte_(costs_.link.seconds_per_byte),
        measured_(link_per_byte_) {
    auto const place = [&](choice const& strategy) {
      auto const codec = std::find(allowed.codecs.begin(), allowed.codecs.end(), strategy.codec);
      return std::tuple(codec, strategy.algorithm.kind, strategy.algorithm.hierarchical,
                        strategy.algorithm.rows);
    };
    std::sort(strategies_.begin(), strategies_.end(),
              [&](auto const& a, auto const& b) { return place(a) < place(b); });
  }

  /// The current costs.
  cost_table now() const {
    cost_table costs = costs_;
    costs.link = link_at(per_byte());
    if (costs.nodes) costs.nodes = nodes_at(per_byte());
    for (auto& row : costs.codecs) row.cost = loaded(row.cost);
    return costs;
  }
  /// In an order that is equal on all ranks.
  std::vector<choice> const& strategies() const { return strategies_; }
  /// The strategies with their current expected times: `first`, then all other strategies, fastest
  /// first.
  std::vector<choice> choices(std::size_t first) const {
    auto all = strategies_;
    for (std::size_t strategy = 0; strategy < all.size(); ++strategy)
      all[strategy].expected = prediction_of(strategy, per_byte(), options_);
    std::swap(all[0], all[first]);
    std::stable_sort(all.begin() + 1, all.end(),
                     [](auto const& a, auto const& b) { return a.seconds() < b.seconds(); });
    return all;
  }

  /// Expected seconds of a call with strategy number `strategy`, after all ranks have called.
  double seconds(std::size_t strategy) const {
    return error(strategy) * predicted(strategy, per_byte());
  }

  /// The fastest strategy; in doubt a ring. A strategy that crowds links needs a margin for lost
  /// packets.
  std::size_t fastest() const {
    std::vector<double> all;
    for (std::size_t strategy = 0; strategy < strategies_.size(); ++strategy)
      all.push_back(weighed(strategy, per_byte()));
    return static_cast<std::size_t>(std::min_element(all.begin(), all.end()) - all.begin());
  }
  /// The same, but `used` unless another strategy is faster by `least_gain`.
  std::size_t best(std::size_t used) const { return best(used, per_byte()); }

  void learn(std::size_t used, call_time const& took) {
    follow_load(used, took);
    auto& factor = errors_[used].factor;  // an error that was too large is corrected before the
                                          // link counts as faster
    if (error(used) > 1)
      factor = std::clamp(took.seconds / predicted(used, per_byte()), 1., factor);
    double const floor = error(used) * predicted(used, 0);
    bool const is_visible = took.seconds > floor * visible;
    decides_ = took.seconds > floor * deciding;
    is_link_known_ = is_visible || (is_link_known_ && seconds(used) <= floor * visible);
    if (is_visible)
      link_per_byte_ = measured_ = per_byte_at(used, took.seconds);
    else if (!is_link_known_)
      link_per_byte_ = std::min(link_per_byte_, per_byte_at(used, floor * visible));
  }
  /// After disappointing calls.
  /// @param seconds_per_byte  just measured
  void learn(std::size_t used, call_time const& took, double seconds_per_byte) {
    follow_load(used, took);
    learn_link(seconds_per_byte);
    errors_[used] = {std::max(1., took.seconds / predicted(used, per_byte())), per_byte(), load_};
    decides_ = took.seconds > error(used) * predicted(used, 0) * deciding;
  }
  /// @param seconds_per_byte  just measured
  void learn_link(double seconds_per_byte) {
    link_per_byte_ = measured_ = std::clamp(seconds_per_byte, least_per_byte, most_per_byte);
    is_link_known_ = true;
  }
  /// Sets whether calls have disappointed. If so, only rings are trusted, if any is allowed: links
  /// may be changing one after the other, so that measurements are wrong.
  void set_shock(bool is_so) { in_shock_ = is_so; }
  bool is_in_shock() const { return in_shock_; }
  /// Whether calls showed that the link is much faster than measured, but not by how much.
  bool is_link_faster() const { return !is_link_known_ && link_per_byte_ * alike < measured_; }
  /// Whether another strategy would be faster than `used` with an unlimited link, and calls do not
  /// show the link's limit.
  bool wants_link(std::size_t used) const { return !decides_ && best(used, 0) != used; }

  /// Calls dominated by the link do not show whether processors are still busy. Returns the
  /// expected time, under the current load, of the strategy that would be fastest on idle
  /// processors; infinite if that is `used`.
  double seconds_of_trial(std::size_t used) const {
    constexpr double none = std::numeric_limits<double>::infinity();
    if (load_ <= 1) return none;
    auto idle = *this;
    idle.forget_load();
    std::size_t const strategy = idle.best(used);
    return strategy == used ? none : seconds(strategy);
  }
  void forget_load() { load_ = std::min(load_, 1.); }

  double per_byte() const { return link_per_byte_; }
  double load() const { return load_; }
  /// Adopts the state of another rank.
  void follow(double seconds_per_byte, double load) {
    link_per_byte_ = seconds_per_byte;
    load_ = load;
  }

 private:
  static constexpr double least_gain = 0.05,  ///< share of the time that justifies a change
      in_doubt = 1.1,                         ///< factor of the time of strategies other than rings
      in_shock = 4,                           ///< the same after disappointing calls
      crowded = 1.5,   ///< factor of the transfer time of strategies that crowd links
      visible = 1.3,   ///< ratio of a call's time to its work that makes the link visible
      deciding = 1.5,  ///< ratio at which the link dominates
      most_load = 16, alike = 1.5;
  static constexpr double least_per_byte = 1e-12, most_per_byte = 1e-2;

  /// The factor by which a strategy exceeded its prediction, with the link and load at that time.
  struct model_error {
    double factor = 1, per_byte = 0, load = 1;
  };

  /// Changes the load only as far as the times require: delays by the work of other ranks count as
  /// waiting.
  void follow_load(std::size_t used, call_time const& took) {
    double const floor = error(used) * predicted(used, 0), work = work_of(used);
    if (took.seconds < floor) load_ *= took.seconds / floor;
    if (took.work > took.seconds / 10)  // less work says little about other codecs
      load_ = std::max(load_, work > 0 ? took.work / work : 0);
    load_ = std::clamp(load_, 1 / most_load, most_load);
  }
  std::size_t best(std::size_t used, double per_byte) const {
    std::size_t found = used;
    double least = (1 - least_gain) * weighed(used, per_byte);
    for (std::size_t strategy = 0; strategy < strategies_.size(); ++strategy) {
      double const expected = weighed(strategy, per_byte);
      if (expected < least) {
        least = expected;
        found = strategy;
      }
    }
    return found;
  }
  /// The value by which strategies are compared: the expected seconds of a ring, whose two
  /// connections are known best; more than that for other strategies.
  double weighed(std::size_t strategy, double per_byte) const {
    double seconds = predicted(strategy, per_byte);
    auto const kind = strategies_[strategy].algorithm.kind;
    if (facts_of(kind).crowds_links) seconds += (crowded - 1) * (seconds - predicted(strategy, 0));
    if (kind != algorithm_kind::ring) seconds *= in_shock_ ? in_shock : in_doubt;
    return error(strategy) * seconds;
  }
  double error(std::size_t strategy) const {
    auto const& of = errors_[strategy];
    auto const is_alike = [](double a, double b) { return a < b * alike && b < a * alike; };
    return of.factor == 1 || !is_alike(of.per_byte, per_byte()) || !is_alike(of.load, load_)
               ? 1
               : of.factor;
  }
  double predicted(std::size_t strategy, double per_byte) const {
    auto agreed = options_;
    agreed.check = false;
    return prediction_of(strategy, per_byte, agreed).seconds();
  }
  prediction prediction_of(std::size_t strategy, double per_byte,
                           plan_options const& options) const {
    auto const& how = strategies_[strategy].algorithm;
    auto const cost = loaded(costs_.of(strategies_[strategy].codec));
    if (!how.hierarchical) return predict(how, ranks_, values_, cost, link_at(per_byte), options);
    return predict_by_nodes(how, ranks_, values_, cost, nodes_at(per_byte), options);
  }
  link_cost link_at(double per_byte) const {
    auto link = costs_.link;
    hurry(link, per_byte);
    link.seconds_per_byte = per_byte;
    return link;
  }
  /// Links between nodes change in proportion to the measured link; the reduction inside nodes is
  /// work.
  node_cost nodes_at(double per_byte) const {
    auto nodes = *costs_.nodes;
    hurry(nodes.between, per_byte);
    nodes.between.seconds_per_byte *=
        per_byte / std::max(costs_.link.seconds_per_byte, least_per_byte);
    nodes.inside *= load_;
    return nodes;
  }
  /// On a link that has become faster, messages also wait less for preceding messages.
  void hurry(link_cost& link, double per_byte) const {
    if (per_byte >= costs_.link.seconds_per_byte) return;
    link.seconds_between_messages *= per_byte / costs_.link.seconds_per_byte;
    link.seconds_of_rendezvous *= per_byte / costs_.link.seconds_per_byte;
  }
  /// Expected time of encoding, merging and decoding on idle processors.
  double work_of(std::size_t strategy) const {
    auto const& how = strategies_[strategy].algorithm;
    auto const& cost = costs_.of(strategies_[strategy].codec);
    if (!how.hierarchical) return predicted_seconds(how, ranks_, values_, cost, {}, options_);
    auto nodes = *costs_.nodes;
    nodes.between = {};
    return predict_by_nodes(how, ranks_, values_, cost, nodes, options_).seconds();
  }
  /// The cost per byte with which a call of `strategy` takes `seconds`.
  double per_byte_at(std::size_t strategy, double seconds) const {
    double low = least_per_byte, high = most_per_byte;
    while (high > low * 1.01) {
      double const middle = std::sqrt(low * high);
      (error(strategy) * predicted(strategy, middle) < seconds ? low : high) = middle;
    }
    return low;
  }
  codec_cost loaded(codec_cost cost) const {
    for (auto const metric : codec_times) cost.*metric *= load_;
    return cost;
  }

  cost_table costs_;
  int ranks_;
  std::size_t values_;
  plan_options options_;
  std::vector<choice> strategies_;
  std::vector<model_error> errors_;
  double link_per_byte_, measured_;  ///< upper bound of the current cost, and the last known one
  double load_ = 1;
  bool is_link_known_ = true, decides_ = false, in_shock_ = false;
};

}  // namespace hcomp::detail
