#pragma once
/// @file
/// All runs of a program put side by side: a table for people, JSON for programs.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "history.hpp"
#include "options.hpp"

namespace train {

/// Mean and sample standard deviation of a figure over the seeds.
struct spread {
  double mean = 0, deviation = 0;
};

/// All runs with one codec, one per seed.
struct comparison_row {
  std::string codec;
  std::vector<history> runs;

  /// @param figure  of one history
  template <class Figure> spread over_seeds(Figure const& figure) const {
    std::vector<double> values;
    for (auto const& run : runs) values.push_back(figure(run));
    return spread_of(values);
  }
  static spread spread_of(std::vector<double> const& values);
  spread accuracy() const {
    return over_seeds([](history const& run) { return run.end().accuracy; });
  }
};

/// Everything a program has to report.
struct comparison {
  options settings;
  int ranks = 1;
  std::string device = "host";       ///< or what rank 0 trained on, such as "NVIDIA H200"
  std::vector<comparison_row> rows;  ///< in the order in which the codecs were asked for
  bool is_complete = true;           ///< false: it was interrupted, or goes on

  void add(history run);
  comparison_row const* find(std::string_view codec) const;
};

/// Figures by codec, and how far those that ought to give the same losses do.
std::string table(comparison const& all);
nlohmann::ordered_json to_json(comparison const& all);

/// Largest difference of any loss of two codecs at any time, as a share of it.
double largest_difference(comparison_row const& a, comparison_row const& b);

/// What --check and --within find wrong, one line each; empty if nothing.
std::string complaints(comparison const& all);

}  // namespace train
