#pragma once
/// @file
/// Name of the processor.

#include <fmt/core.h>

#include <fstream>
#include <string>
#include <thread>

namespace perf {

/// "AMD EPYC 9R14, 2 cores": the processor and the number of cores that this process may use.
/// Source: proc(5), /proc/cpuinfo.
inline std::string this_machine() {
  std::string model = "a processor without a name";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) {
      model = line.substr(line.find(": ") + 2);
      break;
    }
  auto const cores = std::thread::hardware_concurrency();
  return fmt::format("{}, {} core{}", model, cores, cores == 1 ? "" : "s");
}

}  // namespace perf
