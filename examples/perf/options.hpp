#pragma once
/// @file
/// What can be said on the command line.

#include <cstdint>
#include <hcomp/collective/algorithm.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

struct options {
  std::uint64_t min_bytes = 8 << 10, max_bytes = 16 << 20;  ///< of the raw vector
  double factor = 4;                                        ///< from one size to the next
  std::string type = "float";
  std::string device = "host";

  std::vector<std::string> codecs{"identity", "fp16", "sign"};
  std::vector<hcomp::algorithm> algorithms{hcomp::algorithm::from("ring"),
                                           hcomp::algorithm::from("owner")};
  std::vector<std::string> transports{"mpi"};
  std::vector<std::string> mpi_algorithms;  ///< besides the MPI library's own choice
  int threads = 1;

  int warm_up = 2, calls = 20;
  double seconds = 30;  ///< that the calls of one size may take
  bool mean = false;
  bool check = false;
  double density = 1;
  std::string input;  ///< .npy file with the ranks' vectors; empty: generated
  std::uint64_t seed = 1;

  std::optional<double> rate;     ///< bit/s of the slowest link; otherwise measured
  std::optional<double> latency;  ///< seconds one way; otherwise measured
  std::string interface;          ///< whose counters tell the bytes on the wire
  std::string label;              ///< of the network, for the report

  bool advise = false;
  std::optional<int> ranks;  ///< to advise for, instead of those that run

  std::string json, csv, plot;            ///< files to write; empty: none
  std::vector<std::string> reports_from;  ///< JSON files to draw instead of measuring
};

/// @throws example::usage
options parse(int argc, char const* const* argv);

/// Every size from `min_bytes` to `max_bytes`, in values of `value_bytes` bytes.
std::vector<std::size_t> sizes(options const& o, std::size_t value_bytes);

/// A sum of sparse vectors, as --codec calls it: sparse_sum, sparse_union or lhc, with :u32 after
/// it in fixed point.
struct sparse_name {
  hcomp::sparse_ways ways;
  bool fixed_point;

  /// Nothing if `codec` is no such name.
  static std::optional<sparse_name> from(std::string_view codec);
};

/// A codec of variable rate, as --codec calls it: inceptionn, inceptionn:E or
/// error_bounded:BOUND.
struct stream_name {
  int bound_exponent = 0;  ///< of inceptionn
  double bound = 0;        ///< of error_bounded; 0: inceptionn

  /// Nothing if `codec` is no such name.
  static std::optional<stream_name> from(std::string_view codec);
};

/// Whether streams can be summed that way.
bool sums_streams(hcomp::algorithm const& how);

/// Whether `codec` is one of hcomp's registry, not of this program alone.
bool is_registered(std::string const& codec);

/// The codec's name in hcomp's registry: "fp16" and "bf16" are short for the casts.
std::string registry_name(std::string const& codec);

}  // namespace perf
