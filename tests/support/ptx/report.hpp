#pragma once
/// @file
/// Reports of the machine on a program: errors that end it, findings that make it fail, statistics.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <support/ptx/program.hpp>
#include <support/ptx/stats.hpp>
#include <tuple>
#include <utility>

namespace hcomp::ptx {

/// Settings of a run, from environment variables.
///
/// | HCOMP_PTX_... | |
/// |---|---|
/// | CHECKS=0 | no checks for races and uninitialised bytes: faster |
/// | ORDER=0, 1, 2 | blocks, warps and lanes run in their order, in reverse, or shuffled |
/// | SEED=n | seed of ORDER=2 |
/// | MULTIPROCESSORS=n | the number that the device reports; default 1 |
/// | EAGER=1 | streams run at once, instead of when a caller waits for them |
/// | STATS=1 | table of each kernel's statistics, and expected findings; much slower |
/// | LONG=1 | read by tests/gpu: all cases instead of a selection |
struct options {
  bool checks, eager, stats;
  int order;
  std::uint64_t seed;
  int multiprocessors;

  static options const& get();
};

enum class finding { race, uninitialised };

/// Findings, statistics, and the program's end.
class report {
 public:
  static report& get();

  /// Ends the program: kernel, block, thread, line and text are in `where`.
  [[noreturn]] static void fail(std::string const& what);

  void add(finding what, std::string const& detail, kernel const& in, std::size_t at);
  /// Adds the statistics of a launch. Without them, only lists the kernel in the table.
  void add(kernel const& in, stats const& did = {}) {
    stats_[in.name] += did;
    since_taken_ += did;
  }
  /// Statistics of all launches since the last call.
  stats take_stats() {
    counts_sectors_ = true;
    return std::exchange(since_taken_, {});
  }
  /// Counting bytes and sectors is slow.
  bool counts_sectors() const { return counts_sectors_ || options::get().stats; }
  /// Prints the report. Returns whether it has unexpected findings.
  bool finish() const;

 private:
  struct counted {
    std::uint64_t times = 0;
    std::string text;
  };
  std::map<std::tuple<std::string, finding, int, std::string>, counted> findings_;
  std::map<std::string, stats> stats_;  ///< by the kernels' names
  stats since_taken_;
  bool counts_sectors_ = false;
};

/// The demangled C++ name.
std::string demangled(std::string const& name);

}  // namespace hcomp::ptx
