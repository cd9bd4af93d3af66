#pragma once
/// @file
/// What the machine says about a program: errors that end it, findings that make it fail, figures.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <support/ptx/program.hpp>
#include <support/ptx/stats.hpp>
#include <tuple>
#include <utility>

namespace hcomp::ptx {

/// What is set for a run, by environment variables.
///
/// | HCOMP_PTX_... | |
/// |---|---|
/// | CHECKS=0 | no checks for races and uninitialised bytes: faster |
/// | ORDER=0, 1, 2 | blocks, warps and lanes run in their order, in reverse, or shuffled |
/// | SEED=n | of ORDER=2 |
/// | MULTIPROCESSORS=n | how many there are, for who asks: 1 |
/// | EAGER=1 | streams run at once, and not when they are waited for |
/// | STATS=1 | what each kernel executed, as a table at the end, and expected findings; much slower |
/// | LONG=1 | read by tests/gpu: all cases, not a choice of them |
struct options {
  bool checks, eager, stats;
  int order;
  std::uint64_t seed;
  int multiprocessors;

  static options const& get();
};

enum class finding { race, uninitialised };

/// Findings, figures, and the program's end.
class report {
 public:
  static report& get();

  /// Ends the program: kernel, block, thread, line and text are in `where`.
  [[noreturn]] static void fail(std::string const& what);

  void add(finding what, std::string const& detail, kernel const& in, std::size_t at);
  /// What a launch did. With none, the kernel is in the table nevertheless.
  void add(kernel const& in, stats const& did = {}) {
    stats_[in.name] += did;
    since_taken_ += did;
  }
  /// What all launches did since the last call.
  stats take_stats() {
    counts_sectors_ = true;
    return std::exchange(since_taken_, {});
  }
  /// Bytes and sectors take long to count.
  bool counts_sectors() const { return counts_sectors_ || options::get().stats; }
  /// Prints all of it. Returns whether there is anything that is not expected.
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

/// `name` as people write it.
std::string demangled(std::string const& name);

}  // namespace hcomp::ptx
