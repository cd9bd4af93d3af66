#pragma once
/// @file
/// Chooses codec and algorithm, and the vector size from which compression is faster, from costs.
/// Arithmetic only.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp {

/// The names of codecs without loss.
inline std::vector<std::string> full_precision_codecs() { return {"identity"}; }
/// The names of codecs that round to 16 bits or do not round.
inline std::vector<std::string> half_precision_codecs() {
  return {"identity", "float_cast:fp16", "float_cast:bf16"};
}
/// All algorithms but baselines. Codecs that do not support an algorithm skip it.
inline std::vector<algorithm> all_algorithms() {
  std::vector<algorithm> all;
  for (auto const& row : detail::algorithm_rows)
    if (!row.is_baseline) all.push_back({row.kind});
  return all;
}

namespace detail {

/// An algorithm with its shape. A torus without shape: the most square shape first, then all other
/// shapes that are no ring.
inline std::vector<algorithm> shapes_of(algorithm const& how, int ranks) {
  std::vector<algorithm> shapes{how.fitted(ranks)};
  if (how.kind != algorithm_kind::torus || how.rows != 0) return shapes;
  for (int rows = 2; rows <= ranks / 2; ++rows)
    if (ranks % rows == 0 && rows != shapes.front().rows) {
      auto shape = how;
      shape.rows = rows;
      shape.columns = ranks / rows;
      shapes.push_back(shape);
    }
  return shapes;
}

}  // namespace detail

/// The strategies to choose among. A lossy codec must be allowed by name.
struct allowed_strategies {
  std::vector<std::string> codecs = full_precision_codecs();
  std::vector<algorithm> algorithms = all_algorithms();
};

/// A strategy: codec and algorithm, with the expected time.
struct choice {
  std::string codec;           ///< its name, with the settings it was allowed with
  hcomp::algorithm algorithm;  ///< a torus has both sides
  prediction expected;

  double seconds() const { return expected.seconds(); }
};

/// "sign by sampled: 1.23 ms"
inline std::string to_text(choice const& one) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g ms", one.seconds() * 1e3);
  return one.codec + " by " + one.algorithm.name() + ": " + seconds;
}

/// All allowed strategies to reduce `values` values over `ranks` ranks, fastest first; equally fast
/// ones in the order in which they are allowed. A torus without shape is one strategy per shape.
///
/// Left out are algorithms that the codec does not support, and hierarchical ones if costs.nodes is
/// missing, does not divide the ranks, or has one rank per node. If all ranks are on one node, only
/// the first hierarchical one is left, if any is allowed: it sends and encodes nothing.
/// @param costs    of all allowed codecs, for example from measure_costs
/// @param options  as for predict
/// @throws std::invalid_argument  no strategy is allowed, costs of an allowed codec are missing, or
///                                as predict
inline std::vector<choice> choose(cost_table const& costs, int ranks, std::size_t values,
                                  allowed_strategies const& allowed = {},
                                  plan_options const& options = {}) {
  std::vector<choice> strategies;
  bool const is_one_node = costs.nodes && ranks > 1 && costs.nodes->ranks == ranks &&
                           std::any_of(allowed.algorithms.begin(), allowed.algorithms.end(),
                                       [](algorithm const& how) { return how.hierarchical; });
  for (auto const& codec : allowed.codecs) {
    auto const& cost = costs.of(codec);
    for (auto const& how : allowed.algorithms) {
      if (!cost.algorithms.contains(how.kind)) continue;
      if (is_one_node && (!how.hierarchical || !strategies.empty())) continue;
      int sharers = ranks;  // nodes, or ranks
      if (how.hierarchical) {
        if (!costs.nodes || costs.nodes->ranks < 2 || ranks % costs.nodes->ranks != 0) continue;
        sharers = ranks / costs.nodes->ranks;
      }
      if (sharers > detail::facts_of(how.kind).most_ranks) continue;
      for (auto const& shape : detail::shapes_of(how, sharers))
        strategies.push_back(
            {codec, shape,
             how.hierarchical ? predict_by_nodes(shape, ranks, values, cost, *costs.nodes, options)
                              : predict(shape, ranks, values, cost, costs.link, options)});
    }
  }
  if (strategies.empty()) {
    auto const list = [](auto const& all, auto const& name) {
      std::string text;
      for (auto const& one : all) text += (text.empty() ? "" : ", ") + name(one);
      return text.empty() ? "none" : text;
    };
    throw std::invalid_argument(
        "choose: nothing is left to choose from on " + std::to_string(ranks) +
        " ranks; codecs allowed: " +
        list(allowed.codecs, [](std::string const& name) { return name; }) +
        "; algorithms allowed: " +
        list(allowed.algorithms, [](algorithm const& how) { return how.name(); }));
  }
  std::stable_sort(strategies.begin(), strategies.end(),
                   [](choice const& a, choice const& b) { return a.seconds() < b.seconds(); });
  return strategies;
}

/// The smallest number of values from which on `seconds(values)` is below `other_seconds(values)`;
/// empty if it is not below at `limit`.
///
/// Probes eight sizes per octave from `limit` down, then bisects. If the two cross several times,
/// the largest crossing counts.
template <class A, class B>
std::optional<std::size_t> pays_from(A const& seconds, B const& other_seconds,
                                     std::size_t limit = std::size_t{1} << 30) {
  auto const pays = [&](std::size_t values) { return seconds(values) < other_seconds(values); };
  if (!pays(limit)) return {};
  std::size_t good = limit, bad = 0;
  for (double size = static_cast<double>(limit); good > 1;) {
    size /= std::exp2(0.125);
    auto const next = std::min(good - 1, static_cast<std::size_t>(size));
    if (next < 1) break;
    if (!pays(next)) {
      bad = next;
      break;
    }
    good = next;
  }
  while (good - bad > 1) {
    std::size_t const middle = bad + (good - bad) / 2;
    (pays(middle) ? good : bad) = middle;
  }
  return good;
}

/// The number of values from which on the best of `strategies` is faster than the best of `others`,
/// for instance `sign` than `identity`; empty if it is not faster with `limit` values.
/// @throws std::invalid_argument  as choose
inline std::optional<std::size_t> pays_from(cost_table const& costs, int ranks,
                                            allowed_strategies const& strategies,
                                            allowed_strategies const& others,
                                            std::size_t limit = std::size_t{1} << 30) {
  auto const best = [&](allowed_strategies const& of) {
    return [&](std::size_t values) { return choose(costs, ranks, values, of).front().seconds(); };
  };
  return pays_from(best(strategies), best(others), limit);
}

/// The number of values from which on the best of `strategies` is faster than an MPI library's own
/// all-reduce of values of `value_bytes` bytes (see library_seconds); empty if it is not faster
/// with `limit` values.
/// @param costs  must include codec `identity`: the cost of its merge is that of adding values
inline std::optional<std::size_t> pays_from(cost_table const& costs, int ranks,
                                            allowed_strategies const& strategies,
                                            std::size_t value_bytes,
                                            std::size_t limit = std::size_t{1} << 30) {
  double const bytes = static_cast<double>(value_bytes), add = costs.of("identity").merge / bytes;
  return pays_from(
      [&](std::size_t values) {
        return choose(costs, ranks, values, strategies).front().seconds();
      },
      [&](std::size_t values) {
        return library_seconds(ranks, static_cast<double>(values) * bytes, add, costs.link);
      },
      limit);
}

}  // namespace hcomp
