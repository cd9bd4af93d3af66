#pragma once
/// @file
/// The network interfaces and RDMA ports of this node. Linux.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <hcomp/core/random.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace hcomp::ucx {

/// A network interface with the address that UCX gives to other ranks: the first IPv4 address, else
/// the first IPv6 address that is not link-local.
struct network_interface {
  std::array<char, IFNAMSIZ> name{};
  std::array<std::uint8_t, 16> address{};  ///< IPv4: the first four bytes
  std::uint32_t prefix = 0;                ///< bits of the address that identify the network
  std::uint32_t speed = 0;                 ///< Mbit/s; 0: unknown
  std::uint64_t node = 0;                  ///< equal on all ranks that share the interface
  std::uint8_t is_v6 = 0;
  std::uint8_t has_default_route = 0;
  std::array<std::uint8_t, 6> unused{};

  bool is_link_local() const {
    return is_v6 ? address[0] == 0xfe && (address[1] & 0xc0) == 0x80
                 : address[0] == 169 && address[1] == 254;
  }
  /// Whether `other` has an address in the same network.
  bool is_in_network_of(network_interface const& other) const {
    if (is_v6 != other.is_v6 || prefix != other.prefix) return false;
    for (std::uint32_t bit = 0; bit < std::min(prefix, 128u); ++bit)
      if (((address[bit / 8] ^ other.address[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
    return true;
  }
  /// "eth0 10.0.0.1".
  std::string text() const {
    char words[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(is_v6 ? AF_INET6 : AF_INET, address.data(), words, sizeof words);
    return std::string(name.data(), ::strnlen(name.data(), name.size())) + " " + words;
  }
};
static_assert(std::is_trivially_copyable_v<network_interface> && sizeof(network_interface) == 56);

/// Interfaces of containers and virtual machines on this node, and the loopback interface.
inline bool is_inside_node(std::string_view name) {
  auto const digits = name.starts_with("br-") ? name.substr(3) : "";  // a network of Docker
  return name == "lo" || name.starts_with("docker") || name.starts_with("virbr") ||
         name.starts_with("cni") || name.starts_with("veth") ||
         (digits.size() == 12 && digits.find_first_not_of("0123456789abcdef") == digits.npos);
}

inline bool has_default_route(std::string const& name) {
  std::string line;
  for (std::ifstream routes("/proc/self/net/route"); std::getline(routes, line);)
    if (line.starts_with(name + "\t00000000\t")) return true;
  for (std::ifstream routes("/proc/self/net/ipv6_route"); std::getline(routes, line);)
    if (line.starts_with(std::string(32, '0') + " 00 ") && line.ends_with(" " + name)) return true;
  return false;
}

/// Equal in all processes of a network namespace.
inline std::uint64_t node_number() {
  struct ::stat network = {};
  ::stat("/proc/self/ns/net", &network);
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  std::uint64_t number = mix(network.st_ino);
  for (char const* letter = name; *letter != 0; ++letter) number = mix(number + *letter);
  return number;
}

/// The interfaces that UCX finds on this node for TCP.
inline std::vector<network_interface> network_interfaces() {
  std::vector<network_interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> const held(list, ::freeifaddrs);
  auto const node = node_number();
  for (bool const is_v6 : {false, true})
    for (auto const* it = list; it != nullptr; it = it->ifa_next) {
      constexpr unsigned needed = IFF_UP | IFF_RUNNING;
      std::string const name = it->ifa_name, folder = "/sys/class/net/" + name;
      std::error_code unknown;
      if (!it->ifa_addr || !it->ifa_netmask || (it->ifa_flags & needed) != needed ||
          it->ifa_addr->sa_family != (is_v6 ? AF_INET6 : AF_INET) || name.size() >= IFNAMSIZ ||
          !std::filesystem::exists(folder, unknown) ||
          std::ranges::any_of(found, [&](auto& one) { return name == one.name.data(); }))
        continue;
      network_interface one;
      std::ranges::copy(name, one.name.begin());
      auto const bytes_of = [is_v6](sockaddr* of) {
        auto const* const first =
            is_v6 ? reinterpret_cast<sockaddr_in6*>(of)->sin6_addr.s6_addr
                  : reinterpret_cast<std::uint8_t*>(&reinterpret_cast<sockaddr_in*>(of)->sin_addr);
        return std::span(first, is_v6 ? 16 : 4);
      };
      std::ranges::copy(bytes_of(it->ifa_addr), one.address.begin());
      for (unsigned const byte : bytes_of(it->ifa_netmask))
        one.prefix += static_cast<std::uint32_t>(std::popcount(byte));
      one.is_v6 = is_v6;
      if (is_v6 && one.is_link_local()) continue;  // UCX cannot use it
      int speed = 0;
      std::ifstream(folder + "/speed") >> speed;
      one.speed = static_cast<std::uint32_t>(std::max(speed, 0));
      one.node = node;
      one.has_default_route = has_default_route(name);
      found.push_back(one);
    }
  return found;
}

/// The active ports of RDMA devices, as UCX names them: "mlx5_0:1".
inline std::vector<std::string> rdma_ports() {
  std::vector<std::string> found;
  std::error_code none;
  if (!std::filesystem::exists("/dev/infiniband", none)) return found;  // in most containers
  for (auto const& device : std::filesystem::directory_iterator("/sys/class/infiniband", none))
    for (auto const& port : std::filesystem::directory_iterator(device.path() / "ports", none)) {
      std::string state;
      std::getline(std::ifstream(port.path() / "state"), state);
      if (state.find("ACTIVE") != state.npos)
        found.push_back(device.path().filename().string() + ":" + port.path().filename().string());
    }
  return found;
}

}  // namespace hcomp::ucx
