#pragma once
/// @file
/// How ranks with several networks choose the one that connects them: no communication.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <hcomp/core/error.hpp>
#include <hcomp/ucx/devices.hpp>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hcomp::ucx {

/// Devices of one worker, as in HCOMP_UCX_NET_DEVICES, and the worker's address.
struct offer {
  std::string devices = {};                        ///< empty: all
  std::vector<network_interface> interfaces = {};  ///< of these devices, as far as known
  std::vector<std::byte> address = {};
};

/// What this rank offers where the user names no devices: one worker for each network interface, so
/// that the ranks can choose among their networks. With RDMA, which connects the ranks then, one
/// worker for all devices.
///
/// Leaves out interfaces that lead to no other node, unless the node has only these.
/// @param rdma  as rdma_ports
inline std::vector<offer> default_offers(std::vector<network_interface> interfaces,
                                         std::vector<std::string> const& rdma) {
  auto const leads_out = [](auto const& one) { return !is_inside_node(one.name.data()); };
  if (std::ranges::none_of(interfaces, leads_out)) return {{.interfaces = std::move(interfaces)}};
  std::erase_if(interfaces, std::not_fn(leads_out));
  std::vector<offer> made;
  for (auto const& one : interfaces) made.push_back({one.name.data(), {one}});
  if (rdma.empty()) return made;
  offer all{.interfaces = std::move(interfaces)};
  for (auto const& one : made) all.devices += one.devices + ",";
  for (auto const& one : rdma) all.devices += one + ",";
  all.devices.pop_back();
  return {all};
}

/// The number of the offer that each rank uses: the same on all ranks.
///
/// Chooses the network in which every rank has an address of its own: link-local ones last, then by
/// speed of the slowest rank, then one with default routes. If there is none, each rank uses the
/// interface of its default route, or else its first offer.
inline std::vector<std::size_t> chosen_offers(std::vector<std::vector<offer>> const& all) {
  using interface = network_interface;
  std::vector<std::size_t> best(all.size(), 0);
  auto const find = [](std::vector<offer> const& offers, auto const& is_wanted) {
    std::pair<std::size_t, interface const*> found{0, nullptr};
    for (std::size_t i = 0; i < offers.size(); ++i)
      for (auto const& one : offers[i].interfaces)
        if (is_wanted(one) && (!found.second || one.speed > found.second->speed)) found = {i, &one};
    return found;
  };
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    best[rank] = find(all[rank], [](auto& one) { return one.has_default_route != 0; }).first;
  if (all.empty()) return best;

  std::tuple<bool, std::uint32_t, bool> best_score{};
  bool is_found = false;
  for (auto const& first : all[0])
    for (auto const& network : first.interfaces) {
      std::vector<std::size_t> numbers;
      std::vector<interface const*> members;
      std::tuple<bool, std::uint32_t, bool> score{!network.is_link_local(), ~0u, true};
      for (auto const& offers : all) {
        auto const [number, mine] =
            find(offers, [&](auto& one) { return one.is_in_network_of(network); });
        if (!mine) break;
        numbers.push_back(number);
        members.push_back(mine);
        std::get<1>(score) = std::min(std::get<1>(score), mine->speed);
        std::get<2>(score) &= mine->has_default_route != 0;
      }
      // Two nodes with the same address are in two networks.
      std::ranges::sort(members, {}, [](auto* one) { return std::pair(one->address, one->node); });
      bool const is_one = std::ranges::adjacent_find(members, [](auto* one, auto* next) {
                            return one->address == next->address && one->node != next->node;
                          }) == members.end();
      if (numbers.size() < all.size() || !is_one || (is_found && score <= best_score)) continue;
      best = numbers;
      best_score = score;
      is_found = true;
    }
  return best;
}

/// Whether all ranks are on one node. False if a rank offers no interface.
inline bool are_on_one_node(std::vector<std::vector<offer>> const& all) {
  std::optional<std::uint64_t> node;
  for (auto const& offers : all)
    for (auto const& one : offers) {
      if (one.interfaces.empty()) return false;
      auto const here = one.interfaces.front().node;
      if (node.value_or(here) != here) return false;
      node = here;
    }
  return node.has_value();
}

/// Bytes that other ranks read as the same offers.
inline std::vector<std::byte> packed(std::vector<offer> const& offers) {
  std::vector<std::byte> bytes;
  auto const add = [&](auto const* first, std::size_t count) {
    auto const* const begin = reinterpret_cast<std::byte const*>(first);
    bytes.insert(bytes.end(), begin, begin + count * sizeof *first);
  };
  for (auto const& one : offers) {
    std::uint32_t const counts[] = {static_cast<std::uint32_t>(one.interfaces.size()),
                                    static_cast<std::uint32_t>(one.address.size())};
    add(counts, 2);
    add(one.interfaces.data(), one.interfaces.size());
    add(one.address.data(), one.address.size());
  }
  return bytes;
}

/// The offers of `rank`, without the names of devices.
/// @throws transport_error  `bytes` are damaged or empty
inline std::vector<offer> unpacked(std::span<std::byte const> bytes, int rank) {
  auto const length = bytes.size();
  auto const take = [&](auto* first, std::size_t count) {
    if (count * sizeof *first > bytes.size())
      throw transport_error(rank, "ucx: the address of rank " + std::to_string(rank) + ", of " +
                                      std::to_string(length) + " bytes, is damaged");
    if (count > 0) std::memcpy(first, bytes.data(), count * sizeof *first);
    bytes = bytes.subspan(count * sizeof *first);
  };
  std::vector<offer> offers;
  do {
    std::uint32_t counts[2];
    take(counts, 2);
    auto& one = offers.emplace_back();
    // Checked before anything is allocated.
    if (counts[0] > bytes.size() || counts[1] > bytes.size()) counts[0] = counts[1] = ~0u;
    if (counts[0] != ~0u) {
      one.interfaces.resize(counts[0]);
      one.address.resize(counts[1]);
    }
    take(one.interfaces.data(), counts[0]);
    take(one.address.data(), counts[1]);
  } while (!bytes.empty());
  return offers;
}

}  // namespace hcomp::ucx
