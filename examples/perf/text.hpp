#pragma once
/// @file
/// Numbers with units, as text.

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>

namespace perf {

/// "64 KiB"; "100 B" if it is no multiple of a larger unit.
inline std::string size_text(std::uint64_t bytes) {
  for (auto const& [unit, size] : {std::pair{'G', 1u << 30}, {'M', 1u << 20}, {'K', 1u << 10}})
    if (bytes >= size && bytes % size == 0) return fmt::format("{} {}iB", bytes / size, unit);
  return fmt::format("{} B", bytes);
}

/// "65.7 kB": decimal units, as usual for networks.
inline std::string bytes_text(double bytes) {
  for (auto const& [unit, size] : {std::pair{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}})
    if (bytes >= size) return fmt::format("{:.1f} {}", bytes / size, unit);
  return fmt::format("{:.0f} B", bytes);
}

inline std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

/// @param rate  in bit/s
inline std::string rate_text(double rate) {
  if (rate < 1e9) return fmt::format("{:.4g} Mbit/s", rate / 1e6);
  return fmt::format("{:.4g} Gbit/s", rate / 1e9);
}

}  // namespace perf
