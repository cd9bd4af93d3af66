#pragma once
/// @file
/// The arithmetic of a sum as an engine sees it. Typed code ends here: what thinks about ranks,
/// hops and messages knows codecs and executors by these classes alone.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <memory>
#include <span>
#include <utility>

namespace hcomp::detail {

/// Memory of some executor, freed with the object.
class any_buffer {
 public:
  any_buffer() = default;
  /// @tparam Buffer  of an executor
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

/// What an engine of blocks is made for.
struct block_engine_settings {
  codec_terms codec;
  encoded_layout layout;
  bool is_narrow = false;            ///< blocks travel in fewer bytes than they have in memory
  std::size_t statistics_words = 0;  ///< that ranks agree on before they encode
  memory_space space = memory_space::host;
};

/// Work on the blocks of one code, of one codec and executor. Blocks of a range lie one behind the
/// other; their bytes are in the executor's memory. Work is given to the executor in order; only
/// `synchronize` and `inspect` wait for it, and on devices `widen` of what the host cannot read.
class code_work {
 public:
  virtual ~code_work() = default;

  virtual any_buffer allocate(std::size_t bytes) = 0;
  /// Returns when all work so far is done and visible to a transport.
  virtual void synchronize() = 0;

  /// acc += in
  virtual void merge(block_range blocks, std::byte* acc, std::byte const* in) = 0;
  /// to = from
  virtual void copy(block_range blocks, std::byte* to, std::byte const* from) = 0;
  /// Makes blocks what narrow and widen would make of them, checksums included. Returns whether
  /// there is anything to do: the codec HopRounding.
  virtual bool round(block_range blocks, std::byte* code) = 0;
  /// Writes the blocks as a message in which they take fewer bytes; returns its length. Only of
  /// codecs that are Narrowable.
  /// @param out     as many bytes as the blocks have, apart from them
  /// @param weight  of the blocks; on devices, those of another leave as damaged
  virtual std::size_t narrow(block_range blocks, std::byte const* from, std::byte* out,
                             std::uint32_t weight) = 0;
  /// And back. Of a message that is not made of these blocks it makes blocks that nothing can be
  /// merged with. Returns the weight that the first block says it has.
  /// @param in_host  the message where the host can read it, if that is another place; or null
  /// @param to       where the blocks go, apart from the message
  virtual std::uint32_t widen(block_range blocks, std::span<std::byte const> message,
                              std::byte const* in_host, std::byte* to) = 0;
  /// What finished blocks say about themselves.
  /// @param code    of the whole vector
  /// @param weight    that all blocks must have; 0 if it is not known
  /// @param checksum  that all blocks must have one, or must not
  /// @param result    that they will be decoded to
  virtual code_findings inspect(block_range blocks, std::byte const* code, std::uint64_t key,
                                std::uint64_t weight, bool checksum, reduce_op result) = 0;
  /// words = max(words, other)
  virtual void unite(std::uint32_t* words, std::uint32_t const* other, std::size_t count) = 0;
};

/// Work between the values of one call and a code: of one vector, its feedback and one code_work.
class value_work {
 public:
  /// Writes what the values say about the units to encode in. Only of codecs that are Calibrated.
  /// Returns report::dominance; if the codec MeasuresDominance it waits for the executor.
  /// @param words  of all blocks, in the executor's memory
  virtual double measure(std::uint32_t* words) = 0;
  /// @param code    of the whole vector
  /// @param origin  its index is set per block; its statistics are those of all blocks
  virtual void encode(block_range blocks, std::byte* code, block_origin const& origin) = 0;
  /// @param code        of the whole vector
  /// @param spread_nan  NaN for all values of a block in which some rank had NaN or infinity
  virtual void decode(block_range blocks, std::byte const* code, reduce_op result,
                      bool spread_nan) = 0;

 protected:
  ~value_work() = default;
};

}  // namespace hcomp::detail
