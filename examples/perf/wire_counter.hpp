#pragma once
/// @file
/// Bytes that a node sent, counted by its network interface.

#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace perf {

/// Bytes that an interface has sent since its creation, link-layer headers included.
/// @throws std::runtime_error  there is no such interface
/// Source: proc(5), /proc/net/dev; /proc/self shows the network namespace of this process.
inline std::uint64_t bytes_sent_by(std::string const& interface) {
  std::ifstream table("/proc/self/net/dev");
  std::string known;
  for (std::string line; std::getline(table, line);) {
    auto const colon = line.find(':');
    if (colon == std::string::npos) continue;
    auto const name = line.substr(line.find_first_not_of(' '), colon - line.find_first_not_of(' '));
    known += ' ' + name;
    if (name != interface) continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::uint64_t received[8], sent = 0;
    for (auto& metric : received) numbers >> metric;
    if (numbers >> sent) return sent;
  }
  throw std::runtime_error("--interface " + interface + ": this node has" +
                           (known.empty() ? " none" : known));
}

}  // namespace perf
