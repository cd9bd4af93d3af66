#pragma once
/// @file
/// One all-reduce implementation to be timed.

#include <cstddef>
#include <functional>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <optional>
#include <span>
#include <string>

namespace perf {

/// The accuracy that a codec guarantees.
struct promise {
  /// Largest error of the result, relative to the sum of the magnitudes; Euclidean norms.
  std::optional<double> relative_error;
  /// Where the values of all ranks have the same sign, the result has this sign.
  bool keeps_unanimous_signs = false;
  /// Largest error of one value of the sum or mean; empty: not stated.
  std::function<double(hcomp::summed_value const&)> largest_error = {};
};

/// Names of a contender in tables and files.
struct strategy {
  std::string codec;      ///< "raw": the uncompressed vector
  std::string algorithm;  ///< "MPI", "MPI:<name>": algorithms of the MPI library
  std::string transport;  ///< "mpi", "ucx", or "op": the MPI library with hcomp's MPI_Op

  friend bool operator==(strategy const&, strategy const&) = default;
  bool is_reference() const { return codec == "raw" && algorithm == "MPI"; }
};

/// An all-reduce of vectors of one size, with its buffers.
template <class T> class contender {
 public:
  virtual ~contender() = default;
  /// All-reduces `x` in place. Collective.
  virtual hcomp::report run(std::span<T> x, hcomp::call_options const& call) = 0;
  /// Copy the input to device memory before `run`, and the result back after it. Not timed. A
  /// contender in host memory copies nothing.
  virtual void bring(std::span<T const>) {}
  virtual void fetch(std::span<T>) {}
  /// Sets `memory` for a plan in host memory.
  void note_memory(hcomp::report const& stats) {
    memory = stats.messages == hcomp::message_memory::shared ? "shared" : "host";
  }

  strategy name;
  promise accuracy;
  /// Lower bound of the bytes that a rank sends.
  double bytes_to_send = 0;
  /// Prediction of the cost model, if it has one.
  std::optional<double> predicted_seconds;
  /// Memory of messages: "host", "device", "host_staged" (device memory, copied through pinned host
  /// memory), or "shared" (memory that the ranks of a node share, without messages). Known after
  /// the first run.
  std::string memory = "host";
  /// Printed in a line of its own; empty: none.
  std::string remark;
};

}  // namespace perf
