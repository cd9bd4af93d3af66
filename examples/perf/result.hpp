#pragma once
/// @file
/// What was measured, as data and as text.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "contender.hpp"

namespace perf {

/// Median, least and most of a set of figures.
struct spread {
  double median = 0, least = 0, most = 0;

  static spread of(std::vector<double> values);
};

/// One way at one size. Seconds and bytes are per call.
struct row {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< of the raw vector
  std::string type;
  strategy name;
  std::string memory = "host";  ///< as contender::memory

  spread seconds;             ///< over the ranks, of each one's median over the calls
  std::vector<double> calls;  ///< the slowest rank's seconds, call by call
  double seconds_encode = 0, seconds_communicate = 0, seconds_merge = 0,
         seconds_decode = 0;            ///< the slowest rank's medians
  std::optional<double> bytes_sent;     ///< by the rank that sends most, as its transport counts
  std::optional<double> bytes_on_wire;  ///< by the rank that sends most, as its interface counts
  double vs_mpi = 1;                    ///< speed_up over the raw vector's MPI_Allreduce
  std::optional<double> bound;          ///< seconds that the link needs at its rate
  std::optional<double> predicted;      ///< by the cost model
  double error = 0;                     ///< relative, Euclidean norm
  bool same_bits = true;
  bool as_promised = true;

  double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds.most; }
  double bus_bandwidth(int ranks) const { return algorithm_bandwidth() * 2 * (ranks - 1) / ranks; }
};

/// How many times as fast `one` is: the ratio of the medians, on the console, in files and on pages.
double speed_up(row const& reference, row const& one);

/// A run on one network.
struct result {
  std::string mpi;      ///< library and version
  std::string machine;  ///< of rank 0: its processor
  std::string device;   ///< of rank 0, where the vectors lie; empty: in host memory
  int ranks = 0, nodes = 0;
  double rate = 0;     ///< bit/s of a rank's link
  double latency = 0;  ///< seconds, one way
  bool rate_was_measured = false;
  std::string label;
  std::string input;
  bool mean = false;
  bool is_complete = true;  ///< false: the run was interrupted, or goes on
  std::vector<row> rows;
};

/// The head of a table of vectors of one type, and its lines.
std::string table_head(result const& all, std::string const& type);
std::string line(result const& all, row const& one);

nlohmann::ordered_json to_json(result const& all);
std::string to_csv(result const& all);

/// What --check finds wrong, a line each; empty: nothing.
std::string complaints(result const& all);

}  // namespace perf
