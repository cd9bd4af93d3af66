#include "report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace train {
namespace {

/// Two codecs that compute the same sums with different encodings.
struct twins {
  std::string_view one, other;
  double tolerance;  ///< largest relative difference of losses, from another order of additions
};
constexpr std::array all_twins{twins{"sparse", "fp32", 1e-5}, twins{"sparse_fixed", "fixed", 0}};

/// Calls f(twins, largest difference) for all twins that were trained.
template <class F> void for_each_twins(comparison const& all, F const& f) {
  for (auto const& pair : all_twins) {
    auto const *one = all.find(pair.one), *other = all.find(pair.other);
    if (one && other) f(pair, largest_difference(*one, *other));
  }
}

std::string bytes_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.2f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

/// A single rank sends nothing and has no ratio.
std::string ratio_text(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:.1f}", ratio) : "-";
}

std::string accuracy_text(spread const& s, std::size_t seeds) {
  return seeds > 1 ? fmt::format("{:.2f} ±{:.2f}", s.mean, s.deviation)
                   : fmt::format("{:.2f}", s.mean);
}

nlohmann::ordered_json to_json(observation const& o, model_kind const& model) {
  nlohmann::ordered_json json{
      {"step", o.step},       {"epoch", o.epoch},           {"bytes_sent", o.bytes},
      {"seconds", o.seconds}, {"train_loss", o.train_loss}, {"test_loss", o.test_loss}};
  if (model.has_accuracy) json["test_accuracy"] = o.accuracy;
  return json;
}

/// Percentage points above fp32, if fp32 was trained.
std::string gain_text(comparison const& all, comparison_row const& row) {
  auto const* const exact = all.find("fp32");
  if (!exact || exact == &row) return "-";
  return fmt::format("{:+.2f}", row.accuracy().mean - exact->accuracy().mean);
}

/// Name of the data set, also for files in another folder than the default.
std::string data_name(options const& o) {
  auto const file = [](std::string_view path) { return std::filesystem::path(path).filename(); };
  if (o.data == "synthetic") return fmt::format("synthetic {}", o.model->examples);
  return file(o.data) == file(o.model->data) ? std::string(o.model->data_name) : "other data";
}

/// Settings of methods that have options of their own.
std::string settings_text(comparison const& all) {
  auto const& o = all.settings;
  std::string text;
  if (all.find("marsit") || all.find("marsit_inf"))
    text += fmt::format("marsit: the first {} steps in full precision", o.warm_up);
  if (all.find("marsit"))
    text += fmt::format(", and every {}th, which moves a parameter by at most {:g}", o.period,
                        o.flush_limit);
  return text + (text.empty() ? "" : "\n");
}

char const* name_of(hcomp::message_memory memory) {
  return memory == hcomp::message_memory::device        ? "device"
         : memory == hcomp::message_memory::host_staged ? "host_staged"
                                                        : "host";
}

nlohmann::ordered_json to_json(history const& run, model_kind const& model, int ranks) {
  nlohmann::ordered_json json{{"codec", run.codec},
                              {"algorithm", run.algorithm},
                              {"seed", run.seed},
                              {"learning_rate", run.rate},
                              {"momentum", run.momentum},
                              {"sign_step", run.sign_step},
                              {"steps", run.steps},
                              {"steps_made", run.steps_made},
                              {"test_loss", run.end().test_loss},
                              {"train_loss", run.end().train_loss},
                              {"bytes_sent_per_step", run.bytes_per_step},
                              {"compression_ratio", run.ratio(ranks)},
                              {"seconds_compute", run.seconds_compute},
                              {"seconds_encode", run.seconds_encode},
                              {"seconds_communicate", run.seconds_communicate},
                              {"messages", name_of(run.messages)},
                              {"share_left_out", run.lost.left_out},
                              {"share_missed", run.lost.missed}};
  if (model.has_accuracy) json["test_accuracy"] = run.end().accuracy;
  for (auto const& o : run.curve) json["curve"].push_back(to_json(o, model));
  return json;
}

}  // namespace

spread comparison_row::spread_of(std::vector<double> const& values) {
  spread s;
  for (double const value : values) s.mean += value / static_cast<double>(values.size());
  for (double const value : values) s.deviation += (value - s.mean) * (value - s.mean);
  s.deviation =
      values.size() > 1 ? std::sqrt(s.deviation / static_cast<double>(values.size() - 1)) : 0;
  return s;
}

void comparison::add(history run) {
  for (auto& row : rows)
    if (row.codec == run.codec) return row.runs.push_back(std::move(run));
  rows.push_back({run.codec, {std::move(run)}});
}

comparison_row const* comparison::find(std::string_view codec) const {
  for (auto const& row : rows)
    if (row.codec == codec) return &row;
  return nullptr;
}

double largest_difference(comparison_row const& a, comparison_row const& b) {
  double most = 0;
  for (std::size_t run = 0; run < std::min(a.runs.size(), b.runs.size()); ++run) {
    auto const &one = a.runs[run].curve, &other = b.runs[run].curve;
    for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i)
      for (auto const loss : {&observation::train_loss, &observation::test_loss}) {
        double const difference = std::abs(one[i].*loss - other[i].*loss);
        if (difference > 0) most = std::max(most, difference / std::abs(other[i].*loss));
      }
  }
  return most;
}

std::string table(comparison const& all) {
  std::size_t width = 14;
  for (auto const& row : all.rows) width = std::max(width, row.codec.size());
  bool const has_accuracy = all.settings.model->has_accuracy;
  int const digits = has_accuracy ? 4 : 6;  // more digits if the table has no accuracy
  auto const accuracy_columns = [&](std::string const& cell, std::string const& gain) {
    return has_accuracy ? fmt::format(" {:>13} {:>7}", cell, gain) : std::string();
  };
  std::string text = fmt::format(
      "{:<{}}{} {:>10} {:>11} {:>11} {:>7} {:>9} {:>8} {:>8} {:>8}\n"
      "{:<{}}{} {:>10} {:>11} {:>11} {:>7} {:>9} {:>8} {:>8} {:>8}\n",
      "codec", width, accuracy_columns("test accuracy", "to fp32"), "test loss", "train loss",
      "sent by a", "compr.", "compute", "encode", "comm.", "total",  //
      "", width, accuracy_columns("%", "points"), "nats", "nats", "rank & step", "ratio", "s", "s",
      "s", "s");
  for (auto const& row : all.rows) {
    auto const mean = [&](auto const& metric) { return row.over_seeds(metric).mean; };
    double const compute = mean([](history const& r) { return r.seconds_compute; });
    double const encode = mean([](history const& r) { return r.seconds_encode; });
    double const communicate = mean([](history const& r) { return r.seconds_communicate; });
    text += fmt::format(
        "{:<{}}{} {:>10.{}f} {:>11.{}f} {:>11} {:>7} {:>9.1f} {:>8.1f} {:>8.1f} {:>8.1f}\n",
        row.codec, width,
        accuracy_columns(accuracy_text(row.accuracy(), row.runs.size()), gain_text(all, row)),
        mean([](history const& r) { return r.end().test_loss; }), digits,
        mean([](history const& r) { return r.end().train_loss; }), digits,
        bytes_text(mean([](history const& r) { return r.bytes_per_step; })),
        ratio_text(mean([&](history const& r) { return r.ratio(all.ranks); })), compute, encode,
        communicate, compute + encode + communicate);
  }
  text += settings_text(all);
  for_each_twins(all, [&](twins const& pair, double difference) {
    text += difference == 0
                ? fmt::format("All losses of {} and {} are the same, bit for bit.\n", pair.one,
                              pair.other)
                : fmt::format("Losses of {} and {} differ by {:.1e} of their size, at most.\n",
                              pair.one, pair.other, difference);
  });
  return text;
}

nlohmann::ordered_json to_json(comparison const& all) {
  auto const& o = all.settings;
  nlohmann::ordered_json json{{"ranks", all.ranks},        {"complete", all.is_complete},
                              {"device", all.device},      {"transport", o.transport},
                              {"link_gbit_per_s", o.link}, {"threads", o.threads},
                              {"model", o.model->name},    {"data", o.data},
                              {"data_name", data_name(o)}, {"examples", o.model->examples},
                              {"epochs", o.epochs},        {"batch_per_rank", o.batch},
                              {"partition", o.partition},  {"period", o.period},
                              {"warm_up", o.warm_up},      {"flush_limit", o.flush_limit},
                              {"resync_epochs", o.resync}};
  if (o.model->name == "mlp") json["hidden"] = o.hidden;
  if (o.model->name == "embedding") json["dimension"] = o.vectors.dimension;
  for (auto const& row : all.rows) {
    json["parameters"] = row.runs.front().parameters;
    for (auto const& run : row.runs) json["runs"].push_back(to_json(run, *o.model, all.ranks));
    auto& mean = json["mean_over_seeds"][row.codec];
    mean["seeds"] = row.runs.size();
    if (o.model->has_accuracy) {
      mean["test_accuracy"] = row.accuracy().mean;
      mean["test_accuracy_deviation"] = row.accuracy().deviation;
    }
    mean["train_loss"] = row.over_seeds([](history const& r) { return r.end().train_loss; }).mean;
  }
  return json;
}

std::string complaints(comparison const& all) {
  std::string text;
  if (all.settings.check)
    for (auto const& row : all.rows)
      for (auto const& run : row.runs) {
        double const before = run.curve.front().train_loss, after = run.end().train_loss;
        if (!(after < before) || !std::isfinite(run.end().test_loss))
          text += fmt::format(
              "check: {} with seed {}: training loss {:.4f} before, {:.4f} after, "
              "test loss {:.4f}\n",
              run.codec, run.seed, before, after, run.end().test_loss);
      }
  // With ReLU, rounding differences grow over many steps; with word vectors they stay small.
  if (all.settings.check)
    for_each_twins(all, [&](twins const& pair, double difference) {
      if (!(difference <= pair.tolerance) && (pair.tolerance == 0 || all.settings.model->is_sparse))
        text += fmt::format(
            "check: losses of {} and {} differ by {:.2e} of their size, {:g} is allowed\n",
            pair.one, pair.other, difference, pair.tolerance);
    });
  if (all.settings.within) {
    double const gap = all.find("fp32")->accuracy().mean - all.find("marsit")->accuracy().mean;
    if (!(gap <= *all.settings.within))
      text +=
          fmt::format("within: marsit ends {:.2f} percentage points below fp32, {} are allowed\n",
                      gap, *all.settings.within);
  }
  return text;
}

}  // namespace train
