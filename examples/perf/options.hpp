#pragma once
/// @file
/// What can be said on the command line.

#include <cstdint>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
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
                                           hcomp::algorithm::from("sampled")};
  std::vector<std::string> transports{"mpi"};
  std::vector<std::string> aggregators;     ///< addresses of hcomp-aggregator; none: by ranks alone
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

  std::string json, csv;  ///< files to write; empty: none
};

/// @throws example::usage
options parse(int argc, char const* const* argv);

/// Every size from `min_bytes` to `max_bytes`, in values of `value_bytes` bytes.
std::vector<std::size_t> sizes(options const& o, std::size_t value_bytes);

/// Whether `codec` is no codec but a word of this program: "raw" or "automatic".
bool is_own(std::string_view codec);

/// A codec of sparse vectors, as its settings say.
struct sparse_codec {
  hcomp::sparse_strategies strategies;
  int fixed = 0;  ///< bits of fixed point; 0: floats

  /// Nothing if `codec` is no such codec.
  static std::optional<sparse_codec> from(hcomp::codec_info const& codec,
                                          hcomp::codec_settings const& settings);
};

/// Whether MPI libraries can sum with the codec by hcomp's MPI_Op: those of which this program has
/// types, with their usual settings.
bool has_op(hcomp::codec_info const& codec, hcomp::codec_settings const& settings);

/// Whether hcomp-aggregator can add what the codec sends.
bool has_indices(hcomp::codec_info const& codec);

}  // namespace perf
