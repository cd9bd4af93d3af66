#pragma once
/// @file
/// Matrices as those who multiply them take them.

namespace train {

/// A matrix by columns, in the memory of some executor.
struct matrix {
  float* values;
  int rows, columns;        ///< as they lie in memory
  int stride;               ///< values from one column to the next, >= rows
  bool is_flipped = false;  ///< what is meant is the transpose
};

constexpr matrix transposed(matrix m) {
  m.is_flipped = !m.is_flipped;
  return m;
}

}  // namespace train
