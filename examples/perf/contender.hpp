#pragma once
/// @file
/// What is timed: one way to sum a vector over all ranks.

#include <cstddef>
#include <functional>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <optional>
#include <span>
#include <string>

namespace perf {

/// How far the result may be from the exact sum, relative to the sum of the magnitudes; and whether
/// it must have the sign that all ranks' values have where they agree.
struct promise {
  std::optional<double> relative_error;
  bool keeps_unanimous_signs = false;
  /// How far a value of the sum or mean may be from the exact one; empty: not stated.
  std::function<double(hcomp::summed_value const&)> largest_error = {};
};

/// How a contender is called in tables and files.
struct strategy {
  std::string codec;      ///< "raw" is the vector as it is
  std::string algorithm;  ///< "MPI" and "MPI:<its name>" are the MPI library's own
  std::string transport;  ///< "mpi", "ucx", or "op": the MPI library with hcomp's MPI_Op

  friend bool operator==(strategy const&, strategy const&) = default;
  bool is_reference() const { return codec == "raw" && algorithm == "MPI"; }
};

/// One way to sum vectors of one size, with everything it needs for that.
template <class T> class contender {
 public:
  virtual ~contender() = default;
  /// Sums `x` in place. Collective.
  virtual hcomp::report run(std::span<T> x, hcomp::call_options const& call) = 0;
  /// Ways that work on vectors in other memory take their input before `run` and give the sum back
  /// after it. Not timed.
  virtual void bring(std::span<T const>) {}
  virtual void fetch(std::span<T>) {}

  strategy name;
  promise accuracy;
  /// Bytes that at least have to leave a rank.
  double bytes_to_send = 0;
  /// What the cost model expects, if there is one.
  std::optional<double> predicted_seconds;
  /// What leaves and comes in messages: "host" memory, a "device"'s, or a device's that is
  /// "host_staged", copied to pinned host memory and from it.
  std::string memory = "host";
  /// Worth a line of its own.
  std::string remark;
};

}  // namespace perf
