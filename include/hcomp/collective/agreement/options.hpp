#pragma once
/// @file
/// What a caller can choose: once per plan, and anew with every call.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/transport/transport.hpp>
#include <optional>

namespace hcomp {

/// Settings of a plan; equal on all ranks.
struct plan_options {
  hcomp::algorithm algorithm = {};  ///< ring unless said otherwise
  nonfinite_policy nonfinite = nonfinite_policy::throw_error;
  bool check = true;  ///< compare the arguments of all ranks in every call: log2 P small messages
  /// Protect every block on its way: no message that was changed, cut, lengthened or replayed goes
  /// unnoticed, and all ranks get the same error.
  bool checksum = false;
  /// Sums travel in as few bits as they need, where the codec is Narrowable: less to send, and for
  /// a tenth of what encoding takes more to do. Without, codecs that round sums on their way (thc
  /// with hop_bits) add exactly.
  bool narrow = true;
  std::size_t segment_bytes = 256 * 1024;  ///< parts travel in pieces of about this size
  /// Where values are in a device's memory, and segment_bytes is left as it is, pieces are up to so
  /// large: a quarter of a part, or all of it up to 1 MiB. For each one a device is given work and
  /// copies, which takes tens of microseconds. Ranks on devices that sum with others on hosts set
  /// it to segment_bytes.
  std::size_t device_segment_bytes = std::size_t{4} << 20;
  /// An x of so many bytes is decoded while its last parts arrive. Not with checksums, which
  /// promise more; see plan::all_reduce.
  std::size_t decode_on_arrival_bytes = std::size_t{4} << 20;
  tag_t tag = 0;  ///< different for plans that are used at the same time on one transport
};

/// Settings of one call; equal on all ranks, but for the weight.
struct call_options {
  std::uint64_t seed = 0;
  /// Fresh random draws every step; left out, the number of calls of this plan before this one.
  std::optional<std::uint64_t> step = {};
  std::uint64_t tensor = 0;  ///< which vector, where several are summed in one step
  std::uint32_t weight = 1;  ///< of this rank's values in sum and mean, e.g. its number of samples
  reduce_op op = reduce_op::sum;

  /// @param calls  of the plan before this one
  /// @param group  which ranks sum, as draw_key::group
  draw_key key(std::uint64_t calls = 0, std::uint64_t group = 0) const {
    return {seed, step.value_or(calls), tensor, group};
  }
};

}  // namespace hcomp
