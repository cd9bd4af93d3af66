#pragma once
/// @file
/// A stream-ordered transport for guarded executors, whose ranks are threads.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/in_process.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <string>
#include <support/guarded_executor.hpp>
#include <utility>
#include <vector>

namespace hcomp::testing {

/// Moves messages in the order of the executor's work. Does the work itself when a message needs
/// it, as a device would; `waits_for_work` counts only waits of other callers.
class stream_ordered_transport {
 public:
  struct request {
    std::size_t slot = 0;
  };
  /// Changes the bytes of a received message; see `change`.
  using change_type = std::function<void(std::span<std::byte>)>;

  stream_ordered_transport(in_process& transport, guarded_executor& executor)
      : transport_(&transport), executor_(&executor) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool reaches(memory_space space) const { return space == memory_space::device; }
  bool is_stream_ordered() const { return true; }
  std::uint64_t bytes_sent() const { return transport_->bytes_sent(); }
  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    auto& one = slots_.emplace_back();
    progress();
    {
      guarded_memory::opened const open;
      one.message.assign(bytes.begin(), bytes.end());
    }
    one.inner = transport_->isend(peer, tag, one.message);
    return {slots_.size() - 1};
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    auto& one = slots_.emplace_back();
    one.to = bytes;
    one.peer = peer;
    one.message.resize(bytes.size() + 1);
    one.inner = transport_->irecv(peer, tag, one.message);
    return {slots_.size() - 1};
  }
  std::size_t wait(request& r) {
    auto& one = slots_[r.slot];
    std::size_t const bytes = transport_->wait(one.inner);
    if (one.peer < 0) return bytes;
    if (bytes != one.to.size())
      throw transport_error(one.peer, "test: " + std::to_string(bytes) + " bytes, " +
                                          std::to_string(one.to.size()) + " expected");
    if (change) change({one.message.data(), bytes});
    progress();
    guarded_memory::opened const open;
    std::copy_n(one.message.begin(), bytes, one.to.begin());
    return bytes;
  }

  change_type change;

 private:
  struct slot {
    std::vector<std::byte> message;
    std::span<std::byte> to;
    int peer = -1;  ///< of a receive
    in_process::request inner;
  };
  void progress() {
    auto const waits = waits_for_work;
    executor_->synchronize();
    waits_for_work = waits;
  }

  in_process* transport_;
  guarded_executor* executor_;
  std::deque<slot> slots_;
};

}  // namespace hcomp::testing
