#pragma once
/// @file
/// Pictures, drawn by the program gnuplot.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

namespace example {

/// @throws std::runtime_error  gnuplot is missing: better known before hours of work
inline void require_gnuplot() {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
    throw std::runtime_error(
        "--plot needs the program gnuplot, which was not found; on Debian: apt install "
        "gnuplot-nox");
}

/// Runs a script.
/// @throws std::runtime_error  gnuplot is missing or fails
inline void gnuplot(std::string const& script) {
  FILE* const pipe = popen("gnuplot", "w");
  if (pipe == nullptr) throw std::runtime_error("gnuplot cannot be started");
  bool const written = std::fwrite(script.data(), 1, script.size(), pipe) == script.size();
  if (int const status = pclose(pipe); !written || status != 0)
    throw std::runtime_error("gnuplot failed with status " + std::to_string(status));
}

/// @throws std::runtime_error  the file cannot be written; nothing in it is changed
inline void require_writable(std::string const& file) {
  if (!file.empty() && !std::ofstream(file, std::ios::app))
    throw std::runtime_error(file + " cannot be written");
}

}  // namespace example
