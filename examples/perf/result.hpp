#pragma once
/// @file
/// Results of a run, as data and as text.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "contender.hpp"

namespace perf {

/// Median, smallest and largest of a set of values.
struct spread {
  double median = 0, least = 0, most = 0;

  static spread of(std::vector<double> values);
};

/// Result of one contender at one size. Seconds and bytes are per call.
struct row {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< size of the raw vector
  std::string type;
  strategy name;
  std::string memory = "host";  ///< as contender::memory

  spread seconds;             ///< over ranks, of each rank's median over calls
  std::vector<double> calls;  ///< the slowest rank's seconds, call by call
  double seconds_encode = 0, seconds_communicate = 0, seconds_merge = 0,
         seconds_decode = 0;            ///< the slowest rank's medians
  std::optional<double> bytes_sent;     ///< by the rank that sends most, counted by its transport
  std::optional<double> bytes_on_wire;  ///< by the rank that sends most, by its interface
  double vs_mpi = 1;                    ///< speed-up over MPI_Allreduce of the raw vector
  std::optional<double> bound;          ///< lower bound of the link at its rate, in seconds
  std::optional<double> predicted;      ///< by the cost model, in seconds
  double error = 0;                     ///< relative, Euclidean norm
  bool same_bits = true;
  bool as_promised = true;

  double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds.most; }
  double bus_bandwidth(int ranks) const { return algorithm_bandwidth() * 2 * (ranks - 1) / ranks; }
};

/// Speed-up of `one` over `reference`: the ratio of the median times.
double speed_up(row const& reference, row const& one);

/// A run on one network.
struct result {
  std::string mpi;      ///< library and version
  std::string machine;  ///< processor of rank 0
  std::string device;   ///< device of rank 0 that holds the vectors; empty: host memory
  int ranks = 0, nodes = 0;
  double rate = 0;     ///< rate of a rank's link in bit/s
  double latency = 0;  ///< one-way latency in seconds
  bool rate_was_measured = false;
  std::string label;
  std::string input;
  bool mean = false;
  bool is_complete = true;  ///< false: the run was interrupted or still runs
  std::vector<row> rows;
};

/// Head and lines of a table for one value type.
std::string table_head(result const& all, std::string const& type);
std::string line(result const& all, row const& one);

nlohmann::ordered_json to_json(result const& all);
std::string to_csv(result const& all);

/// One line per failed check of --check; empty: all passed.
std::string complaints(result const& all);

}  // namespace perf
