#pragma once
/// @file
/// The table of kernels/README.md that says what kernels do per value.

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

namespace hcomp::testing {

/// Of a value, in all kernels that do this work.
struct work_row {
  double instructions = 0;  ///< ptx::figures::issued
  double sectors = 0;       ///< their bytes, divided by the bytes that must move
  double asked = 0;         ///< what the sectors should be at most
  double local = 0;         ///< accesses to local memory
};
using work_table = std::map<std::string, work_row>;

inline constexpr char const* work_table_head =
    "| work | instructions | sectors | asked | local accesses |";

/// As the page has it.
inline std::string text_of(std::string const& work, work_row const& r) {
  char text[128];
  std::snprintf(text, sizeof(text), "| %s | %.1f | %.2f | %.2f | %.2f |", work.c_str(),
                r.instructions, r.sectors, r.asked, r.local);
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
      if (line.starts_with("|")) continue;  // below the head
      break;
    }
    std::size_t const end = line.find(" |");
    work_row r;
    if (std::sscanf(line.c_str() + end, " | %lf | %lf | %lf | %lf |", &r.instructions, &r.sectors,
                    &r.asked, &r.local) == 4)
      found[line.substr(2, end - 2)] = r;
  }
  return found;
}

}  // namespace hcomp::testing
