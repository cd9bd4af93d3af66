#pragma once
/// @file
/// Packets between the workers and aggregators of all ranks, in simulated time. Time passes only
/// while all of them wait. The order of events depends on draws and settings, not on the machine's
/// speed.

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

/// The packet links of one rank: one for its worker, one for its aggregator.
///
/// On P ranks, rank r has worker r and aggregator P + r of the links. A packet arrives at the
/// receiver's next call of `receive`, in a deterministic order. All ranks share one clock. When all
/// workers and aggregators wait and no packet is in flight, the clock advances to the earliest
/// timeout.
///
/// The thread that may use the transport uses the worker's link. Another thread uses the
/// aggregator's link.
class lockstep {
  struct mailbox {
    std::vector<std::vector<std::byte>> out = {};  ///< by rank: packets, each after its envelope
    std::vector<std::byte> in = {};                ///< received packets, in the same format
    std::size_t read = 0;                          ///< bytes of `in` that receive() has returned
    std::uint64_t bytes_sent = 0;
    std::chrono::nanoseconds wakes{};  ///< timeout of the waiting receiver
  };

 public:
  /// The PacketLink of the worker or of the aggregator.
  class link {
   public:
    link(lockstep& post, bool aggregates) : post_(&post), aggregates_(aggregates) {}

    int rank() const { return post_->rank() + (aggregates_ ? post_->ranks() : 0); }
    int size() const { return 2 * post_->ranks(); }
    std::uint64_t bytes_sent() const { return box().bytes_sent; }
    std::chrono::nanoseconds now() const { return post_->now_; }
    void send(int peer, std::span<std::byte const> packet);
    hcomp::received_packet receive(std::span<std::byte> buffer, std::chrono::nanoseconds timeout);

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
  double seconds() const { return seconds_; }  ///< time spent waiting for other ranks

  /// Barrier of all workers. Drops packets for workers. Aggregators continue.
  /// @throws hcomp::nonfinite_error  a worker has called give_up()
  void meet();
  /// Barrier of all workers that also waits until all aggregators have ended.
  void part();
  /// A worker with NaN or infinity calls it instead of meet(). The next wait of all other ranks
  /// throws.
  void give_up();
  /// Ends the aggregator's wait without the other ranks. It must be the last call.
  void stop();
  /// Last call of the aggregator's thread.
  /// @param why  if not null, the worker's next wait throws it
  void aggregator_ends(std::exception_ptr why);

 private:
  enum class state : std::uint64_t { busy, here, failed };
  struct notice;

  hcomp::received_packet receive_as_worker(std::span<std::byte> buffer);
  hcomp::received_packet receive_as_aggregator(std::span<std::byte> buffer);
  bool aggregator_is_idle();
  bool exchange(state mine);
  std::vector<notice> move_packets(notice const& own);

  paced_transport* transport_;
  mailbox worker_, aggregator_;
  std::chrono::nanoseconds now_{};
  double seconds_ = 0;
  bool is_over_ = false;                          ///< a worker has called give_up()
  std::vector<std::vector<std::byte>> out_, in_;  ///< by rank

  std::mutex mutex_;  ///< guards the members below; all other state belongs to the aggregator until
                      ///< it waits
  std::condition_variable changed_;
  bool aggregator_waits_ = false, aggregator_ended_ = false, stopped_ = false;
  std::exception_ptr why_;
};

static_assert(hcomp::PacketLink<lockstep::link>);

}  // namespace train
