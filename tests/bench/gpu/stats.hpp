#pragma once
/// @file
/// What bench_gpu measures, as JSON and as a table of Markdown, and what it compares with.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpu_bench {

/// Fingerprints of what plans make of vectors of one length on the host, by the names of the works.
std::map<std::string, std::uint64_t> made_by_host(std::size_t values);

inline std::uint64_t print_of(std::span<std::byte const> bytes) {
  return hcomp::fingerprint(hcomp::serial_group{}, bytes.data(), bytes.size());
}

struct figure {
  std::string work;
  double seconds;
  double bytes;                       ///< that must move: values once, codes once
  std::optional<bool> is_as_on_host;  ///< the bytes that it made; nothing if they were not compared
};

/// A whole sum of ranks that share the device.
struct sum_figure {
  std::string codec;
  double seconds;
  double bus_seconds;   ///< that the bus needs for all ranks' messages
  double host_seconds;  ///< that threads need to copy them from one rank to another

  double of_limit() const { return seconds / std::max(bus_seconds, host_seconds); }
};

/// Of vectors of one length.
struct size_stats {
  std::size_t values;
  double copy_rate;  ///< bytes per second that the device copies, read and written
  std::vector<figure> works;
  std::vector<sum_figure> sums;
};

struct device_stats {
  std::string device, label;  ///< the label of a variant, or none
  bool is_gpu;  ///< otherwise the PTX machine of tests/support/ptx, whose seconds say nothing
  int driver, runtime;
  int multiprocessors;
  double clock_GHz;  ///< the highest; 0 if unknown
  std::size_t turns;
  std::vector<size_stats> sizes;
};

/// @throws std::runtime_error  cannot be written
void write_json(device_stats const& all, std::string const& path);

/// Prints shares of the rate of a copy, a column for each size in each file, beside those that the
/// counts of ptx.per_value on `page` promise; then whole sums, beside what bus and host need for their
/// messages.
/// @param paths  of JSON made by write_json, or {"bench": [...]} of several
/// @throws std::runtime_error  cannot be read, or from different devices
void print_report(std::vector<std::string> const& paths, std::string const& page);

}  // namespace gpu_bench
