#pragma once
/// @file
/// A datagram relay that drops, repeats, delays and damages datagrams, by a seed.

#include <atomic>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/socket.hpp>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace hcomp::testing {

/// Shares of all datagrams in percent, in both directions.
struct relay_harm {
  int lost = 0, repeated = 0, delayed = 0, damaged = 0;
};

/// Relays between workers and one aggregator, which sees a separate address for every worker.
class relay {
 public:
  relay(std::string const& target, relay_harm const& harm, std::uint64_t seed)
      : target_(target),
        harm_(harm),
        draws_(seed),
        front_(udp::address("127.0.0.1:0")),
        thread_([this] { run(); }) {}
  ~relay() {
    stop_ = true;
    thread_.join();
  }

  std::string local() const { return front_.local().text(); }
  std::uint64_t harmed() const { return harmed_; }  ///< dropped or damaged

 private:
  struct strategy {
    udp::address worker;
    std::unique_ptr<udp::socket> back;
  };
  struct datagram {
    udp::socket* through;
    udp::address to;
    std::vector<std::byte> bytes;
  };

  bool draw(int percent) { return draws_.integer(0, 99) < percent; }

  void pass(udp::socket& through, udp::address const& to, std::span<std::byte const> bytes) {
    if (draw(harm_.lost)) {
      ++harmed_;
      return;
    }
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    if (draw(harm_.damaged) && !copy.empty()) {
      copy[draws_.next() % copy.size()] ^= static_cast<std::byte>(1 + draws_.next() % 255);
      ++harmed_;
    }
    if (draw(harm_.delayed)) return held_.push_back({&through, to, std::move(copy)});
    through.send(to, copy);
    if (draw(harm_.repeated)) through.send(to, copy);
    if (held_.size() > 8) release();
  }
  void release() {
    held_.front().through->send(held_.front().to, held_.front().bytes);
    held_.pop_front();
  }

  void run() {
    std::vector<std::byte> buffer(65536);
    udp::address from;
    while (!stop_) {
      bool moved = false;
      while (auto const bytes = front_.receive(buffer, from)) {
        moved = true;
        strategy* mine = nullptr;
        for (auto& one : strategies_)
          if (one.worker == from) mine = &one;
        if (!mine)
          mine = &strategies_.emplace_back(
              strategy{from, std::make_unique<udp::socket>(udp::address("127.0.0.1:0"))});
        pass(*mine->back, target_, std::span(buffer).first(*bytes));
      }
      for (auto& one : strategies_)
        while (auto const bytes = one.back->receive(buffer, from)) {
          moved = true;
          pass(front_, one.worker, std::span(buffer).first(*bytes));
        }
      if (moved) continue;
      if (!held_.empty()) release();
      front_.wait(std::chrono::microseconds(100));
    }
  }

  udp::address target_;
  relay_harm harm_;
  random_numbers draws_;
  udp::socket front_;
  std::deque<strategy> strategies_;
  std::deque<datagram> held_;
  std::atomic<std::uint64_t> harmed_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace hcomp::testing
