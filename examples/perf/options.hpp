#pragma once
/// @file
/// Options of the command line.

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
  std::uint64_t min_bytes = 8 << 10, max_bytes = 16 << 20;  ///< size of the raw vector
  double factor = 4;                                        ///< ratio of consecutive sizes
  std::string type = "float";
  std::string device = "host";

  std::vector<std::string> codecs{"identity", "fp16", "sign"};
  std::vector<hcomp::algorithm> algorithms{hcomp::algorithm::from("ring"),
                                           hcomp::algorithm::from("sampled")};
  std::vector<std::string> transports{"mpi"};
  std::vector<std::string> aggregators;     ///< HOST:PORT of hcomp-aggregator; empty: none
  std::vector<std::string> mpi_algorithms;  ///< in addition to the library's own choice
  int threads = 1;

  int warm_up = 2, calls = 20;
  double seconds = 30;  ///< time limit for the calls of one size
  bool mean = false;
  bool check = false;
  double density = 1;
  std::string input;  ///< .npy file with the ranks' vectors; empty: generated vectors
  std::uint64_t seed = 1;

  std::optional<double> rate;     ///< bit/s of the slowest link; none: measured
  std::optional<double> latency;  ///< one-way latency in seconds; none: measured
  std::string interface;          ///< network interface that counts the bytes on the wire
  std::string label;              ///< name of the network in the report

  bool advise = false;
  std::optional<int> ranks;  ///< number of ranks to advise for; none: the ranks that run

  std::string json, csv;  ///< files to write; empty: none
};

/// @throws example::usage
options parse(int argc, char const* const* argv);

/// All sizes from `min_bytes` to `max_bytes`, in values of `value_bytes` bytes; each once.
std::vector<std::size_t> sizes(options const& o, std::size_t value_bytes);

/// Whether `codec` is a keyword of this program, "raw" or "automatic", and no codec.
bool is_own(std::string_view codec);

/// Settings of the codec lossless_sparse.
struct sparse_codec {
  hcomp::sparse_strategies strategies;
  int fixed = 0;  ///< bits of fixed point; 0: floats

  /// Nothing if `codec` is another codec.
  static std::optional<sparse_codec> from(hcomp::codec_info const& codec,
                                          hcomp::codec_settings const& settings);
};

/// Whether the codec supports --transport op. True for lossless_sparse and zfp, and for codecs of
/// builtin_codecs with default settings.
bool has_op(hcomp::codec_info const& codec, hcomp::codec_settings const& settings);

/// Whether hcomp-aggregator can add the codec's blocks.
bool has_indices(hcomp::codec_info const& codec);

}  // namespace perf
