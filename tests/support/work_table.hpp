#pragma once
/// @file
/// The table of kernels/README.md with the work of kernels per value.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

namespace hcomp::testing {

/// Per value, over all kernels of this work.
struct work_row {
  double instructions = 0;  ///< ptx::stats::issued
  double sectors = 0;       ///< their bytes, divided by the bytes that must move
  double asked = 0;         ///< upper limit of `sectors`
  double local = 0;         ///< accesses to local memory
  double share = 0;         ///< promised_share on an H200
};
/// Rates of a device.
struct device_rates {
  double copy;          ///< bytes per second, read and written
  double instructions;  ///< of threads, per second: 128 per clock of a multiprocessor
};
inline constexpr device_rates h200{4.3e12, 128 * 132 * 1.755e9};

/// The share of a copy's rate that the counts allow: the time of a value is that of its sectors, or
/// that of its instructions.
inline double promised_share(work_row const& r, double bytes_per_value,
                             device_rates const& device) {
  double const least = bytes_per_value / device.copy;
  return least / std::max(least * r.sectors, r.instructions / device.instructions);
}

/// The target of the share, by the name of the work; 0 for work without a target.
inline double target_of(std::string const& work) {
  static std::map<std::string, double> const targets{
      {"sign encode", 0.85},          {"sign encode, error feedback", 0.85},
      {"sign decode", 0.85},          {"sign decode, global compensation", 0.85},
      {"sign merge", 0.80},           {"thc encode", 0.60},
      {"thc decode", 0.60},           {"thc merge", 0.85},
      {"inceptionn encode", 0.60},    {"inceptionn decode", 0.70},
      {"error_bounded encode", 0.50}, {"error_bounded decode", 0.50},
      {"sparse index, mark", 0.70},   {"sparse_union encode", 0.70},
      {"lhc encode", 0.40},
  };
  auto const found = targets.find(work);
  return found == targets.end() ? 0 : found->second;
}

using work_table = std::map<std::string, work_row>;

inline constexpr char const* work_table_head =
    "| work | instructions | sectors | asked | local accesses | share | target |";

/// The line of the page.
inline std::string text_of(std::string const& work, work_row const& r) {
  char text[128], target[8] = "";
  if (target_of(work) > 0) std::snprintf(target, sizeof(target), " %.2f", target_of(work));
  std::snprintf(text, sizeof(text), "| %s | %.1f | %.2f | %.2f | %.2f | %.2f |%s |", work.c_str(),
                r.instructions, r.sectors, r.asked, r.local, r.share, target);
  return text;
}

/// Empty if the page has no such table, or cannot be read.
inline work_table read_work_table(std::string const& page) {
  std::ifstream in(page);
  work_table found;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (!inside) {
      inside = line == work_table_head;
      continue;
    }
    if (!line.starts_with("| ")) {
      if (line.starts_with("|")) continue;  // after the head
      break;
    }
    std::size_t const end = line.find(" |");
    work_row r;
    if (std::sscanf(line.c_str() + end, " | %lf | %lf | %lf | %lf | %lf |", &r.instructions,
                    &r.sectors, &r.asked, &r.local, &r.share) == 5)
      found[line.substr(2, end - 2)] = r;
  }
  return found;
}

}  // namespace hcomp::testing
