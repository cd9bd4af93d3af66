#pragma once
/// @file
/// The strategies of a sparse all-reduce, and the choice between them.

#include <cstddef>
#include <limits>
#include <string>

namespace hcomp {

/// The encoding of the values, once all ranks know which values are not zero.
enum class sparse_strategy {
  dense,     ///< all values, zeros included
  packed,    ///< only nonzero values, like sparse_union
  sketched,  ///< a sketch of the nonzero values, like lhc
};
inline char const* to_text(sparse_strategy strategy) {
  return strategy == sparse_strategy::dense    ? "dense"
         : strategy == sparse_strategy::packed ? "sparse_union"
                                               : "lhc";
}

/// The permitted strategies; equal on all ranks.
struct sparse_strategies {
  bool dense = true, packed = true, sketched = true;
  /// Packing has a cost of its own: another strategy replaces `dense` only if it needs less than
  /// this fraction of its bytes.
  double worthwhile = 0.8;
};

/// The chosen strategy and the sizes that decided it.
struct sparse_choice {
  sparse_strategy strategy = sparse_strategy::dense;
  std::size_t values = 0, marked = 0;  ///< of the vector; of these, not zero on some rank
  std::size_t index_bytes = 0;         ///< sent by each rank before the choice
  std::size_t dense_bytes = 0, packed_bytes = 0, sketched_bytes = 0;  ///< sent after the choice,
                                                                      ///< per strategy

  /// Returns for example "sparse_union: 5000 of 100000 values are not zero on some rank; bytes:
  /// dense 400000, sparse_union 20000, lhc 26112". Omits lhc if it was not a candidate.
  std::string text() const {
    return std::string(to_text(strategy)) + ": " + std::to_string(marked) + " of " +
           std::to_string(values) + " values are not zero on some rank; bytes: dense " +
           std::to_string(dense_bytes) + ", sparse_union " + std::to_string(packed_bytes) +
           (sketched_bytes > 0 ? ", lhc " + std::to_string(sketched_bytes) : "");
  }
};

/// Returns the permitted strategy that needs the fewest bytes.
/// @param sizes  all members but `strategy`
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
