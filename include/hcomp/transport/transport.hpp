#pragma once
/// @file
/// What a collective needs from whatever moves bytes.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <span>

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

}  // namespace hcomp
