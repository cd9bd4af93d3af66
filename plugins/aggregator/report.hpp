#pragma once
/// @file
/// Statistics of hcomp-aggregator as text and as JSON.

#include <hcomp/udp/aggregation_server.hpp>
#include <string>

namespace hcomp::aggregator_command {

/// Statistics as text. Omits faults that never occurred.
std::string to_text(udp::aggregation_server const& server);

/// All statistics as a JSON object.
std::string to_json(udp::aggregation_server const& server);

/// Replaces `file` atomically.
/// @throws std::runtime_error  the file is not writable
void write_file(std::string const& file, std::string const& text);

}  // namespace hcomp::aggregator_command
