#pragma once
/// @file
/// The report of a collective.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hcomp {

/// Where messages are: in host memory, in device memory that the transport reaches, or in device
/// memory and staged through host memory by `host_staged`. shared: there are no messages; the
/// values are in memory that the ranks of one node share.
enum class message_memory { host, device, host_staged, shared };

/// report::error of a codec that states no error.
inline constexpr double unknown_error = std::numeric_limits<double>::quiet_NaN();

/// Report of one call on one rank.
struct report {
  std::uint64_t bytes_sent = 0;  ///< by this rank, counted by its transport; headers included
  message_memory messages = message_memory::host;
  int hops = 0;              ///< steps in which this rank sent data
  std::uint64_t weight = 0;  ///< total weight of the result; number of ranks if all weights are 1
  /// Largest possible error of any value of the result on any rank, rounding to float included, if
  /// the codec states it (a BoundedVariableRate). Exceeds the bound where the bound cannot be kept.
  /// 0: the codec is lossless, the result that of an uncompressed all-reduce. NaN (unknown_error):
  /// the codec states none.
  double error = 0;
  /// Whether few values determine the unit in which their neighbours are rounded. The values with a
  /// common unit form 16 interleaved groups. This is the largest share of one group in the sum of
  /// squares, over all units of this rank's values with error feedback. 1/16 for similar values,
  /// near 1 where one value reduces its neighbours to noise. 0 for codecs whose unit does not
  /// depend on the values.
  double dominance = 0;
  /// Energy of this rank's residual after the call, relative to its values before the call, by a
  /// sample of 4096. A share that grows from call to call shows that error feedback diverges. 0
  /// without error feedback, and in a device's memory.
  double residual = 0;
  double bound = 0;  ///< the requested bound, of the sum or the mean; 0: none
  double seconds_encode = 0;
  double seconds_communicate = 0;  ///< waiting for messages
  /// Part of seconds_communicate: until all ranks had called and their arguments were compared. 0
  /// without plan_options::check.
  double seconds_agree = 0;
  double seconds_merge = 0;
  double seconds_decode = 0;
  /// Time of this plan's previous call after its seconds_agree, on the slowest rank. Equal on all
  /// ranks; needs no message of its own. 0 without a previous call, after a failed one, for
  /// hierarchical all-reduces, in shared memory, for calls repeated after a rank failed, and
  /// without plan_options::check.
  double seconds_of_last = 0;

  /// The bound could not be kept, or the plan could not prove it: errors are up to `error`.
  bool is_beyond_bound() const { return bound > 0 && error > bound; }
  double seconds() const {
    return seconds_encode + seconds_communicate + seconds_merge + seconds_decode;
  }
  report& operator+=(report const& other) {
    bytes_sent += other.bytes_sent;
    messages = other.messages;
    hops += other.hops;
    weight = other.weight;
    error = std::isnan(error) || other.error < error ? error : other.error;
    dominance = std::max(dominance, other.dominance);
    residual = std::max(residual, other.residual);
    bound = other.bound;
    seconds_encode += other.seconds_encode;
    seconds_communicate += other.seconds_communicate;
    seconds_agree += other.seconds_agree;
    seconds_merge += other.seconds_merge;
    seconds_decode += other.seconds_decode;
    seconds_of_last += other.seconds_of_last;
    return *this;
  }
};

namespace detail {

/// Adds the time since its last use to one of a report's times.
class stopwatch {
 public:
  /// Does not count the time since the last use: it is counted elsewhere.
  void skip() { last_ = clock::now(); }
  void add_to(double& seconds) {
    auto const now = clock::now();
    seconds += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point last_ = clock::now();
};

}  // namespace detail
}  // namespace hcomp
