#pragma once
/// @file
/// Moves bytes between two ranks with blocking sockets: close to the minimum of work for a
/// transfer.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

/// A TCP connection between the two ranks of MPI_COMM_WORLD, over the first interface of rank 0
/// that is not the loopback.
class socket_link {
 public:
  /// Collective. @throws std::system_error  no socket or no connection
  explicit socket_link(std::size_t bytes) : out_(bytes), in_(bytes) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    int const own = socket(AF_INET, SOCK_STREAM, 0);
    if (rank == 0) {
      address.sin_addr.s_addr = own_address();
      socklen_t length = sizeof address;
      check(bind(own, generic(address), length), "bind");
      check(listen(own, 1), "listen");
      check(getsockname(own, generic(address), &length), "getsockname");
    }
    PMPI_Bcast(&address, sizeof address, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      socket_ = accept(own, nullptr, nullptr);
      check(socket_, "accept");
      close(own);
    } else {
      check(connect(own, generic(address), sizeof address), "connect");
      socket_ = own;
    }
  }
  socket_link(socket_link const&) = delete;
  socket_link& operator=(socket_link const&) = delete;
  ~socket_link() { close(socket_); }

  /// Sends and receives `bytes`, while this thread runs `meanwhile`.
  template <class F> void exchange(F const& meanwhile) {
    std::jthread const sending([&] { send_all(); });
    std::jthread const receiving([&] { receive_all(); });
    meanwhile();
  }

 private:
  static sockaddr* generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }
  static void check(int result, char const* what) {
    if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  }
  static in_addr_t own_address() {
    ifaddrs* all = nullptr;
    check(getifaddrs(&all), "getifaddrs");
    in_addr_t found = htonl(INADDR_LOOPBACK);
    for (auto const* one = all; one; one = one->ifa_next)
      if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET &&
          std::string_view(one->ifa_name) != "lo") {
        found = reinterpret_cast<sockaddr_in const*>(one->ifa_addr)->sin_addr.s_addr;
        break;
      }
    freeifaddrs(all);
    return found;
  }
  void send_all() {
    for (std::size_t at = 0; at < out_.size();) {
      auto const sent = send(socket_, out_.data() + at, out_.size() - at, 0);
      check(static_cast<int>(sent), "send");
      at += static_cast<std::size_t>(sent);
    }
  }
  /// Wakes for every 16 KiB: a request beyond the window would never complete.
  void receive_all() {
    for (std::size_t at = 0; at < in_.size();) {
      int const least = static_cast<int>(std::min<std::size_t>(in_.size() - at, 1 << 14));
      check(setsockopt(socket_, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least), "SO_RCVLOWAT");
      auto const came = recv(socket_, in_.data() + at, in_.size() - at, 0);
      check(static_cast<int>(came), "recv");
      if (came == 0) throw std::runtime_error("the other rank has closed the connection");
      at += static_cast<std::size_t>(came);
    }
  }

  int socket_ = -1;
  std::vector<std::byte> out_, in_;
};
