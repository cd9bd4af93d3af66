#pragma once
/// @file
/// Sums that are made elsewhere than in the aggregation server's process, such as in the kernel.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/aggregation/aggregator.hpp>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/frame.hpp>
#include <memory>
#include <span>

namespace hcomp::udp {

/// The sums of indices of one job. Words, joins, and all that is malformed stay with the server.
///
/// Most contributions never come to the server. Those that do, because they took another way, are
/// given to `take`, so that there is one place for every sum.
class offloaded_sums {
 public:
  virtual ~offloaded_sums() = default;
  /// From now on contributions of `header.rank`, from this address and session, are its own.
  virtual void let_in(frame const& header, address const& from) = 0;
  /// No further answers go to this rank.
  virtual void leave(int rank) = 0;
  /// As of `aggregator`, of packets of kind indices and with deadlines of sums.
  virtual aggregator_answer take(int rank, std::span<std::byte const> packet,
                                 std::chrono::nanoseconds now) = 0;
  virtual aggregator_answer expire(std::chrono::nanoseconds now) = 0;
  virtual std::chrono::nanoseconds time_left(std::chrono::nanoseconds now) const = 0;
  virtual aggregator_stats stats() const = 0;

  virtual std::chrono::nanoseconds last_heard() const = 0;  ///< a contribution; 0: none yet
  /// Datagrams that the server has not seen: received, sent, not sent.
  struct traffic {
    std::uint64_t received = 0, sent = 0, lost_here = 0;
  };
  virtual traffic datagrams() const = 0;
};

/// Who makes sums for a server.
class offload {
 public:
  virtual ~offload() = default;
  /// Null where it cannot do this job; then the server does.
  /// @param options   that an aggregator has accepted
  /// @param sum_bits  of a number in packets of kind sums
  virtual std::unique_ptr<offloaded_sums> take_on(std::uint32_t job,
                                                  aggregator_options const& options,
                                                  int sum_bits) = 0;
};

}  // namespace hcomp::udp
