#pragma once
/// @file
/// Emulates a slower network, to measure compression on one machine.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace train {

/// Transport adapter that limits the rate at which this rank sends. The wait for a send takes until
/// its bytes and all earlier ones would have passed a link of this rate. Receives are not limited.
/// In a collective in which all ranks send the same amount, this makes no difference, because every
/// receive is a send of another rank. Waiting ranks sleep and do not use the CPU.
class paced_transport {
 public:
  /// Small enough for any_transport.
  struct request {
    std::size_t slot = 0;
  };

  /// @param gbit_per_s  0: no limit
  paced_transport(hcomp::any_transport& transport, double gbit_per_s)
      : transport_(&transport), seconds_per_byte_(gbit_per_s > 0 ? 8e-9 / gbit_per_s : 0) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool reaches(hcomp::memory_space space) const { return transport_->reaches(space); }
  std::uint64_t group() const { return transport_->group(); }
  std::uint64_t bytes_sent() const { return transport_->bytes_sent(); }

  request isend(int peer, hcomp::tag_t tag, std::span<std::byte const> bytes) {
    if (seconds_per_byte_ > 0) {
      using namespace std::chrono;
      duration<double> const needed(seconds_per_byte_ * static_cast<double>(bytes.size()));
      link_is_free_ = std::max(link_is_free_, steady_clock::now()) +
                      duration_cast<steady_clock::duration>(needed);
    }
    return keep({transport_->isend(peer, tag, bytes), link_is_free_});
  }
  request irecv(int peer, hcomp::tag_t tag, std::span<std::byte> bytes) {
    return keep({transport_->irecv(peer, tag, bytes), {}});
  }
  std::size_t wait(request& r) {
    free_.push_back(r.slot);
    auto const bytes = transport_->wait(slots_[r.slot].inner);
    std::this_thread::sleep_until(slots_[r.slot].passed);
    return bytes;
  }
  [[noreturn]] void revoke(std::string const& why) { transport_->revoke(why); }

 private:
  struct slot {
    hcomp::any_transport::request inner;
    std::chrono::steady_clock::time_point passed;
  };

  request keep(slot const& one) {
    if (free_.empty()) {
      slots_.push_back(one);
      return {slots_.size() - 1};
    }
    std::size_t const place = free_.back();
    free_.pop_back();
    slots_[place] = one;
    return {place};
  }

  hcomp::any_transport* transport_;
  double seconds_per_byte_;
  std::chrono::steady_clock::time_point link_is_free_{};
  std::vector<slot> slots_;
  std::vector<std::size_t> free_;  ///< places in slots_
};

static_assert(hcomp::Transport<paced_transport>);

}  // namespace train
