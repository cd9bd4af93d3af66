#pragma once
/// @file
/// An all-reduce as data: who sends which parts to whom at which hop.

#include <cstddef>
#include <hcomp/op/encoded_layout.hpp>
#include <vector>

namespace hcomp {

/// What one rank does at one hop. Ranges count parts.
struct hop {
  int to = 0;
  int from = 0;
  block_range send;
  block_range receive;
  int ranks = 1;     ///< whose sum is sent
  bool adds = true;  ///< in a reduction; false: what is received is finished and replaces
};

/// The view of one rank on a whole all-reduce. The vector is cut into `parts` parts; in the
/// reduce-scatter received parts are added to one's own, in the all-gather they replace them.
/// In between, this rank holds the finished parts `owned`, or all of them.
struct schedule {
  int rank = 0;
  int size = 1;
  int parts = 1;
  std::vector<hop> reduce;
  std::vector<hop> gather;
  block_range shard{0, 1};
  bool reduces_all = false;     ///< after `reduce` every rank holds all parts, finished
  bool is_centralised = false;  ///< one rank adds up for all

  /// The blocks of a range of parts, of `blocks` blocks in all.
  constexpr block_range blocks_of(block_range range, std::size_t blocks) const {
    auto const at = [&](std::size_t part) {
      return blocks * part / static_cast<std::size_t>(parts);
    };
    return {at(range.first), at(range.end()) - at(range.first)};
  }
};

}  // namespace hcomp
