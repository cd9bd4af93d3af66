#pragma once
/// @file
/// The command hcomp-aggregator as a process.

#include <doctest/doctest.h>
#include <functional>
#include <string>
#include <support/process.hpp>
#include <vector>

namespace hcomp::testing {

/// Runs hcomp-aggregator until the destructor.
class aggregator_process : public child_process {
 public:
  /// @param prepare  runs in the child process before exec
  explicit aggregator_process(std::vector<std::string> options,
                              std::function<void()> const& prepare = {})
      : child_process(
            [&] {
              if (prepare) prepare();
              options.insert(options.begin(), HCOMP_AGGREGATOR);
              return execute(options);
            },
            STDOUT_FILENO) {
    auto const first = read_line();
    std::string const before = "hcomp-aggregator: listens on ";
    REQUIRE_MESSAGE(first.starts_with(before), first);
    address = first.substr(before.size());
  }

  std::string address;
};

}  // namespace hcomp::testing
