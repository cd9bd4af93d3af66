#pragma once
/// @file
/// Sums by a rule with when=faster beside plain ones, and beside the rule alone.

#include <cstddef>
#include <string>

struct faster_options {
  std::string rule = "float: fp16";  ///< without when=
  std::size_t values = 1'000'000;    ///< floats of a vector
  double seconds = 10;
  std::string rate_file;  ///< in which stands, at any time, how quick the links are; may be empty
};

/// Prints, on rank 0, what sums took and how they did against plain ones. Collective, with the library
/// preloaded. Ends the job with a text if that is not so or the rule is wrong.
void measure_faster(faster_options const& options);
