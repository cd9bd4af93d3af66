#pragma once
/// @file
/// Executors: run a block functor over many blocks.

#include <concepts>
#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>

namespace hcomp {
namespace detail {

struct any_block_work {
  template <class Group> HCOMP_HD void operator()(Group, std::size_t) const {}
};

}  // namespace detail

/// Runs block functors in one memory space: on CPU threads, or on a CUDA stream.
///
/// `for_each_block(blocks, f)` calls f(group, i) once for every i < blocks, concurrently and in any
/// order. Work of one executor runs in submission order. `synchronize` returns when it is complete
/// and visible to a transport.
///
/// `threads()` is optional: each block then has one worker, and `threads()` threads share the
/// blocks. Without it, either groups have `ticket` and `sum_before` as gpu::block_group, or blocks
/// run one after the other from 0 on: codecs of variable rate must know where the block before ends
/// (detail::block_order).
///
/// Work may declare `scratch_bytes()` of memory shared by the workers of a block, `blocks_at_once`,
/// the number of concurrent blocks per multiprocessor, and `workers`, the number of workers per
/// block; 0 leaves the choice to the executor. Work that WorksByPieces may run by pieces instead of
/// blocks.
template <class E>
concept Executor = std::constructible_from<typename E::buffer, std::size_t> &&
    requires(E& e, typename E::buffer& memory, std::size_t blocks, detail::any_block_work f) {
  { E::space } -> std::convertible_to<memory_space>;
  { e.for_each_block(blocks, f) } -> std::same_as<void>;
  { e.synchronize() } -> std::same_as<void>;
  { memory.data() } -> std::same_as<std::byte*>;  // in E::space, freed with the buffer
  { memory.size() } -> std::same_as<std::size_t>;
};

/// An executor whose memory the host cannot access.
///
/// `read` copies to host memory and `write` from it, in submission order. Both return at once; the
/// host bytes belong to the executor until `wait` for their mark returns. Fastest with `staging`
/// memory, which is pinned host memory, and which work can access.
template <class E>
concept DeviceExecutor = Executor<E> && std::constructible_from<typename E::staging, std::size_t> &&
    requires(E& e, typename E::staging& pinned, typename E::mark done, void* to, void const* from,
             std::byte* memory, std::byte const* source, std::size_t bytes) {
  requires E::space == memory_space::device;
  { e.read(to, source, bytes) } -> std::same_as<typename E::mark>;
  { e.write(memory, from, bytes) } -> std::same_as<typename E::mark>;
  { e.wait(done) } -> std::same_as<void>;                // and for all earlier work
  { e.space_of(source) } -> std::same_as<memory_space>;  // memory space of a pointer
  { pinned.data() } -> std::same_as<std::byte*>;
  { pinned.size() } -> std::same_as<std::size_t>;
};

/// A DeviceExecutor that can copy concurrently with its work.
///
/// `read_beside` is a `read` that later work does not wait for; `from` must not change until `wait`
/// for the mark returns. `write_beside` is a `write` that waits only for work submitted before the
/// call of `now` that returned `free`. `is_done` tells whether `wait` would return at once.
template <class E>
concept AsyncCopy = DeviceExecutor<E> &&
    requires(E& e, typename E::mark free, void* to, std::byte const* from, std::byte* on_device,
             std::size_t bytes) {
  { e.now() } -> std::same_as<typename E::mark>;
  { e.is_done(free) } -> std::same_as<bool>;
  { e.read_beside(to, from, bytes) } -> std::same_as<typename E::mark>;
  { e.write_beside(on_device, from, bytes, free) } -> std::same_as<typename E::mark>;
};

}  // namespace hcomp
