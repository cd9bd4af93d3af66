#pragma once
/// @file
/// The arithmetic of a sum with a codec of variable rate as an engine sees it: what code_work and
/// value_work are for blocks.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>

namespace hcomp::detail {

/// What a variable_rate_engine is made for.
struct variable_rate_engine_settings {
  codec_terms codec;
  encoded_layout layout;      ///< of blocks as short as chunks can be
  bool merges_codes = false;  ///< codes are added as they are
  bool fits_calls = false;    ///< every call fits the codec to the values of all ranks
  message_memory messages = message_memory::host;
};

/// Who has made a code that is read: this rank, so that it is sound, or one that is not known.
enum class code_of { this_rank, another };

/// Work on codes of variable rate, of one codec and executor. Codes are in memory of `allocate`,
/// which is the host's: their lengths and headers are read there. Functions that read a code throw
/// wire_error, and change nothing, if it is not sound.
///
/// Functions that write a code begin it; up to `most_under_way` are written at once. What they read
/// stays as it is, and `out` is the work's, until `end` has been called for the code. They may
/// leave it to `end` to throw. With `seeks_nonfinite`, `end` notes which runs of 64 values of the
/// code have NaN or infinity.
/// `plain`: the code is the values as they are, uncompressed.
class variable_rate_work {
 public:
  virtual ~variable_rate_work() = default;

  virtual any_buffer allocate(std::size_t bytes) = 0;
  /// Most bytes of the code of so many values, plain or not.
  virtual std::size_t capacity(std::size_t values) const = 0;
  /// Called once, before all other work.
  /// @param longest  values of one code
  /// @param sums     values that are added up as such: of the vector, or 0
  /// @param merges   `merge` will be called
  virtual void reserve(std::size_t longest, std::size_t sums, bool merges) = 0;
  /// Called when the codes of the last call are needed no more, or those of this call's first try.
  virtual void start() = 0;
  /// Sums with BoundedVariableRate::fine() from here to the next `start`; returns its wire kind.
  virtual std::uint8_t refine() = 0;
  /// Of a BoundedVariableRate, of sums, fitted if it was; otherwise 0.
  virtual double bound() const = 0;
  /// Makes the codec suit the largest of all ranks' measures; see FittedVariableRate. Returns
  /// whether the finer codec is needed.
  virtual bool fit(std::uint32_t largest, int ranks) = 0;

  /// 1 where a code is written when it is begun.
  virtual std::size_t most_under_way() const = 0;
  /// The length of the code that is under way for longest, which is written now. Waits for it.
  /// @param first_block  the number of its first run
  /// @throws wire_error  there is none: what it was to be made of was not sound, or has no sum
  virtual std::size_t end(std::size_t first_block, code_findings& found) = 0;

  /// The sum of two codes of as many values; `out` may be one of them. Only of codecs that are
  /// MergingVariableRate.
  /// @param a  of this rank
  /// @param b  of another
  virtual void merge(std::span<std::byte const> a, std::span<std::byte const> b, std::size_t values,
                     bool seeks_nonfinite, std::span<std::byte> out) = 0;
  virtual void check(std::span<std::byte const> in, std::size_t values, bool plain) = 0;
  /// False if `decode` may have left out, since `start`, codes that were not sound. Waits for it.
  virtual bool decoded_all() = 0;
  /// Notes how far off the values of a code are at most, and whether they need the finer codec, if
  /// the codec says so.
  /// @param parts  that the values will be divided by; 0: they will not
  virtual void find_error(std::span<std::byte const> in, int parts, code_findings& found) const = 0;
  /// Notes which runs of 64 values of a plain code have NaN or infinity.
  /// @param first_block  the number of the first run
  virtual void find_nonfinite(std::span<std::byte const> in, std::size_t values,
                              std::size_t first_block, code_findings& found) const = 0;
};

/// Work between the vector x of one call, of which one variable_rate_work makes codes, sums that
/// are added up as values, and codes. Values are in the executor's memory.
class variable_rate_values {
 public:
  /// A few of the values, of which x has so many, are such as BoundedVariableRate::needs_fine tells
  /// of. On devices, whose values the host cannot look at, false.
  virtual bool seem_to_need_fallback() const = 0;
  /// What FittedVariableRate codecs measure, of all of x.
  virtual std::uint32_t measure() = 0;
  /// Begins a code.
  /// @param of_sums  the code is of the sums; otherwise of x
  virtual void encode(value_range part, bool of_sums, bool seeks_nonfinite,
                      std::span<std::byte> out) = 0;
  /// Begins out = x and what `in` holds, encoded; or with the sums for x.
  /// @param in  of another rank
  virtual void add_and_encode(value_range part, bool of_sums, std::span<std::byte const> in,
                              bool seeks_nonfinite, std::span<std::byte> out) = 0;
  /// A plain code, which is not under way any more. Returns its length.
  virtual std::size_t copy(value_range part, bool of_sums, std::span<std::byte> out) = 0;
  /// sums = x and what `in` holds; or with the sums for x.
  /// @param in  of another rank
  virtual void add_to_sums(value_range part, bool of_sums, std::span<std::byte const> in) = 0;
  /// sums = what `in` holds
  /// @param in  of this rank
  virtual void decode_to_sums(value_range part, std::span<std::byte const> in) = 0;
  /// x = what `in` holds. If that is not sound it may be left to `decoded_all` to say so.
  /// @param whose  another's is of this rank, too, if it was checked
  /// @param parts  that the values are divided by; 0: they are not
  virtual void decode(value_range part, std::span<std::byte const> in, bool plain, code_of whose,
                      int parts) = 0;

 protected:
  ~variable_rate_values() = default;
};

}  // namespace hcomp::detail
