#pragma once
/// @file
/// Statistics of the drop-in library by call site.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hcomp::drop_in {

/// Key of a group of calls: same place in the program, same kind, same treatment.
struct call_site {
  std::string function;  ///< "MPI_Allreduce"
  std::string caller;    ///< "program+0x1234": the file with the code, and the offset in it
  std::string type;      ///< "float"
  int ranks = 0;         ///< of the communicator
  std::string strategy;  ///< "thc:bits=4", or "MPI" for calls left to MPI
  std::string why;       ///< reason for the strategy

  friend auto operator<=>(call_site const&, call_site const&) = default;
};

/// Seconds of calls that both hcomp and MPI made. All ranks began each of them together.
struct compared_seconds {
  std::uint64_t calls = 0;
  double own = 0;    ///< in hcomp, codec included
  double codec = 0;  ///< in the codec: encoding, merging and decoding
  double plain = 0;  ///< in MPI's collective

  void add(compared_seconds const& other);
  /// Mean per call.
  compared_seconds mean() const;
};

/// The file that contains this address, and the offset in it: "program+0x1234".
std::string place_of(void const* address);

/// Totals over the calls of a site, on one rank or on all.
struct site_stats {
  std::uint64_t calls = 0;
  std::uint64_t smallest = 0, largest = 0;  ///< values per call
  std::uint64_t bytes_plain = 0;            ///< uncompressed ring: 2 (P - 1) / P, or (P - 1) / P
  std::uint64_t bytes_sent = 0;             ///< sent by hcomp
  double seconds = 0;                       ///< in hcomp, codec included
  double seconds_codec = 0;                 ///< in the codec: encoding, merging and decoding
  std::uint64_t compared = 0;               ///< calls compared with MPI
  compared_seconds first = {};              ///< compared calls that set up connections and memory
  compared_seconds later = {};              ///< all other compared calls
  double worst_error = 0;                   ///< largest |result - MPI's result|
  double worst_relative = 0;       ///< largest norm of this difference / norm of MPI's result
  double told_error = 0;           ///< error bound that the codec reports; NaN: it states none
  double residual = 0;             ///< largest report::residual
  std::uint64_t beyond_bound = 0;  ///< calls in which it exceeds the requested bound

  /// Adds the counts and merges the extremes of both.
  void add(site_stats const& other);
  /// Mean of the compared calls. Uses the calls after set-up if there are any.
  compared_seconds of_a_call() const { return (later.calls > 0 ? later : first).mean(); }
};

/// Filled by all threads of a rank, read at the end.
class journal {
 public:
  /// @param plain  the library that reduces what hcomp leaves, and the strategy of these sites
  explicit journal(std::string plain = "MPI") : plain_(std::move(plain)) {}

  void add(call_site const& site, site_stats const& one);
  bool empty() const;

  /// Serializes the journal for another rank.
  std::string to_json() const;
  /// @throws std::invalid_argument  the text is not a result of to_json
  void merge_json(std::string_view json);

  /// Table for people with one row per site: calls and seconds of the mean rank, bytes of all
  /// ranks. Calls left to MPI share a row if they differ only in the caller.
  /// @param heading  empty: that of a summary of all ranks
  std::string summary(int ranks, std::string_view heading = {}) const;
  /// The complete report as JSON: version, settings, ranks, and all statistics of each site over
  /// all ranks. Numbers that are not finite become null, invalid UTF-8 becomes U+FFFD.
  std::string report_json(int ranks, std::string_view settings) const;
  /// Table of the sites with compared calls: error, bytes saved, and the time of the mean call with
  /// and without compression. Gives times as measured, and predictions for 1, 10, 25, 100 and 400
  /// Gbit/s per rank at the measured codec speed.
  std::string prediction(int ranks) const;

 private:
  std::string plain_;
  mutable std::mutex mutex_;
  std::map<call_site, site_stats> sites_;
};

}  // namespace hcomp::drop_in
