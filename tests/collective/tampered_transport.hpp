#pragma once
/// @file
/// A transport that can change messages or fail while it sends.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <hcomp/transport/in_process.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::testing {

/// Calls `tamper(peer, number, bytes)` with a copy of every message, numbered from 0, and sends
/// that copy, which may have another length.
template <Transport T> class tampered {
 public:
  using request = typename T::request;
  using tampering = std::function<void(int peer, int number, std::vector<std::byte>& bytes)>;

  tampered(T& transport, tampering tamper) : transport_(&transport), tamper_(std::move(tamper)) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool reaches(memory_space space) const { return transport_->reaches(space); }
  std::uint64_t group() const { return detail::group_of(*transport_); }
  std::uint64_t bytes_sent() const { return transport_->bytes_sent(); }
  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    auto& copy = sent_.emplace_back(bytes.begin(), bytes.end());
    tamper_(peer, static_cast<int>(sent_.size()) - 1, copy);
    return transport_->isend(peer, tag, copy);
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    return transport_->irecv(peer, tag, bytes);
  }
  std::size_t wait(request& r) { return transport_->wait(r); }
  [[noreturn]] void revoke(std::string const& why) { detail::revoke(*transport_, why); }
  int messages() const { return static_cast<int>(sent_.size()); }

 private:
  T* transport_;
  tampering tamper_;
  std::deque<std::vector<std::byte>> sent_;  // kept until the end: messages may still be in transit
};
using tampered_transport = tampered<in_process>;
static_assert(Transport<tampered_transport>);

}  // namespace hcomp::testing
