#pragma once
/// @file
/// What sums of sparse vectors send.

#include <hcomp/op/sparse_sum.hpp>

namespace perf {

/// Bytes that the index and what was chosen after it make a rank send at least.
inline double bytes_of(hcomp::sparse_choice const& choice, int ranks) {
  auto const chosen = choice.strategy == hcomp::sparse_strategy::dense    ? choice.dense_bytes
                      : choice.strategy == hcomp::sparse_strategy::packed ? choice.packed_bytes
                                                                          : choice.sketched_bytes;
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(choice.index_bytes + chosen);
}

}  // namespace perf
