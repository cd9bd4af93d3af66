#pragma once
/// @file
/// What blocks say about themselves, wherever they are.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/mirror.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/detail/code_check.hpp>
#include <optional>

namespace hcomp::detail {

/// A block as far as the host looks at it.
struct inspected_block {
  block_header header;
  std::uint64_t is_intact;
};

/// Blocks first, first + 1, ... of a code.
struct inspect_blocks {
  code_layout layout;
  std::size_t first;
  std::byte const* code;  ///< of the whole vector
  inspected_block* out;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::byte const* const block = code + layout.offset(first + i);
    bool const intact = detail::is_intact(group, block, layout.bytes({first + i, 1}));
    if (group.worker() == 0) out[i] = {load_aligned<block_header>(block), intact ? 1u : 0u};
  }
};

/// check_code for codes in an executor's memory. On a device the blocks are inspected there, and 40
/// bytes of each come to the host. After construction nothing is allocated.
template <Executor E> class code_inspection {
 public:
  /// @param most_blocks  that are looked at together
  explicit code_inspection(std::size_t most_blocks)
      : blocks_(DeviceExecutor<E> ? most_blocks : 0) {}

  /// @param codec  the wire kind of its blocks
  code_findings operator()(E& executor, std::uint8_t codec, code_layout const& layout,
                           block_range blocks, std::byte const* code, std::uint64_t key,
                           std::uint64_t weight, std::optional<bool> checksum = {}) {
    if constexpr (DeviceExecutor<E>) {
      executor.for_each_block(blocks.count,
                              inspect_blocks{layout, blocks.first, code, blocks_.for_work()});
      blocks_.fetch(executor, blocks.count);
      block_check check(codec, layout, key, weight, checksum);
      for (std::size_t i = 0; i < blocks.count; ++i) {
        auto const& one = blocks_.for_host()[i];
        check.add(blocks.first + i, one.header, [&] { return one.is_intact != 0; });
      }
      return check.found();
    } else {
      return check_code(codec, layout, blocks, code, key, weight, checksum);
    }
  }

 private:
  mirror<inspected_block, E> blocks_;
};

}  // namespace hcomp::detail
