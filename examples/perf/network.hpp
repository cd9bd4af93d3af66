#pragma once
/// @file
/// Results put together: what was measured on one network, and what all else is compared with
/// there.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "result.hpp"

namespace perf {

/// One way on one network, size by size.
struct curve {
  std::string codec, algorithm;
  /// By bytes of the raw vector. Where several transports or MPI libraries were measured, the row
  /// with the smallest median time.
  std::map<std::uint64_t, row const*> rows;

  bool is_own() const { return codec == "raw"; }
  std::string name() const;
};

/// The results of one network, by one or more MPI libraries, all of one type of values and input.
class network {
 public:
  /// @param run  has rows; must outlive this
  explicit network(result const& run) : runs_{&run} {}

  /// Whether a result is of this network, too: ranks, hosts, rate, type, input and label are the
  /// same; measured rates may differ by a tenth. Without a label latencies count as well; they may
  /// differ by half.
  bool has(result const& run) const;
  void add(result const& run) { runs_.push_back(&run); }

  std::vector<result const*> const& runs() const { return runs_; }
  result const& first() const { return *runs_.front(); }
  std::string type() const { return type_of(first()); }
  std::string name() const;
  /// The MPI libraries, each once.
  std::vector<std::string> libraries() const;
  /// All sizes, ascending.
  std::vector<std::uint64_t> sizes() const;

  /// The MPI library's own all-reduce of the raw vector with the smallest median time; null: none
  /// was measured at this size.
  row const* reference(std::uint64_t bytes) const;
  /// Seconds of reference(), over those of a row of this network.
  std::optional<double> speed_up(row const& one) const;

  /// The own all-reduce of one library, in its own choice of algorithm.
  curve own(std::string const& library) const;
  /// Every other codec and algorithm.
  std::vector<curve> curves() const;
  /// What a speed-up must be to count as one: less is noise.
  static constexpr double clear_speed_up = 1.05;
  /// The smallest size from which on a way has a clear speed-up at every measured size.
  std::optional<std::uint64_t> pays_from(curve const& one) const;

 private:
  static std::string type_of(result const& run) {
    return run.rows.empty() ? std::string() : run.rows.front().type;
  }
  std::vector<result const*> runs_;
};

/// In the order of rates; those of unknown rate last. Results without rows are left out.
/// @param all  must outlive what is returned
std::vector<network> networks_of(std::vector<result> const& all);

/// Networks that differ in nothing but their rate (and name), in its order, and a size at which all
/// of them were measured: the largest.
struct rate_series {
  std::vector<network const*> networks;  ///< at least two
  std::uint64_t bytes = 0;
};
std::vector<rate_series> rate_series_of(std::vector<network> const& networks);

}  // namespace perf
