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
/// is done and visible to a transport. `threads()`, where there is one, says that blocks are worked
/// on by one worker each, by so many threads. Without it, either groups have `ticket` and
/// `sum_before` as gpu::block_group, or blocks are done one after the other, from 0 on: codes of
/// variable rate need to know where the block before ends (detail::block_order).
/// Work may have `scratch_bytes()` of memory that the workers of a block share, and say of how many blocks
/// a multiprocessor should be able to work on at once, `blocks_at_once`, and by how many workers on each,
/// `workers`; 0 leaves it to the executor. Of work that WorksByPieces, pieces may be done instead of blocks.
template <class E>
concept Executor = std::constructible_from<typename E::buffer, std::size_t> &&
    requires(E& e, typename E::buffer& memory, std::size_t blocks, detail::any_block_work f) {
  { E::space } -> std::convertible_to<memory_space>;
  { e.for_each_block(blocks, f) } -> std::same_as<void>;
  { e.synchronize() } -> std::same_as<void>;
  { memory.data() } -> std::same_as<std::byte*>;  // in E::space, freed with the buffer
  { memory.size() } -> std::same_as<std::size_t>;
};

/// An executor whose memory the host cannot touch.
///
/// `read` copies to host memory and `write` from it, in the order of the work; both return at once,
/// and the host's bytes belong to the executor until `wait` for their mark returns. Quickest with
/// `staging` memory, which is the host's.
template <class E>
concept DeviceExecutor = Executor<E> && std::constructible_from<typename E::staging, std::size_t> &&
    requires(E& e, typename E::staging& pinned, typename E::mark done, void* to, void const* from,
             std::byte* memory, std::byte const* source, std::size_t bytes) {
  requires E::space == memory_space::device;
  { e.read(to, source, bytes) } -> std::same_as<typename E::mark>;
  { e.write(memory, from, bytes) } -> std::same_as<typename E::mark>;
  { e.wait(done) } -> std::same_as<void>;                // and for all work given before the copy
  { e.space_of(source) } -> std::same_as<memory_space>;  // where a pointer points to
  { pinned.data() } -> std::same_as<std::byte*>;
  { pinned.size() } -> std::same_as<std::size_t>;
};

/// A DeviceExecutor that can copy beside its work.
///
/// `read_beside` is a `read` for which work given afterwards does not wait; so `from` must stay as
/// it is until `wait` for the mark returns. `write_beside` is a `write` that waits for no work but
/// that given before `now` was asked for `free`. `is_done` says whether `wait` would return at once.
template <class E>
concept AsyncCopy = DeviceExecutor<E> &&
    requires(E& e, typename E::mark free, void* to, std::byte const* from, std::byte* there,
             std::size_t bytes) {
  { e.now() } -> std::same_as<typename E::mark>;
  { e.is_done(free) } -> std::same_as<bool>;
  { e.read_beside(to, from, bytes) } -> std::same_as<typename E::mark>;
  { e.write_beside(there, from, bytes, free) } -> std::same_as<typename E::mark>;
};

}  // namespace hcomp
