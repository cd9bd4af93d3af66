#pragma once
/// @file
/// All-reduces by a rule with when=faster, compared with plain ones and with the rule alone.

#include <cstddef>
#include <string>

struct faster_options {
  std::string rule = "float: fp16";  ///< without when=
  std::size_t values = 1'000'000;    ///< floats of a vector
  double seconds = 10;
  std::string rate_file;  ///< always contains the current rate of the links; may be empty
};

/// Rank 0 prints the times of the all-reduces and their speed relative to plain ones. Collective,
/// with the library preloaded. Without the library or with a wrong rule, ends the job with an error
/// text.
void measure_faster(faster_options const& options);
