#pragma once
/// @file
/// Operands of matrix products.

namespace train {

/// A column-major matrix in the memory of an executor.
struct matrix {
  float* values;
  int rows, columns;        ///< in memory, before transposition
  int stride;               ///< distance of two columns in values, >= rows
  bool is_flipped = false;  ///< the operand is the transpose
};

constexpr matrix transposed(matrix m) {
  m.is_flipped = !m.is_flipped;
  return m;
}

}  // namespace train
