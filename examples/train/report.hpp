#pragma once
/// @file
/// Comparison of all runs: as a table and as JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "history.hpp"
#include "options.hpp"

namespace train {

/// Mean and sample standard deviation of a value over the seeds.
struct spread {
  double mean = 0, deviation = 0;
};

/// All runs with one codec, one per seed.
struct comparison_row {
  std::string codec;
  std::vector<history> runs;

  /// @param metric  function that returns the value of one history
  template <class Metric> spread over_seeds(Metric const& metric) const {
    std::vector<double> values;
    for (auto const& run : runs) values.push_back(metric(run));
    return spread_of(values);
  }
  static spread spread_of(std::vector<double> const& values);
  spread accuracy() const {
    return over_seeds([](history const& run) { return run.end().accuracy; });
  }
};

/// Results of a program.
struct comparison {
  options settings;
  int ranks = 1;
  std::string device = "host";       ///< or the device of rank 0, e.g. "NVIDIA H200"
  std::vector<comparison_row> rows;  ///< in the order of --codec
  bool is_complete = true;           ///< false: it was interrupted or still runs

  void add(history run);
  comparison_row const* find(std::string_view codec) const;
};

/// Table of results by codec, and the differences of codecs that should give the same losses.
std::string table(comparison const& all);
nlohmann::ordered_json to_json(comparison const& all);

/// Largest relative difference of the losses of two codecs, over all observations.
double largest_difference(comparison_row const& a, comparison_row const& b);

/// One line per failed check of --check and --within; empty if all passed.
std::string complaints(comparison const& all);

}  // namespace train
