#pragma once
/// @file
/// The transport interface that collectives need.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <span>
#include <string>

namespace hcomp {

/// Separates messages of different collectives on one transport.
using tag_t = std::uint32_t;

/// Moves bytes between ranks; independent of codecs and algorithms.
///
/// Messages between one pair of ranks with one tag arrive in order. A receive may offer more bytes
/// than the message has; `wait` returns the size of the message. A message longer than its receive
/// is a transport_error. The buffer belongs to the transport until `wait` returns.
///
/// `isend` and `irecv` do not block. `wait` on a send may block until the peer has posted the
/// matching receive and waits for it, so callers wait for their receives first. After a
/// transport_error the object can only be destroyed.
///
/// Optional: `revoke(std::string const& why)`, for a rank that finds damage that other ranks do not
/// see and would wait for. It ends all operations in progress: each of them, on every rank, throws
/// wire_error with this text, and so does revoke. If two ranks revoke at once, the text of one of
/// them is used. Afterwards the object can only be destroyed. Without revoke, other ranks wait
/// until the transport's own timeout.
///
/// Optional, required by concurrent_transport: `std::optional<std::size_t> test(request&)`. If
/// `wait` would return at once, it returns the same value and completes the request; otherwise it
/// returns empty. It does not block, makes progress on messages, and throws as `wait` does.
///
/// A transport that runs several collectives concurrently, or must make progress on messages of the
/// program, has `void wait_until(std::function<bool()> const&)`. A collective uses it to wait for
/// other events than messages, for example for ranks of its node in shared memory. It calls the
/// function repeatedly and returns when that returns true, or throws its exception; other
/// collectives progress meanwhile.
///
/// A stream-ordered transport moves messages as work of the executor's stream, as NCCL does: it has
/// `bool is_stream_ordered() const`, true. Its calls do not wait for the device. Messages are in
/// the executor's memory; a message leaves after the work submitted before `isend`, and work
/// submitted after `wait` reads the received bytes and overwrites the sent ones. Sender and
/// receiver name the same number of bytes, which `wait` returns. A plan then enqueues its calls;
/// see plan::check.
///
/// Optional for a stream-ordered transport: `void check()`, which throws the error of a message
/// that had been enqueued, after the caller has waited for the stream.
///
/// A plan waits for a receive of a stream-ordered transport when it has posted what it sends in the
/// same hop. So the transport can delay messages until then, and move what was posted up to the
/// last send as one group.
///
/// A transport that connects only some ranks of a job should have `std::uint64_t group() const`: a
/// number equal on these ranks and different for any other set of ranks. It seeds random draws, so
/// that errors in different groups are independent. Default: 0.
///
/// Collectives use a transport through any_transport, which stores requests as bytes: T::request
/// must be trivially copyable and have at most 48 bytes.
template <class T>
concept Transport = requires(T& t, T const& c, int peer, tag_t tag, std::span<std::byte const> out,
                             std::span<std::byte> in, typename T::request& r) {
  { c.rank() } -> std::same_as<int>;
  { c.size() } -> std::same_as<int>;
  { t.isend(peer, tag, out) } -> std::same_as<typename T::request>;
  { t.irecv(peer, tag, in) } -> std::same_as<typename T::request>;
  { t.wait(r) } -> std::same_as<std::size_t>;  // bytes moved; throws transport_error
  { c.reaches(memory_space::device) } -> std::same_as<bool>;
  { c.bytes_sent() } -> std::same_as<std::uint64_t>;  // payload bytes since construction
};

namespace detail {

/// Identifies the set of ranks of the transport; 0 if the transport has no `group`.
template <class T> std::uint64_t group_of(T const& transport) {
  if constexpr (requires { transport.group(); }) return transport.group();
  return 0;
}

/// Notifies all ranks, if the transport can, that their collective has ended, with the reason.
/// @throws wire_error  always
template <class T> [[noreturn]] void revoke(T& transport, std::string const& why) {
  if constexpr (requires { transport.revoke(why); }) transport.revoke(why);
  throw wire_error(why);
}

}  // namespace detail
}  // namespace hcomp
