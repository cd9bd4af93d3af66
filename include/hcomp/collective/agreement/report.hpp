#pragma once
/// @file
/// What a collective tells about itself.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace hcomp {

/// What messages are made of: host memory, a device's memory that the transport reaches, or one
/// that is copied to host memory and from it, by `host_staged`.
enum class message_memory { host, device, host_staged };

/// One call on one rank.
struct report {
  std::uint64_t bytes_sent = 0;  ///< by this rank, counted by its transport; headers included
  message_memory messages = message_memory::host;
  int hops = 0;              ///< steps in which this rank sent something
  std::uint64_t weight = 0;  ///< summed in the result; the number of ranks if all weights are 1
  /// How far any value of the result is off at most, on any rank, if the codec says (a
  /// BoundedVariableRate), roundings to float included. More than the bound where that cannot be
  /// kept.
  double error = 0;
  /// Whether few values decide the unit in which others beside them are rounded: of the values with
  /// one unit every 16th share a sum of squares, and this is the largest share that one of the 16
  /// sums has, of all units, of this rank's values and feedback. 1/16 where values are alike; near
  /// 1 where one value makes all others noise. 0 with codecs whose unit does not follow the values.
  double dominance = 0;
  double bound = 0;  ///< that was asked for, of the sum or the mean; 0: none
  double seconds_encode = 0;
  double seconds_communicate = 0;  ///< waiting for messages
  /// Of these, until all ranks had called and their arguments were compared; 0 without
  /// plan_options::check.
  double seconds_agree = 0;
  double seconds_merge = 0;
  double seconds_decode = 0;
  /// What the plan's call before this one took after its seconds_agree, on the rank where it took
  /// longest: the same on all ranks, for nothing. 0 where there was none or it failed, in
  /// hierarchical sums, in sums that were made again after a loss, and without plan_options::check.
  double seconds_of_last = 0;

  /// The bound could not be kept, or not be shown to be: values are further off by up to `error`.
  bool is_beyond_bound() const { return bound > 0 && error > bound; }
  double seconds() const {
    return seconds_encode + seconds_communicate + seconds_merge + seconds_decode;
  }
  report& operator+=(report const& other) {
    bytes_sent += other.bytes_sent;
    messages = other.messages;
    hops += other.hops;
    weight = other.weight;
    error = std::max(error, other.error);
    dominance = std::max(dominance, other.dominance);
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

/// Adds the time since the last call to one of a report's figures.
class stopwatch {
 public:
  /// The time since the last call counts for nobody: somebody else has taken it.
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
