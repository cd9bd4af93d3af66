#pragma once
/// @file
/// What a collective needs from whatever moves bytes.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <span>
#include <string>

namespace hcomp {

/// Tells messages of different collectives on one transport apart.
using tag_t = std::uint32_t;

/// Moves bytes between ranks; knows nothing about codecs, sums or rings.
///
/// Messages between one pair of ranks with one tag arrive in the order they were sent. A receive
/// may offer more bytes than the message has; `wait` returns how many came. A message longer than
/// the receive offers is a transport_error. The bytes belong to the transport until `wait` returns.
/// Neither `isend` nor `irecv` blocks; `wait` on a send may block until the peer has posted and
/// waits for the matching receive, so callers wait for their receives first. After a
/// transport_error the object can only be destroyed.
///
/// A transport should also have `revoke(std::string const& why)`, for a rank that has met damage
/// which the others do not know of and would wait for: it ends what all ranks have under way. Every
/// operation of every rank, unless it is done, throws wire_error with this text, where two ranks
/// revoke at once with the text of one of them; revoke does, too. The object can only be destroyed
/// then. Without it other ranks wait as long as the transport lets them.
///
/// A transport over which several collectives shall go on at the same time (concurrent_transport)
/// needs `std::optional<std::size_t> test(request&)`: what `wait` would return, and then the request
/// is done as after `wait`, or nothing yet. It does not block, lets messages move on, and throws as
/// `wait` does.
///
/// A transport over which several collectives go on at the same time has `void
/// wait_until(std::function<bool()> const&)`, by which a collective waits for something that is no
/// message, such as what ranks of a host do in memory that they share: it returns when the function
/// returns true, which it asks again and again, and throws what that throws; others go on meanwhile.
///
/// A transport that connects only some ranks of a job should also have `std::uint64_t group() const`:
/// which they are, the same number on all of them and another one for others. Random draws depend
/// on it, so that errors of sums in different groups are independent. Without it, it is 0.
///
/// Collectives use a transport through any_transport, which keeps requests as bytes: T::request has
/// to be trivially copyable, and to have at most 48 bytes.
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

/// Which ranks the transport connects; 0 if it does not say.
template <class T> std::uint64_t group_of(T const& transport) {
  if constexpr (requires { transport.group(); }) return transport.group();
  return 0;
}

/// Tells all ranks, where the transport can, that their collective is over, and why.
/// @throws wire_error  always
template <class T> [[noreturn]] void revoke(T& transport, std::string const& why) {
  if constexpr (requires { transport.revoke(why); }) transport.revoke(why);
  throw wire_error(why);
}

}  // namespace detail
}  // namespace hcomp
