#pragma once
/// @file
/// Loads the programs of adder.bpf.c, attaches them to an interface, and assigns jobs to them.

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
  std::string interface;      ///< receives contributions and sends answers
  std::size_t jobs = 64;      ///< limit of concurrent jobs
  std::size_t slots = 65536;  ///< open or kept results of all jobs: 1.1 KiB each
  bool generic = false;       ///< generic mode, even if the driver supports XDP
};

/// In-kernel aggregation: adds contributions on arrival, before they reach a socket.
///
/// Supports jobs of up to 64 workers, with indices and sums of these widths:
///
/// | bits of an index | bits of a sum | largest packet (values) |
/// | ---------------- | ------------- | ----------------------- |
/// | 1, 2, 4          | 8             | 1024                    |
/// | 2, 4, 8          | 16            | 512                     |
///
/// Detaches all programs when the object or the process ends, even after a crash. Exception: before
/// Linux 6.6 an inactive filter remains.
class kernel_adder : public udp::offload {
 public:
  /// @param listen  address and port of the server's IPv4 socket
  /// @throws std::runtime_error  the interface does not exist, permission is missing, or another
  ///                             XDP program is attached
  kernel_adder(udp::address const& listen, adder_options const& options);
  ~kernel_adder() override;

  std::unique_ptr<udp::offloaded_sums> take_on(std::uint32_t job, aggregator_options const& options,
                                               int sum_bits) override;
  /// "eth0, by its driver" or "eth0, in generic mode".
  std::string text() const;
  /// Run time of the programs so far: "receive 12 times, 0.1 s; ...". Linux measures it only while
  /// kernel.bpf_stats_enabled is 1. Empty without a measurement.
  std::string time_text() const;

 private:
  class programs;
  class sums;
  std::unique_ptr<programs> programs_;
};

}  // namespace hcomp::xdp
