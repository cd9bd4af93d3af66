#pragma once
/// @file
/// The environment's settings besides HCOMP_CONFIG and HCOMP_CODECS, for the library and hcomp-info.

#include <cstddef>
#include <optional>
#include <string>

namespace hcomp::drop_in {

/// The variable's value; empty where it is not set.
std::string variable(char const* name);

// What is set, or what is usual. @throws std::invalid_argument  which variable, its value, and what
// it can be

/// HCOMP_REPORT: empty, "summary" or "json:FILE".
std::string report_from_environment();
/// HCOMP_SHADOW: so many calls of a communicator are only tried; as HCOMP_CONFIG says.
std::optional<std::size_t> shadow_from_environment();
/// HCOMP_TIMEOUT: seconds that rank 0 waits in MPI_Init for a rank to say something; 60.
int timeout_from_environment();

/// For the one rank that writes the report, before there is one. The file stays as it was.
/// @throws std::invalid_argument  it cannot be written, and why
void require_writable_report(std::string const& report);

}  // namespace hcomp::drop_in
