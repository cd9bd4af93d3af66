#pragma once
/// @file
/// Packets between the workers and aggregators of all ranks, in a time that passes only while all
/// of them wait: who comes when depends on draws and settings, not on how quick a machine is.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/transport/packet_link.hpp>
#include <mutex>
#include <span>
#include <vector>

#include "paced_transport.hpp"

namespace train {

/// The packets of one rank, on which a worker and an aggregator live.
///
/// Of P ranks, worker r of the links is on rank r, and aggregator P + r, too. Sent packets arrive
/// when the receivers next look, in an order that is always the same. Once all workers and
/// aggregators wait and no packet is under way, the clock, common to all ranks, moves on to the
/// first moment at which one of them stops waiting. The worker is used by the thread that may use
/// the transport, the aggregator by another one.
class lockstep {
  struct mailbox {
    std::vector<std::vector<std::byte>> out = {};  ///< by rank: packets after their envelopes
    std::vector<std::byte> in = {};                ///< the same, and
    std::size_t read = 0;                          ///< how much of it has been received
    std::uint64_t bytes_sent = 0;
    std::chrono::nanoseconds wakes{};  ///< when the one who waits for a packet stops waiting
  };

 public:
  /// One of the two PacketLinks.
  class link {
   public:
    link(lockstep& post, bool aggregates) : post_(&post), aggregates_(aggregates) {}

    int rank() const { return post_->rank() + (aggregates_ ? post_->ranks() : 0); }
    int size() const { return 2 * post_->ranks(); }
    std::uint64_t bytes_sent() const { return box().bytes_sent; }
    std::chrono::nanoseconds now() const { return post_->now_; }
    void send(int peer, std::span<std::byte const> packet);
    hcomp::received_packet receive(std::span<std::byte> room, std::chrono::nanoseconds timeout);

   private:
    mailbox& box() const { return aggregates_ ? post_->aggregator_ : post_->worker_; }

    lockstep* post_;
    bool aggregates_;
  };
  /// Thrown out of the aggregator's `receive` by `stop`.
  struct stopped {};

  explicit lockstep(paced_transport& transport);
  lockstep(lockstep const&) = delete;
  lockstep& operator=(lockstep const&) = delete;

  int rank() const { return transport_->rank(); }
  int ranks() const { return transport_->size(); }
  link worker() { return {*this, false}; }
  link aggregator() { return {*this, true}; }
  double seconds() const { return seconds_; }  ///< spent with waiting for other ranks

  /// Called by all workers: returns when all are here. Packets for them are dropped, aggregators go
  /// on.
  /// @throws hcomp::nonfinite_error  a worker has given up instead
  void meet();
  /// The same, when all aggregators have ended, too.
  void part();
  /// Instead of meet, for a worker that met NaN or infinity: the others' next wait throws.
  void give_up();
  /// Ends the aggregator's waiting without other ranks. Nothing else may follow.
  void stop();
  /// Called by the aggregator's thread as its last.
  /// @param why  thrown to the worker when it waits next, if there is something
  void aggregator_ends(std::exception_ptr why);

 private:
  enum class state : std::uint64_t { busy, here, failed };
  struct notice;

  hcomp::received_packet receive_as_worker(std::span<std::byte> room);
  hcomp::received_packet receive_as_aggregator(std::span<std::byte> room);
  bool aggregator_is_idle();
  bool exchange(state mine);
  std::vector<notice> move_packets(notice const& own);

  paced_transport* transport_;
  mailbox worker_, aggregator_;
  std::chrono::nanoseconds now_{};
  double seconds_ = 0;
  bool is_over_ = false;                          ///< a worker has given up
  std::vector<std::vector<std::byte>> out_, in_;  ///< by rank

  std::mutex mutex_;  ///< of what follows; all else belongs to the aggregator until it waits
  std::condition_variable changed_;
  bool aggregator_waits_ = false, aggregator_ended_ = false, stopped_ = false;
  std::exception_ptr why_;
};

static_assert(hcomp::PacketLink<lockstep::link>);

}  // namespace train
