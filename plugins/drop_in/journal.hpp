#pragma once
/// @file
/// What the drop-in library did, by call site.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace hcomp::drop_in {

/// Calls that are told apart: from one place in the program, of one kind, treated alike.
struct call_site {
  std::string function;  ///< "MPI_Allreduce"
  std::string caller;    ///< "program+0x1234": the file that holds the code, and where in it
  std::string type;      ///< "float"
  int ranks = 0;         ///< of the communicator
  std::string strategy;  ///< "thc:bits=4", or "MPI" if it was passed on
  std::string why;       ///< the reason for that way

  friend auto operator<=>(call_site const&, call_site const&) = default;
};

/// Seconds of calls that were made by MPI, too, which all ranks began together.
struct compared_seconds {
  std::uint64_t calls = 0;
  double own = 0;    ///< in hcomp, codecs included
  double codec = 0;  ///< of them encoding, merging and decoding
  double plain = 0;  ///< of MPI's own sum

  void add(compared_seconds const& other);
  /// Of the mean call.
  compared_seconds mean() const;
};

/// What was added up over the calls of a site, on one rank or on all.
struct site_stats {
  std::uint64_t calls = 0;
  std::uint64_t smallest = 0, largest = 0;  ///< values per call
  std::uint64_t bytes_plain = 0;  ///< what a ring of uncompressed values sends: 2 (P - 1) / P
                                  ///< of them, half of it for a reduce-scatter
  std::uint64_t bytes_sent = 0;   ///< what was sent instead
  double seconds = 0;             ///< in hcomp, codecs included
  double seconds_codec = 0;       ///< of them encoding, merging and decoding
  std::uint64_t compared = 0;     ///< calls compared with MPI's own sum
  compared_seconds first = {};    ///< of those that needed connections and memory for it
  compared_seconds later = {};    ///< of the others
  double worst_error = 0;         ///< |sum - MPI's own sum| of those, at most
  double worst_relative = 0;      ///< norm of that difference / norm of MPI's own sum, at most
  double told_error = 0;  ///< how far values are off at most, as the codec says; 0: it does not
  std::uint64_t beyond_bound = 0;  ///< calls in which that is more than the bound asked for

  /// Sums and extremes of both.
  void add(site_stats const& other);
  /// Of the mean call that was compared, if there is one: one for which everything was there, unless
  /// there was none.
  compared_seconds of_a_call() const { return (later.calls > 0 ? later : first).mean(); }
};

/// Filled by all threads of a rank, read at the end.
class journal {
 public:
  void add(call_site const& site, site_stats const& one);
  bool empty() const;

  /// To send it to another rank, and back.
  std::string to_json() const;
  /// @throws std::invalid_argument  not what to_json makes
  void merge_json(std::string_view json);

  /// A table for people: a row per site, calls and seconds of the mean rank, bytes of all ranks
  /// together. Calls that were passed on are in one row where all but the caller is alike.
  std::string summary(int ranks) const;
  /// The whole report as JSON: version, settings, ranks, sites with all figures over all ranks.
  /// Figures that are not finite are null, letters that are not UTF-8 U+FFFD.
  std::string report_json(int ranks, std::string_view settings) const;
  /// Of sites with calls that were compared with MPI's own: error, bytes saved, and the time of the
  /// mean call with and without compression: as it was here, and as it would be at 1, 10, 25, 100 and
  /// 400 Gbit/s per rank with codecs as quick as here.
  std::string prediction(int ranks) const;

 private:
  mutable std::mutex mutex_;
  std::map<call_site, site_stats> sites_;
};

}  // namespace hcomp::drop_in
