#pragma once
/// @file
/// A packet link between threads of one process: for tests and examples without MPI.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/transport/detail/peer_check.hpp>
#include <hcomp/transport/packet_link.hpp>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp {

/// The inboxes of all ranks. Must outlive their links.
class packet_world {
 public:
  /// @throws std::invalid_argument  ranks < 1
  explicit packet_world(int ranks) : inboxes_(checked(ranks)) {}

  int size() const { return static_cast<int>(inboxes_.size()); }

 private:
  friend class in_process_packets;

  struct packet {
    int from;
    std::vector<std::byte> bytes;
  };
  struct inbox {
    std::mutex mutex;
    std::condition_variable came;
    std::deque<packet> packets;
  };
  static std::size_t checked(int ranks) {
    if (ranks < 1)
      throw std::invalid_argument(
          detail::error_text({"packet_world: ", ranks, " ranks asked for, at least 1 is needed"}));
    return static_cast<std::size_t>(ranks);
  }
  std::vector<inbox> inboxes_;
};

/// The link of one rank. Loses no packet and keeps the order between each pair of ranks.
class in_process_packets {
 public:
  /// @throws std::invalid_argument  rank out of range
  in_process_packets(packet_world& world, int rank) : world_(&world), rank_(rank) {
    detail::require_peer("in_process_packets", rank, size(), "world");
  }

  int rank() const { return rank_; }
  int size() const { return world_->size(); }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::chrono::nanoseconds now() const {
    return std::chrono::steady_clock::now().time_since_epoch();
  }

  /// @throws std::invalid_argument  peer out of range
  void send(int peer, std::span<std::byte const> packet) {
    detail::require_peer("send", peer, size(), "world");
    auto& box = world_->inboxes_[static_cast<std::size_t>(peer)];
    {
      std::lock_guard const lock(box.mutex);
      box.packets.push_back({rank_, {packet.begin(), packet.end()}});
    }
    box.came.notify_one();
    bytes_sent_ += packet.size();
  }

  received_packet receive(std::span<std::byte> buffer, std::chrono::nanoseconds timeout) {
    auto& box = world_->inboxes_[static_cast<std::size_t>(rank_)];
    std::unique_lock lock(box.mutex);
    // At most a day: a longer timeout could overflow when added to the clock.
    timeout = std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24));
    if (!box.came.wait_for(lock, timeout, [&] { return !box.packets.empty(); })) return {};
    auto const first = std::move(box.packets.front());
    box.packets.pop_front();
    lock.unlock();
    std::copy_n(first.bytes.begin(), std::min(first.bytes.size(), buffer.size()), buffer.begin());
    return {first.from, first.bytes.size()};
  }

 private:
  packet_world* world_;
  int rank_;
  std::uint64_t bytes_sent_ = 0;
};

static_assert(PacketLink<in_process_packets>);

}  // namespace hcomp
