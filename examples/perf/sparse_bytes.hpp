#pragma once
/// @file
/// Bytes that an all-reduce of sparse vectors sends.

#include <hcomp/op/sparse_sum.hpp>

namespace perf {

/// Lower bound of the bytes that a rank sends: the index and the chosen encoding of the values.
inline double bytes_of(hcomp::sparse_choice const& choice, int ranks) {
  auto const chosen = choice.strategy == hcomp::sparse_strategy::dense    ? choice.dense_bytes
                      : choice.strategy == hcomp::sparse_strategy::packed ? choice.packed_bytes
                                                                          : choice.sketched_bytes;
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(choice.index_bytes + chosen);
}

}  // namespace perf
