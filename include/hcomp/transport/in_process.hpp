#pragma once
/// @file
/// A transport whose ranks are threads of one process: for tests and examples without MPI.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/detail/peer_check.hpp>
#include <hcomp/transport/transport.hpp>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hcomp {

/// The shared state of one set of in-process ranks. Must outlive their transports.
class in_process_world {
 public:
  /// @param group  identifies this world among several, as draw_key::group; separates their random
  ///               draws
  /// @throws std::invalid_argument  ranks < 1
  explicit in_process_world(int ranks, std::uint64_t group = 0)
      : ranks_(ranks),
        group_(group),
        channels_(checked(ranks)),
        has_left_(static_cast<std::size_t>(ranks)) {}

  int size() const { return ranks_; }

  /// Marks `rank` as failed: every pending or later call of every rank throws transport_error.
  void fail(int rank, std::string const& why) {
    end({rank, detail::error_text({"in_process: rank ", rank, " failed: ", why})});
  }

  /// Marks `rank` as finished. A rank that waits for a message that `rank` never sends or receives
  /// gets a transport_error; then all waiting ranks do.
  void leave(int rank) {
    has_left_[static_cast<std::size_t>(rank)] = true;
    notify_all();
  }

 private:
  friend class in_process;

  /// The reason why all communication has ended.
  struct ending {
    int culprit;  ///< peer of the transport_error; -1: a rank revoked, wire_error
    std::string text;
  };

  void end(ending why) {
    {
      // The first error counts; all later ones are consequences.
      std::lock_guard const lock(ending_);
      if (is_over_) return;
      why_ = std::move(why);
      is_over_ = true;
    }
    notify_all();
  }
  void notify_all() {
    for (auto& channel : channels_) {
      std::lock_guard const lock(channel.mutex);
      channel.changed.notify_all();
    }
  }
  bool has_left(int rank) const { return has_left_[static_cast<std::size_t>(rank)]; }
  /// `rank` waits for `peer`, which has finished.
  void end_without(int peer, int rank) {
    end({peer, detail::error_text({"in_process: rank ", rank, " waits for rank ", peer,
                                   ", which is done; did it call as many collectives?"})});
  }
  void throw_if_over() const {
    if (!is_over_) return;
    if (why_.culprit < 0) throw wire_error(why_.text);
    throw transport_error(why_.culprit, why_.text);
  }

  struct message {
    std::uint64_t number;
    tag_t tag;
    std::span<std::byte const> bytes;
  };
  struct receive {
    std::uint64_t number;
    tag_t tag;
    std::span<std::byte> bytes;
    std::size_t came = 0;
    bool done = false;
  };
  /// The messages and receives from one rank to another.
  struct channel {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t sent = 0, posted = 0;
    std::vector<message> messages;  // not yet received, in order
    std::vector<receive> receives;  // not yet waited for, in order
  };

  static std::size_t checked(int ranks) {
    if (ranks < 1)
      throw std::invalid_argument(detail::error_text(
          {"in_process_world: ", ranks, " ranks asked for, at least 1 is needed"}));
    return static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  }
  channel& between(int from, int to) {
    return channels_[static_cast<std::size_t>(from * ranks_ + to)];
  }

  int ranks_;
  std::uint64_t group_;
  std::vector<channel> channels_;
  std::vector<std::atomic<bool>> has_left_;
  std::mutex ending_;
  std::atomic<bool> is_over_ = false;
  ending why_;  // valid if is_over_
};

/// The transport of one rank, for one thread at a time. Copies each message once, from sender to
/// receiver.
class in_process {
 public:
  struct request {
    int from = -1;
    int to = -1;
    std::uint64_t number = 0;
    bool is_send = false;
    std::size_t bytes = 0;
  };

  /// @throws std::invalid_argument  rank out of range
  in_process(in_process_world& world, int rank) : world_(&world), rank_(rank) {
    detail::require_peer("in_process", rank, size(), "transport");
  }

  int rank() const { return rank_; }
  int size() const { return world_->size(); }
  std::uint64_t group() const { return world_->group_; }
  bool reaches(memory_space space) const { return space == memory_space::host; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    detail::require_peer("isend", peer, size(), "transport");
    return or_withdraw([&] {
      auto& channel = world_->between(rank_, peer);
      std::lock_guard const lock(channel.mutex);
      world_->throw_if_over();
      channel.messages.push_back({++channel.sent, tag, bytes});
      bytes_sent_ += bytes.size();
      match(channel);
      return request{rank_, peer, channel.sent, true, bytes.size()};
    });
  }

  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    detail::require_peer("irecv", peer, size(), "transport");
    return or_withdraw([&] {
      auto& channel = world_->between(peer, rank_);
      std::lock_guard const lock(channel.mutex);
      world_->throw_if_over();
      channel.receives.push_back({++channel.posted, tag, bytes});
      match(channel);
      return request{peer, rank_, channel.posted, false, bytes.size()};
    });
  }

  std::size_t wait(request& r) {
    return or_withdraw([&] { return r.is_send ? wait_for_send(r) : wait_for_receive(r); });
  }

  /// The result of `wait` if it would return at once; otherwise empty. Does not wait for a message
  /// that another thread is copying, so that the caller can copy one meanwhile.
  std::optional<std::size_t> test(request& r) {
    return or_withdraw([&]() -> std::optional<std::size_t> {
      auto& channel = world_->between(r.from, r.to);
      {
        std::unique_lock const lock(channel.mutex, std::try_to_lock);
        if (!lock) return std::nullopt;
        int const peer = r.is_send ? r.to : r.from;
        bool const is_done = r.is_send ? has_arrived(channel, r) : receive_of(channel, r)->done;
        if (!is_done && !world_->is_over_ && !world_->has_left(peer)) return std::nullopt;
      }
      return wait(r);
    });
  }

  /// @throws wire_error  always, and on all ranks
  [[noreturn]] void revoke(std::string const& why) {
    world_->end({-1, why});
    or_withdraw([&] { world_->throw_if_over(); });
    throw wire_error(why);
  }

 private:
  std::vector<in_process_world::receive>::iterator receive_of(in_process_world::channel& channel,
                                                              request const& r) const {
    auto const found = std::find_if(channel.receives.begin(), channel.receives.end(),
                                    [&](auto const& one) { return one.number == r.number; });
    if (found == channel.receives.end()) {
      world_->throw_if_over();
      throw transport_error(
          r.from,
          detail::error_text({"in_process: an earlier call of rank ", rank_,
                              " failed, it cannot receive from rank ", r.from, " any more"}));
    }
    return found;
  }
  std::size_t wait_for_send(request const& r) {
    auto& channel = world_->between(r.from, r.to);
    std::unique_lock lock(channel.mutex);
    wait_until(channel, lock, r.to, [&] { return has_arrived(channel, r); });
    return r.bytes;
  }
  static bool has_arrived(in_process_world::channel const& channel, request const& send) {
    return std::none_of(channel.messages.begin(), channel.messages.end(),
                        [&](auto const& message) { return message.number == send.number; });
  }
  std::size_t wait_for_receive(request const& r) {
    auto& channel = world_->between(r.from, r.to);
    std::unique_lock lock(channel.mutex);
    auto const mine = [&] { return receive_of(channel, r); };
    wait_until(channel, lock, r.from, [&] { return mine()->done; });
    std::size_t const came = mine()->came;
    channel.receives.erase(mine());
    lock.unlock();
    if (came > r.bytes) {
      world_->end(
          {r.from, detail::error_text({"in_process: rank ", r.from, " sent ", came, " bytes, rank ",
                                       r.to, " expected at most ", r.bytes})});
      world_->throw_if_over();
    }
    return came;
  }

  /// @throws transport_error, wire_error  communication has ended, or `peer` has finished, and
  ///                          `done` is false
  template <class Done>
  void wait_until(in_process_world::channel& channel, std::unique_lock<std::mutex>& lock, int peer,
                  Done const& done) {
    channel.changed.wait(lock,
                         [&] { return world_->is_over_ || world_->has_left(peer) || done(); });
    if (done()) return;
    lock.unlock();
    if (!world_->is_over_) world_->end_without(peer, rank_);
    world_->throw_if_over();
  }

  /// Returns the result of `call`. If it throws, no other rank accesses this rank's memory any
  /// more, so the caller may free it.
  template <class F> auto or_withdraw(F const& call) -> decltype(call()) {
    try {
      return call();
    } catch (std::runtime_error const&) {
      for (int peer = 0; peer < size(); ++peer) {
        {
          auto& out = world_->between(rank_, peer);
          std::lock_guard const lock(out.mutex);
          out.messages.clear();
          out.changed.notify_all();
        }
        auto& in = world_->between(peer, rank_);
        std::lock_guard const lock(in.mutex);
        in.receives.clear();
      }
      throw;
    }
  }

  /// Copies every message with a matching receive. The channel must be locked.
  static void match(in_process_world::channel& channel) {
    for (auto& receive : channel.receives) {
      if (receive.done) continue;
      auto const found =
          std::find_if(channel.messages.begin(), channel.messages.end(),
                       [&](auto const& message) { return message.tag == receive.tag; });
      if (found == channel.messages.end()) continue;
      receive.came = found->bytes.size();
      if (std::size_t const n = std::min(receive.came, receive.bytes.size()))
        std::memcpy(receive.bytes.data(), found->bytes.data(), n);
      receive.done = true;
      channel.messages.erase(found);
      channel.changed.notify_all();
    }
  }

  in_process_world* world_;
  int rank_;
  std::uint64_t bytes_sent_ = 0;
};

static_assert(Transport<in_process>);

/// Runs `rank_main(in-process transport&)` on `ranks` threads and waits for all of them. If one
/// throws, the transports of all other ranks throw transport_error, and this function rethrows the
/// first exception.
template <class F> void run_ranks(int ranks, F const& rank_main) {
  in_process_world world(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  auto const guarded = [&](int rank) {
    std::string why = "unknown exception";
    try {
      in_process transport(world, rank);
      rank_main(transport);
      world.leave(rank);
      return;
    } catch (std::exception const& error) {
      why = error.what();
      std::lock_guard const lock(mutex);
      if (!first) first = std::current_exception();
    } catch (...) {
      std::lock_guard const lock(mutex);
      if (!first) first = std::current_exception();
    }
    world.fail(rank, why);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(guarded, rank);
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace hcomp
