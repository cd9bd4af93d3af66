#pragma once
/// @file
/// Results as a page for people: charts and tables in one HTML file that needs nothing else.

#include <string>
#include <vector>

#include "result.hpp"

namespace perf {

/// @param results  of one or more networks and MPI libraries
/// @throws std::runtime_error  gnuplot is missing or fails; there is nothing to show
std::string report_page(std::vector<result> const& results);

/// @param file  overwritten
/// @throws std::runtime_error  as report_page(), or the file cannot be written
void write_report(std::vector<result> const& results, std::string const& file);

}  // namespace perf
