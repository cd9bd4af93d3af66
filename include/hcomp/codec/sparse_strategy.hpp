#pragma once
/// @file
/// The ways in which a sum of sparse vectors can travel, and the choice between them.

#include <cstddef>
#include <limits>
#include <string>

namespace hcomp {

/// How values travel once it is known which are not zero.
enum class sparse_strategy {
  dense,     ///< all of them
  packed,    ///< as sparse_union
  sketched,  ///< as lhc
};
inline char const* to_text(sparse_strategy strategy) {
  return strategy == sparse_strategy::dense    ? "dense"
         : strategy == sparse_strategy::packed ? "sparse_union"
                                               : "lhc";
}

/// Which ways may be chosen; equal on all ranks.
struct sparse_strategies {
  bool dense = true, packed = true, sketched = true;
  /// Packing has a price of its own: dense, unless another way takes less than this share of it.
  double worthwhile = 0.8;
};

/// What was chosen, and why.
struct sparse_choice {
  sparse_strategy strategy = sparse_strategy::dense;
  std::size_t values = 0, marked = 0;  ///< of the vector, and not zero on some rank
  std::size_t index_bytes = 0;         ///< sent by a rank before the choice
  std::size_t dense_bytes = 0, packed_bytes = 0, sketched_bytes = 0;  ///< after it, by each way

  /// "sparse_union: 5000 of 100000 values are not zero on some rank; bytes: dense 400000,
  /// sparse_union 20000, lhc 26112"; without lhc where that was no choice.
  std::string text() const {
    return std::string(to_text(strategy)) + ": " + std::to_string(marked) + " of " +
           std::to_string(values) + " values are not zero on some rank; bytes: dense " +
           std::to_string(dense_bytes) + ", sparse_union " + std::to_string(packed_bytes) +
           (sketched_bytes > 0 ? ", lhc " + std::to_string(sketched_bytes) : "");
  }
};

/// Of the ways that are allowed the one that takes fewest bytes.
/// @param sizes  all but the way
inline sparse_choice choose_strategy(sparse_strategies const& strategies,
                                     sparse_choice const& sizes) {
  auto choice = sizes;
  double least = strategies.dense ? strategies.worthwhile * static_cast<double>(sizes.dense_bytes)
                                  : std::numeric_limits<double>::infinity();
  auto const consider = [&](sparse_strategy strategy, bool allowed, std::size_t bytes) {
    if (!allowed || static_cast<double>(bytes) >= least) return;
    choice.strategy = strategy;
    least = static_cast<double>(bytes);
  };
  choice.strategy = sparse_strategy::dense;
  consider(sparse_strategy::packed, strategies.packed, sizes.packed_bytes);
  consider(sparse_strategy::sketched, strategies.sketched, sizes.sketched_bytes);
  return choice;
}

}  // namespace hcomp
