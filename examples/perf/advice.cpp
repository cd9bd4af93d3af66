#include "advice.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/udp/predict.hpp>
#include <optional>

#include "options.hpp"
#include "plans.hpp"
#include "text.hpp"

namespace perf {
namespace {

double library(hcomp::cost_table const& costs, int ranks, std::size_t values,
               std::size_t value_bytes) {
  auto const bytes = static_cast<double>(value_bytes);
  return hcomp::library_seconds(ranks, static_cast<double>(values) * bytes,
                                costs.of("identity").merge / bytes, costs.link);
}

/// "35.2 KiB"
std::string about(std::uint64_t bytes) {
  auto const metric = static_cast<double>(bytes);
  if (bytes < 1u << 10) return fmt::format("{} B", bytes);
  if (bytes < 1u << 20) return fmt::format("{:.3g} KiB", metric / (1 << 10));
  return fmt::format("{:.3g} MiB", metric / (1 << 20));
}

std::string cost_lines(hcomp::cost_table const& costs) {
  auto text = fmt::format("{:<16} {:>12} {:>10} {:>10} {:>10} {:>16} {:>10}\n", "codec",
                          "bytes/value", "encode", "merge", "decode", "select, restore", "per use");
  for (auto const& [codec, cost] : costs.codecs) {
    auto const ns = [](double seconds) { return fmt::format("{:.3f} ns", seconds * 1e9); };
    text += fmt::format(
        "{:<16} {:>12.4f} {:>10} {:>10} {:>10} {:>16} {:>10}\n", codec, cost.bytes_per_value(),
        ns(cost.encode), ns(cost.merge), ns(cost.decode),
        cost.pack > 0 ? fmt::format("{:.3f}, {:.3f}", cost.pack * 1e9, cost.unpack * 1e9) : "",
        seconds_text(cost.call));
  }
  return text;
}

/// Expected times of codecs with hcomp-aggregator, beside those without it. Empty if no codec
/// supports it.
std::string adder_lines(hcomp::cost_table const& costs, int ranks,
                        std::vector<std::size_t> const& sizes,
                        hcomp::allowed_strategies const& allowed, std::size_t value_bytes) {
  std::string text;
  for (auto const& codec : allowed.codecs) {
    if (!has_indices(*hcomp::codec_from(codecs<float>(), codec).entry)) continue;
    for (auto const values : sizes) {
      auto const by_ranks =
          hcomp::choose(costs, ranks, values, {{codec}, allowed.algorithms}).front();
      double const by_adder =
          hcomp::udp::predict(ranks, values, costs.of(codec), costs.link).seconds();
      text += fmt::format("{:>9} {:<16} {:>22} {:<38} {:>6.2f}\n", size_text(values * value_bytes),
                          codec, fmt::format("{:.3g} ms", by_adder * 1e3), hcomp::to_text(by_ranks),
                          by_ranks.seconds() / by_adder);
    }
  }
  if (text.empty()) return text;
  return fmt::format("\n{:>9} {:<16} {:>22} {:<38} {:>6}\n", "size", "codec", "by hcomp-aggregator",
                     "by the ranks, expected", "gain") +
         text;
}

}  // namespace

double pays_up_to(hcomp::cost_table costs, int ranks, std::size_t values,
                  hcomp::allowed_strategies const& strategies, std::size_t value_bytes) {
  auto const pays = [&](double rate) {
    costs.link.seconds_per_byte = 8 / rate;
    if (costs.nodes) costs.nodes->between.seconds_per_byte = costs.nodes->ranks * 8 / rate;
    return hcomp::choose(costs, ranks, values, strategies).front().seconds() <
           library(costs, ranks, values, value_bytes);
  };
  double low = 1e6, high = 1e12;
  if (!pays(low)) return 0;
  if (pays(high)) return high;
  while (high / low > 1.01) {
    double const middle = std::sqrt(low * high);
    (pays(middle) ? low : high) = middle;
  }
  return low;
}

std::string advice(hcomp::cost_table const& costs, int ranks, std::vector<std::size_t> const& sizes,
                   hcomp::allowed_strategies const& allowed, std::size_t value_bytes) {
  auto text = fmt::format(
      "{} ranks, links that carry {}, {} one way; seconds per value with all ranks at work:\n\n{}\n"
      "{:>9} {:<38} {:<38} {:>12} {:>6}\n",
      ranks, rate_text(8 / costs.link.seconds_per_byte),
      seconds_text(costs.link.seconds_per_message), cost_lines(costs), "size", "fastest, expected",
      "next", "MPI's own", "gain");
  for (auto const values : sizes) {
    auto const strategies = hcomp::choose(costs, ranks, values, allowed);
    auto const next =
        std::ranges::find_if(strategies, [&](auto const& strategy) {  // not another torus shape
          return strategy.codec != strategies[0].codec ||
                 strategy.algorithm.kind != strategies[0].algorithm.kind ||
                 strategy.algorithm.hierarchical != strategies[0].algorithm.hierarchical;
        });
    double const own = library(costs, ranks, values, value_bytes);
    text += fmt::format("{:>9} {:<38} {:<38} {:>12} {:>6.2f}\n", size_text(values * value_bytes),
                        hcomp::to_text(strategies[0]),
                        next != strategies.end() ? hcomp::to_text(*next) : "",
                        fmt::format("{:.3g} ms", own * 1e3),  // the unit of to_text()
                        own / strategies[0].seconds());
  }

  std::size_t const largest = sizes.back();
  text += fmt::format("\n{:<16} {:>34} {:>38}\n", "codec", "faster than MPI's own on this link",
                      fmt::format("and with {} on links", size_text(largest * value_bytes)));
  for (auto const& codec : allowed.codecs) {
    hcomp::allowed_strategies const only{{codec}, allowed.algorithms};
    auto const from = hcomp::pays_from(costs, ranks, only, value_bytes);
    double const up_to = pays_up_to(costs, ranks, largest, only, value_bytes);
    bool const is_noisy =
        hcomp::codec_from(codecs<float>(), codec).entry->promise == hcomp::accuracy_class::noisy;
    text += fmt::format("{:<16} {:>34} {:>38}{}\n", codec,
                        from ? "from " + about(*from * value_bytes) : "never",
                        up_to >= 1e12 ? "always"
                        : up_to > 0   ? "up to " + rate_text(up_to)
                                      : "never",
                        is_noisy ? "  noisy: for training" : "");
  }
  return text + adder_lines(costs, ranks, sizes, allowed, value_bytes);
}

}  // namespace perf
