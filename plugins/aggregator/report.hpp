#pragma once
/// @file
/// What hcomp-aggregator has counted, for people and as JSON.

#include <hcomp/udp/aggregation_server.hpp>
#include <string>

namespace hcomp::aggregator_command {

/// Some lines; faults that never came are left out.
std::string to_text(udp::aggregation_server const& server);

/// An object of JSON with all counts.
std::string to_json(udp::aggregation_server const& server);

/// Replaces `file`, so that who reads it never finds half of it.
/// @throws std::runtime_error  it cannot be written
void write_file(std::string const& file, std::string const& text);

}  // namespace hcomp::aggregator_command
