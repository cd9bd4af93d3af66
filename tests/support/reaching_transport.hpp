#pragma once
/// @file
/// A transport that moves device memory by itself, like UCX built for devices.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <hcomp/core/config.hpp>
#include <hcomp/transport/in_process.hpp>
#include <hcomp/transport/transport.hpp>
#include <optional>
#include <span>
#include <vector>

namespace hcomp::testing {

/// Reads and writes in the call, and does not wait for work. Overwrites the buffer of a receive at
/// once, and again when the message has arrived.
/// @tparam Move  Move{}(to, from, bytes), between host memory and the device's
template <class Move> class reaching_transport {
 public:
  struct request {
    std::size_t slot = 0;
  };

  explicit reaching_transport(in_process& transport) : transport_(&transport) {}
  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool reaches(memory_space) const { return true; }
  std::uint64_t bytes_sent() const { return transport_->bytes_sent(); }
  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    auto& one = slots_.emplace_back(bytes.size());
    Move{}(one.on_host.data(), bytes.data(), bytes.size());
    one.inner = transport_->isend(peer, tag, one.on_host);
    return {slots_.size() - 1};
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    auto& one = slots_.emplace_back(bytes.size());
    one.on_device = bytes.data();
    Move{}(one.on_device, one.on_host.data(), bytes.size());
    one.inner = transport_->irecv(peer, tag, one.on_host);
    return {slots_.size() - 1};
  }
  std::size_t wait(request& r) {
    auto& one = slots_[r.slot];
    return moved(one, transport_->wait(one.inner));
  }
  std::optional<std::size_t> test(request& r) {
    auto& one = slots_[r.slot];
    auto const came = transport_->test(one.inner);
    return came ? std::optional(moved(one, *came)) : std::nullopt;
  }

 private:
  struct slot {
    explicit slot(std::size_t bytes) : on_host(bytes) {}
    std::vector<std::byte> on_host;
    std::byte* on_device = nullptr;
    in_process::request inner;
  };
  static std::size_t moved(slot const& one, std::size_t bytes) {
    if (one.on_device) Move{}(one.on_device, one.on_host.data(), bytes);
    return bytes;
  }

  in_process* transport_;
  std::deque<slot> slots_;
};

}  // namespace hcomp::testing
