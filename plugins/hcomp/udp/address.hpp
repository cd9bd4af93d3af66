#pragma once
/// @file
/// IPv4 and IPv6 addresses with a port, and their text form.

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/detail/error_text.hpp>
#include <stdexcept>
#include <string>
#include <system_error>

namespace hcomp::udp {

/// The source or destination of a datagram.
class address {
 public:
  address() = default;

  /// @param text  "host:port" or "[IPv6 address]:port"; port 0: the kernel chooses a free port on
  ///              bind
  /// @throws std::invalid_argument  no port from 0 to 65535, or the host is not found
  explicit address(std::string const& text) {
    auto const colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
      throw std::invalid_argument(
          hcomp::detail::error_text({"udp: address '", text, "'; it is HOST:PORT"}));
    // getaddrinfo accepts 99999 as port 34463
    std::uint16_t port = 0;
    auto const* const end = text.data() + text.size();
    if (auto const read = std::from_chars(text.data() + colon + 1, end, port);
        read.ec != std::errc{} || read.ptr != end)
      throw std::invalid_argument(hcomp::detail::error_text(
          {"udp: address '", text, "': the port is a number from 0 to 65535"}));
    std::string host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
      host = host.substr(1, host.size() - 2);
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_DGRAM;
    wanted.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    int const status = getaddrinfo(host.c_str(), text.c_str() + colon + 1, &wanted, &found);
    if (status != 0)
      throw std::invalid_argument(
          hcomp::detail::error_text({"udp: address '", text, "': ", gai_strerror(status)}));
    bytes_ = found->ai_addrlen;
    std::memcpy(&storage_, found->ai_addr, bytes_);
    freeaddrinfo(found);
  }

  /// The wildcard address of the family of `other`, with a free port.
  static address any_like(address const& other) {
    return address(other.family() == AF_INET6 ? "[::]:0" : "0.0.0.0:0");
  }

  int family() const { return storage_.ss_family; }

  std::string text() const {
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    getnameinfo(data(), bytes_, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    std::string const name = host;
    return (family() == AF_INET6 ? "[" + name + "]" : name) + ":" + port;
  }

  friend bool operator==(address const& a, address const& b) {
    if (a.family() != b.family()) return false;
    if (a.family() == AF_INET6) {
      auto const& x = reinterpret_cast<sockaddr_in6 const&>(a.storage_);
      auto const& y = reinterpret_cast<sockaddr_in6 const&>(b.storage_);
      return x.sin6_port == y.sin6_port && x.sin6_scope_id == y.sin6_scope_id &&
             std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof x.sin6_addr) == 0;
    }
    auto const& x = reinterpret_cast<sockaddr_in const&>(a.storage_);
    auto const& y = reinterpret_cast<sockaddr_in const&>(b.storage_);
    return x.sin_port == y.sin_port && x.sin_addr.s_addr == y.sin_addr.s_addr;
  }

  // for socket functions
  sockaddr const* data() const { return reinterpret_cast<sockaddr const*>(&storage_); }
  sockaddr* data() { return reinterpret_cast<sockaddr*>(&storage_); }
  socklen_t bytes() const { return bytes_; }
  static constexpr socklen_t most_bytes = sizeof(sockaddr_storage);
  void resize(socklen_t bytes) { bytes_ = bytes; }

 private:
  sockaddr_storage storage_{};
  socklen_t bytes_ = 0;
};

}  // namespace hcomp::udp
