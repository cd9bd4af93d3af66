#pragma once
/// @file
/// Measurements of bench_gpu as JSON and as a Markdown table, and their reference values.

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

/// Fingerprints of the results of plans on the host for vectors of one length, by the names of the
/// works.
std::map<std::string, std::uint64_t> made_by_host(std::size_t values);

inline std::uint64_t print_of(std::span<std::byte const> bytes) {
  return hcomp::fingerprint(hcomp::serial_group{}, bytes.data(), bytes.size());
}

struct metric {
  std::string work;
  double seconds;
  double bytes;                       ///< bytes that must move: values once, encoded vectors once
  std::optional<bool> is_as_on_host;  ///< equality of the bytes; empty if they were not compared
};

/// An all-reduce of ranks that share the device.
struct reduction_stats {
  std::string codec;
  double seconds;
  double bus_seconds;   ///< of the bus, for all ranks' messages
  double host_seconds;  ///< of threads that copy them between ranks

  double of_limit() const { return seconds / std::max(bus_seconds, host_seconds); }
};

/// Measurements of vectors of one length.
struct size_stats {
  std::size_t values;
  double copy_rate;  ///< bytes per second of a device copy, read and written
  std::vector<metric> works;
  std::vector<reduction_stats> sums;
};

struct device_stats {
  std::string device, label;  ///< label: name of a variant, or empty
  bool is_gpu;  ///< false: the PTX machine of tests/support/ptx, whose seconds are meaningless
  int driver, runtime;
  int multiprocessors;
  double clock_GHz;  ///< maximum; 0 if unknown
  std::size_t turns;
  std::vector<size_stats> sizes;
};

/// @throws std::runtime_error  the file cannot be written
void write_json(device_stats const& all, std::string const& path);

/// Prints shares of the copy rate, a column per size and file, with the shares predicted by the
/// counts of ptx.per_value on `page`. Then prints all-reduces, with the bus and host times of their
/// messages.
/// @param paths  JSON files from write_json, or {"bench": [...]} of several
/// @throws std::runtime_error  a file cannot be read, or the devices differ
void print_report(std::vector<std::string> const& paths, std::string const& page);

}  // namespace gpu_bench
