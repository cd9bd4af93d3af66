#pragma once
/// @file
/// Who runs a block functor over many blocks.

#include <concepts>
#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp {
namespace detail {

struct any_block_work {
  template <class Group> void operator()(Group, std::size_t) const {}
};

}  // namespace detail

/// Runs block functors in one memory space: on CPU threads, or on a CUDA stream.
///
/// `for_each_block(blocks, f)` calls f(group, i) once for every i < blocks, in any order and at the
/// same time. Work of one executor happens in the order it was given; `synchronize` returns when it
/// is done and visible to a transport.
template <class E>
concept Executor = std::constructible_from<typename E::buffer, std::size_t> &&
    requires(E& e, typename E::buffer& memory, std::size_t blocks, detail::any_block_work f) {
  { E::space } -> std::convertible_to<memory_space>;
  { e.for_each_block(blocks, f) } -> std::same_as<void>;
  { e.synchronize() } -> std::same_as<void>;
  { memory.data() } -> std::same_as<std::byte*>;  // in E::space, freed with the buffer
  { memory.size() } -> std::same_as<std::size_t>;
};

}  // namespace hcomp
