#pragma once
/// @file
/// The interfaces of variable-rate codecs for engines, like code_work and value_work for blocks.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>

namespace hcomp::detail {

/// Settings of a variable_rate_engine.
struct variable_rate_engine_settings {
  codec_terms codec;
  encoded_layout layout;        ///< blocks of the shortest possible chunks
  bool merges_encoded = false;  ///< encoded vectors are added without decoding
  bool fits_calls = false;      ///< every call fits the codec to the values of all ranks
  std::size_t max_values = 0;   ///< of an encoded vector: longer segments are cut
  message_memory messages = message_memory::host;
};

/// Origin of an encoded segment: this rank, so that it is valid, or an unknown rank.
enum class encoded_by { this_rank, another };

/// Work on variable-rate segments, for a codec and an executor. Segments are in memory of
/// `allocate`, which is host memory: the host reads their lengths and headers. Functions that read
/// an invalid segment throw wire_error and change nothing.
///
/// Functions that write a segment start its encoding; at most `most_under_way` are in progress.
/// Until `end` was called for the segment, their inputs must not change and `out` must not be used.
/// They may defer errors to `end`. With `seeks_nonfinite`, `end` records the runs of 64 values with
/// NaN or infinity.
///
/// `plain`: the segment is uncompressed values.
class variable_rate_work {
 public:
  virtual ~variable_rate_work() = default;

  virtual any_buffer allocate(std::size_t bytes) = 0;
  /// Largest size of `values` values, encoded or plain.
  virtual std::size_t capacity(std::size_t values) const = 0;
  /// Called once, before all other work.
  /// @param longest  values of one segment
  /// @param sums     values that are added without encoding: those of the vector, or 0
  /// @param merges   `merge` will be called
  virtual void reserve(std::size_t longest, std::size_t sums, bool merges) = 0;
  /// Called when the segments of the last call, or of this call's first attempt, are no longer
  /// used.
  virtual void start() = 0;
  /// Uses BoundedVariableRate::fallback(mean) until the next `start`; returns its codec_id.
  virtual std::uint8_t refine(bool mean) = 0;
  /// The bound of a BoundedVariableRate for the sum, after fitting; otherwise 0.
  virtual double bound() const = 0;
  /// Fits the codec to the largest of all ranks' measures; see FittedVariableRate. Returns whether
  /// the fallback is needed.
  virtual bool fit(std::uint32_t largest, int ranks) = 0;

  /// 1 if functions that write a segment complete it.
  virtual std::size_t most_under_way() const = 0;
  /// Completes the oldest segment in progress and returns its length. Waits for it.
  /// @param first_block  the number of its first run
  /// @throws wire_error  it cannot be encoded: an input was invalid, or the sum does not exist
  virtual std::size_t end(std::size_t first_block, encoded_findings& found) = 0;

  /// The sum of two segments of equal size; `out` may be one of them. Only for MergingVariableRate
  /// codecs.
  /// @param a  of this rank
  /// @param b  of another rank
  virtual void merge(std::span<std::byte const> a, std::span<std::byte const> b, std::size_t values,
                     bool seeks_nonfinite, std::span<std::byte> out) = 0;
  virtual void check(std::span<std::byte const> in, std::size_t values, bool plain) = 0;
  /// False if `decode` may have skipped invalid segments since `start`. Waits for it.
  virtual bool decoded_all() = 0;
  /// Records the largest error of a segment's values, and whether they need the fallback, if the
  /// codec states it.
  /// @param parts  divisor of the values; 0: none
  virtual void find_error(std::span<std::byte const> in, int parts,
                          encoded_findings& found) const = 0;
  /// Records the runs of 64 values of a plain segment with NaN or infinity.
  /// @param first_block  the number of the first run
  virtual void find_nonfinite(std::span<std::byte const> in, std::size_t values,
                              std::size_t first_block, encoded_findings& found) const = 0;
};

/// Work between the vector x of one call, its partial sums as values, and encoded segments of one
/// variable_rate_work. Values are in the executor's memory.
class variable_rate_values {
 public:
  /// Whether any of a few values of x needs the fallback, see BoundedVariableRate::needs_fallback.
  /// False on devices, whose values the host cannot read.
  virtual bool seem_to_need_fallback() const = 0;
  /// The measure of FittedVariableRate codecs, for all of x.
  virtual std::uint32_t measure() = 0;
  /// Starts the encoding of a segment.
  /// @param of_sums  from the partial sums; otherwise from x
  virtual void encode(value_range part, bool of_sums, bool seeks_nonfinite,
                      std::span<std::byte> out) = 0;
  /// Starts the encoding of x, or the partial sums, plus the values of `in`.
  /// @param in  of another rank
  virtual void add_and_encode(value_range part, bool of_sums, std::span<std::byte const> in,
                              bool seeks_nonfinite, std::span<std::byte> out) = 0;
  /// Writes a plain segment and completes it. Returns its length.
  virtual std::size_t copy(value_range part, bool of_sums, std::span<std::byte> out) = 0;
  /// partial sums = x, or the partial sums, plus the values of `in`
  /// @param in  of another rank
  virtual void add_to_sums(value_range part, bool of_sums, std::span<std::byte const> in) = 0;
  /// partial sums = values of `in`
  /// @param in     of this rank
  /// @param parts  divisor of the values; 0: none
  virtual void decode_to_sums(value_range part, std::span<std::byte const> in, int parts) = 0;
  /// x = values of `in`. If `in` is invalid, the error may be left to `decoded_all`.
  /// @param whose  a checked segment of another rank counts as this rank's
  /// @param parts  divisor of the values; 0: none
  virtual void decode(value_range part, std::span<std::byte const> in, bool plain, encoded_by whose,
                      int parts) = 0;

 protected:
  ~variable_rate_values() = default;
};

}  // namespace hcomp::detail
