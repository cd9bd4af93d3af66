#pragma once
/// @file
/// The programs of adder.bpf.c: loads them, attaches them to an interface, and gives them jobs.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/aggregation/aggregator_options.hpp>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/offload.hpp>
#include <memory>
#include <string>

namespace hcomp::xdp {

/// Settings of a kernel_adder.
struct adder_options {
  std::string interface;      ///< where contributions arrive and answers leave
  std::size_t jobs = 64;      ///< at a time
  std::size_t slots = 65536;  ///< sums under way or kept, of all jobs: 1.1 KiB each
  bool generic = false;       ///< even where the driver could run the program by itself
};

/// Sums that the kernel makes as contributions arrive, before they reach a socket.
///
/// It does jobs of up to 64 workers with indices of 1, 2 or 4 bits and sums of 8 bits, or 2, 4 or 8
/// and 16 bits, in packets of up to 1024 or 512 values. All that is attached ends with this object, and
/// with the process, however that ends: exception: before Linux 6.6 a filter remains that does nothing.
class kernel_adder : public udp::offload {
 public:
  /// @param listen  of the server's socket, IPv4, with its port
  /// @throws std::runtime_error  no such interface, no right to do this, another XDP program there
  kernel_adder(udp::address const& listen, adder_options const& options);
  ~kernel_adder() override;

  std::unique_ptr<udp::offloaded_sums> take_on(std::uint32_t job, aggregator_options const& options,
                                               int sum_bits) override;
  /// "eth0, by its driver" or "eth0, in generic mode".
  std::string text() const;
  /// What the programs took so far: "receive 12 times, 0.1 s; ...". Linux counts it only while
  /// kernel.bpf_stats_enabled is 1; empty if it never was.
  std::string time_text() const;

 private:
  class programs;
  class sums;
  std::unique_ptr<programs> programs_;
};

}  // namespace hcomp::xdp
