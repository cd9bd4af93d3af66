#pragma once
/// @file
/// The interface for additions outside the process of the aggregation server, for example in the
/// kernel.

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

/// Additions of the indices of one job. Words, joins and malformed packets stay with the server.
///
/// Most contributions bypass the server. Contributions that reach it on another path are passed to
/// `take`, so that each result has a single place.
class offloaded_sums {
 public:
  virtual ~offloaded_sums() = default;
  /// From now on accepts contributions of `header.rank` from this address and session.
  virtual void let_in(frame const& header, address const& from) = 0;
  /// Sends no more answers to this rank.
  virtual void leave(int rank) = 0;
  /// As in `aggregator`, for packets of type indices and deadlines of results.
  virtual aggregator_answer take(int rank, std::span<std::byte const> packet,
                                 std::chrono::nanoseconds now) = 0;
  virtual aggregator_answer expire(std::chrono::nanoseconds now) = 0;
  virtual std::chrono::nanoseconds time_left(std::chrono::nanoseconds now) const = 0;
  virtual aggregator_stats stats() const = 0;

  virtual std::chrono::nanoseconds last_heard() const = 0;  ///< time of the last contribution; 0:
                                                            ///< none yet
  /// Datagrams that bypassed the server: received, sent, not sent.
  struct traffic {
    std::uint64_t received = 0, sent = 0, lost_here = 0;
  };
  virtual traffic datagrams() const = 0;
};

/// Creates offloaded_sums for a server.
class offload {
 public:
  virtual ~offload() = default;
  /// Returns null if it cannot take this job; then the server processes it.
  /// @param options   accepted by an aggregator
  /// @param sum_bits  bits per number in packets of type sums
  virtual std::unique_ptr<offloaded_sums> take_on(std::uint32_t job,
                                                  aggregator_options const& options,
                                                  int sum_bits) = 0;
};

}  // namespace hcomp::udp
