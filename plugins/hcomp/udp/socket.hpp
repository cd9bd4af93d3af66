#pragma once
/// @file
/// A datagram socket.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/udp/address.hpp>
#include <optional>
#include <span>
#include <string>

namespace hcomp::udp {

/// A UDP socket bound to an address. For one thread at a time.
class socket {
 public:
  /// @param buffer_bytes  requested size of the receive buffer; the kernel may grant less
  /// @throws transport_error  the address is not local, or is in use
  explicit socket(address const& local, int buffer_bytes = 4 << 20)
      : handle_(::socket(local.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (handle_ < 0) fail("socket of " + local.text());
    ::setsockopt(handle_, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    if (::bind(handle_, local.data(), local.bytes()) != 0) {
      int const why = errno;
      ::close(handle_);
      errno = why;
      fail("listen on " + local.text());
    }
  }
  socket(socket const&) = delete;
  socket& operator=(socket const&) = delete;
  ~socket() { ::close(handle_); }

  /// Includes the port that the kernel chose.
  address local() const {
    address mine;
    socklen_t bytes = address::most_bytes;
    if (::getsockname(handle_, mine.data(), &bytes) != 0) fail("getsockname");
    mine.resize(bytes);
    return mine;
  }

  /// Passes a datagram to the kernel; waits while the send buffer is full. Returns false if the
  /// datagram is lost at once: the network is down, the port is closed, or the kernel is out of
  /// memory.
  /// @throws transport_error  any other error, for example a datagram that is too long for the
  ///                          kernel
  bool send(address const& to, std::span<std::byte const> datagram) {
    while (true) {
      if (::sendto(handle_, datagram.data(), datagram.size(), 0, to.data(), to.bytes()) >= 0)
        return true;
      if (errno == EINTR) continue;
      for (int const lost :
           {EAGAIN, ENOBUFS, ENOMEM, ECONNREFUSED, ENETDOWN, ENETUNREACH, EHOSTUNREACH, EPERM})
        if (errno == lost) return false;
      fail(hcomp::detail::error_text({"send ", datagram.size(), " bytes to ", to.text()}));
    }
  }

  /// Receives a datagram without waiting. Returns its full size; `buffer` receives its beginning.
  std::optional<std::size_t> receive(std::span<std::byte> buffer, address& from) {
    while (true) {
      socklen_t bytes = address::most_bytes;
      auto const got = ::recvfrom(handle_, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC,
                                  from.data(), &bytes);
      if (got >= 0) {
        from.resize(bytes);
        return static_cast<std::size_t>(got);
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
      if (errno != EINTR && errno != ECONNREFUSED) fail("receive");
    }
  }

  /// Waits until a datagram arrives, a signal comes, or `timeout` passes.
  void wait(std::chrono::nanoseconds timeout) {
    // At most a day, to avoid overflow.
    auto const time = std::clamp<std::chrono::nanoseconds>(timeout, std::chrono::nanoseconds(0),
                                                           std::chrono::hours(24));
    auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
    timespec const limit{static_cast<std::time_t>(seconds.count()),
                         static_cast<long>((time - seconds).count())};
    pollfd mine{handle_, POLLIN, 0};
    if (::ppoll(&mine, 1, &limit, nullptr) < 0 && errno != EINTR) fail("ppoll");
  }

 private:
  [[noreturn]] static void fail(std::string const& what) {
    int const why = errno;
    throw transport_error(
        -1, hcomp::detail::error_text({"udp: ", what, ": ", std::strerror(why), " (", why, ")"}));
  }

  int handle_;
};

}  // namespace hcomp::udp
