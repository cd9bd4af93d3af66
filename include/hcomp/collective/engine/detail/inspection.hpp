#pragma once
/// @file
/// Inspection of blocks, in host or device memory.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <optional>
#include <type_traits>

namespace hcomp::detail {

/// Findings of one block, for the host.
struct inspected_block {
  block_header header;
  std::uint32_t is_intact, may_overflow;
};

/// For codecs that are not MayOverflow.
struct never_overflows {
  HCOMP_HD bool operator()(std::byte const*, int) const { return false; }
};

/// Inspects blocks first, first + 1, ... of an encoded vector.
/// @tparam Bound  may_overflow of the codec, or never_overflows
template <class Bound> struct inspect_blocks {
  encoded_layout layout;
  std::size_t first;
  std::byte const* encoded;  ///< the complete encoded vector
  inspected_block* out;
  Bound may_overflow;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::byte const* const block = encoded + layout.offset(first + i);
    auto const header = load_header(block);
    bool const intact = detail::is_intact(group, header, block, layout.bytes({first + i, 1}));
    if (group.worker() == 0)
      out[i] = {header, intact ? 1u : 0u,
                may_overflow(block, layout.values_in(first + i)) ? 1u : 0u};
  }
};

/// out[i] = 1 if block first + i decodes to infinity, otherwise 0.
template <MayOverflow C> struct find_overflows {
  static constexpr int workers = detail::workers_of<C>();

  C codec;
  encoded_layout layout;
  std::size_t first;
  std::byte const* encoded;  ///< the complete encoded vector
  reduce_op op;
  std::uint32_t* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    bool const finite = codec.stays_finite(group, encoded + layout.offset(first + i),
                                           layout.values_in(first + i), op);
    if (group.worker() == 0) out[i] = finite ? 0 : 1;
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return codec.scratch_bytes(); }
};

/// check_encoded and check_sums in an executor's memory. A device inspects its blocks, and the host
/// reads 40 bytes per block. After the first use nothing is allocated, unless values come near the
/// largest of their type.
template <Executor E> class inspection {
 public:
  /// @param most_blocks  largest range that is inspected at once
  explicit inspection(std::size_t most_blocks) : most_blocks_(most_blocks) {}

  template <Compressor C>
  encoded_findings operator()(E& executor, C const& codec, encoded_layout const& layout,
                              block_range blocks, std::byte const* encoded, std::uint64_t key,
                              std::uint64_t weight, reduce_op op,
                              std::optional<bool> checksum = {}) {
    if constexpr (DeviceExecutor<E>) {
      if (!blocks_) blocks_.emplace(most_blocks_);
      auto const bound = bound_of(codec, op);
      executor.for_each_block(blocks.count,
                              inspect_blocks<std::remove_const_t<decltype(bound)>>{
                                  layout, blocks.first, encoded, blocks_->for_work(), bound});
      blocks_->fetch(executor, blocks.count);
      block_check check(C::codec_id, layout, key, weight, checksum);
      bool may_overflow = false;
      for (std::size_t i = 0; i < blocks.count; ++i) {
        auto const& one = blocks_->for_host()[i];
        check.add(blocks.first + i, one.header, [&] { return one.is_intact != 0; });
        may_overflow |= one.may_overflow != 0;
      }
      auto found = check.found();
      if (may_overflow && found.is_sound())
        found.overflow = first_overflow(executor, codec, layout, blocks, encoded, op);
      return found;
    } else {
      return check_sums(codec, layout, blocks, encoded, op,
                        check_encoded(C::codec_id, layout, blocks, encoded, key, weight, checksum));
    }
  }

 private:
  template <class C>
  static auto bound_of([[maybe_unused]] C const& codec, [[maybe_unused]] reduce_op op) {
    if constexpr (MayOverflow<C>)
      return may_overflow<C>{codec, op};
    else
      return never_overflows{};
  }
  template <class C>
  static std::uint64_t first_overflow([[maybe_unused]] E& executor, [[maybe_unused]] C const& codec,
                                      [[maybe_unused]] encoded_layout const& layout,
                                      [[maybe_unused]] block_range blocks,
                                      [[maybe_unused]] std::byte const* encoded,
                                      [[maybe_unused]] reduce_op op) {
    if constexpr (MayOverflow<C>) {
      mirror<std::uint32_t, E> found(blocks.count);
      executor.for_each_block(blocks.count, find_overflows<C>{codec, layout, blocks.first, encoded,
                                                              op, found.for_work()});
      found.fetch(executor, blocks.count);
      for (std::size_t i = 0; i < blocks.count; ++i)
        if (found.for_host()[i] != 0) return blocks.first + i;
    }
    return encoded_findings::nowhere;
  }

  std::size_t most_blocks_;
  std::optional<mirror<inspected_block, E>> blocks_;
};

}  // namespace hcomp::detail
