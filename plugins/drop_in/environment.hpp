#pragma once
/// @file
/// Environment variables besides HCOMP_CONFIG and HCOMP_CODECS, and messages, for the preloaded
/// libraries and hcomp-info.

#include <cstddef>
#include <optional>
#include <string>

namespace hcomp::drop_in {

/// Writes a line to standard error.
void print(std::string const& text);
/// Prints each text once.
void print_once(std::string const& text);

/// The variable's value; empty if it is not set.
std::string variable(char const* name);

// Each function returns the variable's value or its default.
// @throws std::invalid_argument  names the variable, its value, and the valid values

/// Checks that no variable is called HCOMP_CONF... instead of HCOMP_CONFIG.
void require_no_misspelt_config();
/// HCOMP_REPORT: empty, "summary" or "json:FILE".
std::string report_from_environment();
/// HCOMP_SHADOW: number of trial calls per communicator, like `shadow` in HCOMP_CONFIG.
std::optional<std::size_t> shadow_from_environment();
/// HCOMP_TIMEOUT: seconds that rank 0 waits in MPI_Init for a message from each rank. Default: 60.
int timeout_from_environment();

/// Checks that this rank can write the report. Leaves an existing file unchanged.
/// @throws std::invalid_argument  the file is not writable; gives the reason
void require_writable_report(std::string const& report);

}  // namespace hcomp::drop_in
