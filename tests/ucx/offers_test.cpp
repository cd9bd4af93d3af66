// run: single
#include <arpa/inet.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/error.hpp>
#include <hcomp/ucx/devices.hpp>
#include <hcomp/ucx/offers.hpp>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::ucx;

namespace {

network_interface interface_of(std::string const& name, std::string const& address,
                               std::uint32_t prefix, std::uint64_t node) {
  network_interface made;
  std::ranges::copy(name, made.name.begin());
  made.is_v6 = address.find(':') != address.npos;
  REQUIRE(inet_pton(made.is_v6 ? AF_INET6 : AF_INET, address.c_str(), made.address.data()) == 1);
  made.prefix = prefix;
  made.node = node;
  return made;
}

/// One offer for each interface, as default_offers makes them.
std::vector<offer> each(std::vector<network_interface> const& interfaces) {
  std::vector<offer> made;
  for (auto const& one : interfaces) made.push_back({one.name.data(), {one}});
  return made;
}

using numbers = std::vector<std::size_t>;

}  // namespace

TEST_CASE("devices: interfaces of containers and virtual machines are inside the node") {
  for (char const* name :
       {"lo", "docker0", "docker_gwbridge", "br-0a1b2c3d4e5f", "virbr0", "cni0", "veth12ab"})
    CHECK(is_inside_node(name));
  for (char const* name :
       {"eth0", "eno1", "enp3s0", "ib0", "bond0", "br0", "br-ex", "wlan0", "loX"})
    CHECK_FALSE(is_inside_node(name));
}

TEST_CASE("devices: an interface is in a network if the bits of the prefix agree") {
  auto const one = interface_of("eth0", "10.1.2.3", 20, 1);
  CHECK(one.is_in_network_of(interface_of("eth1", "10.1.15.9", 20, 2)));
  CHECK_FALSE(one.is_in_network_of(interface_of("eth1", "10.1.16.3", 20, 2)));
  CHECK_FALSE(one.is_in_network_of(interface_of("eth1", "10.1.2.4", 24, 2)));
  CHECK_FALSE(one.is_in_network_of(interface_of("eth1", "a01::", 20, 2)));
  CHECK(one.text() == "eth0 10.1.2.3");
  CHECK(interface_of("ib0", "fd00::2", 64, 1).text() == "ib0 fd00::2");
}

TEST_CASE("offers: by default one per interface that leads to other nodes; with RDMA one of all") {
  auto const lo = interface_of("lo", "127.0.0.1", 8, 1);
  auto const docker = interface_of("docker0", "172.17.0.1", 16, 1);
  auto const first = interface_of("eth0", "10.0.0.1", 24, 1);
  auto const second = interface_of("eth1", "10.0.1.1", 24, 1);

  auto const two = default_offers({lo, first, docker, second}, {});
  REQUIRE(two.size() == 2);
  CHECK(two[0].devices == "eth0");
  CHECK(two[1].devices == "eth1");
  auto const with_rdma = default_offers({lo, first, docker, second}, {"mlx5_0:1", "mlx5_1:1"});
  REQUIRE(with_rdma.size() == 1);
  CHECK(with_rdma[0].devices == "eth0,eth1,mlx5_0:1,mlx5_1:1");
  CHECK(with_rdma[0].interfaces.size() == 2);
  auto const none = default_offers({lo, docker}, {});
  REQUIRE(none.size() == 1);
  CHECK(none[0].devices.empty());
  CHECK(none[0].interfaces.size() == 2);
}

TEST_CASE("offers: all ranks use the network in which each of them has an address of its own") {
  // 10.0.0.0/24 connects the nodes. 172.18.0.0/16 is a separate network of each node.
  auto const node = [](int host) {
    auto const last = std::to_string(host);
    auto const number = std::uint64_t(host);
    return each({interface_of("eth0", "192.168." + last + ".1", 24, number),
                 interface_of("eth1", "172.18.0.3", 16, number),
                 interface_of("eth2", "10.0.0." + last, 24, number)});
  };
  CHECK(chosen_offers({node(1), node(2), node(3)}) == numbers{2, 2, 2});
  CHECK(chosen_offers({node(1), node(2), node(2)}) == numbers{2, 2, 2});  // two ranks on one node
  auto other = node(3);
  std::rotate(other.begin(), other.begin() + 1, other.end());
  CHECK(chosen_offers({node(1), node(2), other}) == numbers{2, 2, 1});
  CHECK(chosen_offers({node(1), node(1)}) == numbers{0, 0});
}

TEST_CASE("offers: of several networks, not link-local, fast, with the default route") {
  auto const node = [](int host) {
    auto const last = std::to_string(host);
    auto const number = std::uint64_t(host);
    return each({interface_of("usb0", "169.254.0." + last, 16, number),
                 interface_of("eth0", "10.0.0." + last, 24, number),
                 interface_of("eth1", "10.0.1." + last, 24, number)});
  };
  std::vector const all{node(1), node(2)};
  CHECK(chosen_offers(all) == numbers{1, 1});
  auto routed = all;
  for (auto& offers : routed) offers[2].interfaces[0].has_default_route = 1;
  CHECK(chosen_offers(routed) == numbers{2, 2});
  auto fast = routed;
  for (auto& offers : fast) offers[1].interfaces[0].speed = 100'000;
  CHECK(chosen_offers(fast) == numbers{1, 1});
  fast[1][1].interfaces[0].speed = 0;  // unknown on one node
  CHECK(chosen_offers(fast) == numbers{2, 2});
  CHECK(chosen_offers({each({interface_of("usb0", "169.254.0.1", 16, 1)}),
                       each({interface_of("usb0", "169.254.0.2", 16, 2)})}) == numbers{0, 0});
}

TEST_CASE("offers: without a common network each rank uses its default route") {
  auto const node = [](int host) {
    auto const last = std::to_string(host);
    auto made = each({interface_of("eth0", "192.168." + last + ".1", 24, std::uint64_t(host)),
                      interface_of("eth1", "10.0." + last + ".1", 24, std::uint64_t(host))});
    made[1].interfaces[0].has_default_route = 1;
    return made;
  };
  CHECK(chosen_offers({node(1), node(2)}) == numbers{1, 1});
  CHECK(chosen_offers({{offer{}}, node(2)}) == numbers{0, 1});  // rank 0: devices without addresses
}

TEST_CASE("offers: ranks are on one node if all their interfaces are") {
  auto const one = each({interface_of("eth0", "10.0.0.1", 24, 1), interface_of("lo", "::1", 8, 1)});
  auto const other = each({interface_of("eth0", "10.0.0.2", 24, 2)});
  CHECK(are_on_one_node({one}));
  CHECK(are_on_one_node({one, one}));
  CHECK_FALSE(are_on_one_node({one, one, other}));
  CHECK_FALSE(are_on_one_node({one, {offer{}}}));  // devices without addresses
  CHECK_FALSE(are_on_one_node({}));
}

TEST_CASE("offers: other ranks read what was packed; damage is an error") {
  auto offers =
      each({interface_of("eth0", "10.0.0.1", 24, 1), interface_of("ib0", "fd00::1", 64, 1)});
  offers[0].address.resize(100, std::byte{7});
  offers[1].address.resize(60, std::byte{9});
  auto const bytes = packed(offers);
  auto const read = unpacked(bytes, 3);
  REQUIRE(read.size() == 2);
  for (std::size_t i : {0u, 1u}) {
    CHECK(read[i].address == offers[i].address);
    REQUIRE(read[i].interfaces.size() == 1);
    CHECK(read[i].interfaces[0].text() == offers[i].interfaces[0].text());
  }
  CHECK_THROWS_WITH_AS(unpacked(std::span(bytes).first(bytes.size() - 1), 3),
                       "ucx: the address of rank 3, of 287 bytes, is damaged", transport_error);
  auto damaged = bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {  // no crash, whatever the bytes
    damaged[i] = ~bytes[i];
    try {
      for (auto const& one : unpacked(damaged, 0))
        for (auto const& interface : one.interfaces) (void)interface.text();
    } catch (transport_error const&) {
    }
    damaged[i] = bytes[i];
  }
}
