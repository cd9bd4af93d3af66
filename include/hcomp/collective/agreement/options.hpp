#pragma once
/// @file
/// Options of a plan and of a call.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/transport/transport.hpp>
#include <optional>

namespace hcomp {

/// Options of a plan; equal on all ranks.
struct plan_options {
  hcomp::algorithm algorithm = {};  ///< default: ring
  nonfinite_policy nonfinite = nonfinite_policy::throw_error;
  /// Compares the arguments of all ranks in every call: log2 P small messages. Sparse codecs always
  /// compare their index.
  bool check = true;
  /// Protects every block with a checksum. All ranks get the same error after a message that was
  /// changed, cut, lengthened, replayed or, with `check`, exchanged for one of another rank.
  bool checksum = false;
  /// With a Narrowable codec, partial sums travel in the fewest bits they need: fewer bytes on the
  /// wire, for about 10 % of the encoding time. If false, codecs that round on every hop (thc with
  /// hop_bits) add exactly.
  bool narrow = true;
  std::size_t segment_bytes = 256 * 1024;  ///< approximate size of message segments
  /// Largest segment for values in device memory, if segment_bytes has its default: a quarter of a
  /// part, or the complete part up to 1 MiB. Work and copies of each segment take tens of
  /// microseconds to launch. Set it to segment_bytes on ranks with devices if other ranks of the
  /// group have values in host memory.
  std::size_t device_segment_bytes = std::size_t{4} << 20;
  /// Vectors of at least this size are decoded while their last parts arrive. Not with checksum,
  /// which promises more; see plan::all_reduce.
  std::size_t decode_on_arrival_bytes = std::size_t{4} << 20;
  tag_t tag = 0;  ///< different for plans used at the same time on one transport
};

/// Options of one call; equal on all ranks, except the weight.
struct call_options {
  std::uint64_t seed = 0;
  /// Selects the random draws; default: the number of earlier calls of this plan.
  std::optional<std::uint64_t> step = {};
  std::uint64_t tensor = 0;  ///< number of the vector, if one step has several
  std::uint32_t weight = 1;  ///< of this rank's values in sum and mean, e.g. its number of samples
  reduce_op op = reduce_op::sum;
  /// For plans that take turns on one vector, such as one plan per memory space: the number of
  /// earlier calls of all of them. Equal on all ranks. Default: the earlier calls of this plan.
  std::optional<std::uint64_t> earlier_calls = {};

  /// @param calls  earlier calls of the plan
  /// @param group  the group of ranks, as draw_key::group
  draw_key key(std::uint64_t calls = 0, std::uint64_t group = 0) const {
    return {seed, step.value_or(calls), tensor, group};
  }
};

}  // namespace hcomp
