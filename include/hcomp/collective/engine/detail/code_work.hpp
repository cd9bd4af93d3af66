#pragma once
/// @file
/// The interfaces between engines and typed work. Engines handle ranks, hops and messages, and use
/// codecs and executors only through these classes.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/op/detail/call_verdict.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <memory>
#include <span>
#include <utility>

namespace hcomp::detail {

/// Memory of an executor, freed with the object.
class any_buffer {
 public:
  any_buffer() = default;
  /// @tparam Buffer  an executor's buffer
  template <class Buffer>
  any_buffer(std::in_place_type_t<Buffer>, std::size_t bytes)
      : any_buffer(std::make_shared<Buffer>(bytes)) {}
  any_buffer(any_buffer&&) = default;
  any_buffer& operator=(any_buffer&&) = default;

  std::byte* data() const { return bytes_; }

 private:
  template <class Buffer>
  explicit any_buffer(std::shared_ptr<Buffer> memory)
      : bytes_(memory->data()), memory_(std::move(memory)) {}

  std::byte* bytes_ = nullptr;
  std::shared_ptr<void> memory_;
};

/// Settings of a block engine.
struct block_engine_settings {
  codec_terms codec;
  encoded_layout layout;
  bool is_narrow = false;            ///< blocks take fewer bytes in messages than in memory
  std::size_t statistics_words = 0;  ///< united over all ranks before encoding
  std::size_t wide_bytes = 0;        ///< of the wide sums of a block; 0: merges round
  memory_space space = memory_space::host;
};

/// Work on the blocks of one encoded vector, for a codec and an executor. Blocks of a range are
/// contiguous, in the executor's memory. Work is enqueued in order. Only `synchronize` and
/// `inspect` wait for it; on devices also `widen`, if the host cannot read the message.
class code_work {
 public:
  virtual ~code_work() = default;

  virtual any_buffer allocate(std::size_t bytes) = 0;
  /// Returns when all work so far is complete and visible to a transport.
  virtual void synchronize() = 0;

  /// acc += in
  /// @param lowest  the lowest rank in `in`; blocks with another one make `acc` damaged
  virtual void merge(block_range blocks, std::byte* acc, std::byte const* in,
                     std::uint32_t lowest) = 0;
  /// The same with a wide_sum, given for the first block. Only for DefersRounding codecs.
  virtual void merge(block_range blocks, std::byte* acc, std::byte const* in, std::uint32_t lowest,
                     wide_sum const& wide) = 0;
  /// to = from
  virtual void copy(block_range blocks, std::byte* to, std::byte const* from) = 0;
  /// Applies the effect of narrow and widen to blocks, checksums included. Returns whether it
  /// changes anything, which requires a HopRounding codec.
  virtual bool round(block_range blocks, std::byte* encoded) = 0;
  /// Writes the blocks as a narrow message; returns its length. Only for Narrowable codecs.
  /// @param out     at least the size of the blocks; must not overlap them
  /// @param weight  of the blocks; on devices, blocks of another weight are marked as damaged
  virtual std::size_t narrow(block_range blocks, std::byte const* from, std::byte* out,
                             std::uint32_t weight) = 0;
  /// The inverse of narrow. If the message does not consist of these blocks, the result is blocks
  /// that cannot be merged. Returns the weight in the header of the first block.
  /// @param in_host  the message in host memory, if it is there as well; or null
  /// @param to       destination of the blocks; must not overlap the message
  /// @param weight   of the blocks; 0: unknown, read from the message
  virtual std::uint32_t widen(block_range blocks, std::span<std::byte const> message,
                              std::byte const* in_host, std::byte* to, std::uint32_t weight) = 0;
  /// Length of the narrow message of blocks of this weight.
  virtual std::size_t narrow_bytes(block_range blocks, std::uint32_t weight) const = 0;
  /// Inspects the headers and sums of reduced blocks.
  /// @param encoded   the complete encoded vector
  /// @param weight    required weight of all blocks; 0 if it is unknown
  /// @param checksum  whether all blocks must have a checksum, or none may
  /// @param op        the operation they will be decoded with
  virtual encoded_findings inspect(block_range blocks, std::byte const* encoded, std::uint64_t key,
                                   std::uint64_t weight, bool checksum, reduce_op op) = 0;
  /// report::dominance of the last measured values. Waits for the executor if the codec
  /// MeasuresDominance.
  virtual double largest_dominance() = 0;
  /// words = max(words, other)
  virtual void unite(std::uint32_t* words, std::uint32_t const* other, std::size_t count) = 0;

  // ---- For stream-ordered transports; only `fetch_verdict` waits

  /// Called once, before the other functions.
  virtual void prepare_verdict() = 0;
  /// Writes the words to the executor's memory, and zeros to the `zeros` words before them.
  virtual void put(agreement_words const& words, std::uint32_t* to, std::size_t zeros) = 0;
  /// Makes blocks unfit for merging.
  virtual void spoil(block_range blocks, std::byte* encoded) = 0;
  /// Like `inspect`; keeps the findings.
  virtual void verify(block_range blocks, std::byte const* encoded, std::uint64_t key,
                      std::uint64_t weight, bool checksum, reduce_op op) = 0;
  /// Writes this rank's trouble to out[0], and 0 to out[1]: no trouble was lost in transfer.
  /// @param agreed             agreement_words of all ranks
  /// @param refuses_nonfinite  NaN, infinity and overflow are trouble
  virtual void note(std::uint32_t const* agreed, bool refuses_nonfinite, std::uint32_t* out) = 0;
  /// out = number, sealed
  virtual void seal(std::uint32_t const* number, sealed_number* out, std::uint64_t call) = 0;
  /// number = max(number, in). If `in` is damaged, *lost = 1 instead, unless `lost` is null.
  virtual void unite(std::uint32_t* number, sealed_number const* in, std::uint64_t call,
                     std::uint32_t* lost) = 0;
  /// Closes the call: if any rank has trouble, this call and later ones write no result.
  /// @param troubles  the largest of all ranks, and whether one was lost
  virtual void judge(std::uint32_t const* troubles, std::uint64_t number, std::uint32_t what) = 0;
  /// Whether a call has failed, as far as the host knows without waiting.
  virtual bool has_failed() const = 0;
  /// Waits for the executor, and returns the verdict.
  virtual call_verdict fetch_verdict() = 0;
  /// Lets calls write results again.
  virtual void reset_verdict() = 0;
};

/// Work between the values of one call and the encoded vector: for one vector, its error feedback
/// and one code_work.
class value_work {
 public:
  /// Writes the statistics of the values. Only for Calibrated codecs.
  /// @param words  for all blocks, in the executor's memory
  virtual void measure(std::uint32_t* words) = 0;
  /// @param encoded  the complete encoded vector
  /// @param origin   its index is set per block; its statistics are those of all blocks
  virtual void encode(block_range blocks, std::byte* encoded, block_origin const& origin) = 0;
  /// @param encoded     the complete encoded vector
  /// @param spread_nan  NaN for all values of a block in which a rank had NaN or infinity
  virtual void decode(block_range blocks, std::byte const* encoded, reduce_op op,
                      bool spread_nan) = 0;

 protected:
  ~value_work() = default;
};

}  // namespace hcomp::detail
