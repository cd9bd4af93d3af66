#pragma once
/// @file
/// An all-reduce as data: which rank sends which parts to which rank at which hop.

#include <cstddef>
#include <hcomp/op/encoded_layout.hpp>
#include <vector>

namespace hcomp {

/// One rank's work at one hop. Ranges count parts.
struct hop {
  int to = 0;
  int from = 0;
  block_range send;
  block_range receive;
  int ranks = 1;     ///< number of ranks in the partial sum that is sent
  bool adds = true;  ///< in a reduction; false: the received part is reduced and replaces this
                     ///< rank's
  int lowest = 0;    ///< in a reduction: lowest rank in the partial sum that is received
  int received = 0;  ///< number of ranks in the partial sum that is received; 0: `ranks`

  int received_ranks() const { return received > 0 ? received : ranks; }
};

/// The view of one rank on a complete all-reduce. The vector is cut into `parts` parts. In the
/// reduce-scatter received parts are added to this rank's parts, in the all-gather they replace
/// them. In between, this rank holds the reduced parts `shard`, or all of them.
struct schedule {
  int rank = 0;
  int size = 1;
  int parts = 1;
  std::vector<hop> reduce;
  std::vector<hop> gather;
  block_range shard{0, 1};
  bool reduces_all = false;     ///< after `reduce` every rank holds all parts, reduced
  bool is_centralised = false;  ///< one rank reduces for all

  /// The blocks of a range of parts; the vector has `blocks` blocks.
  constexpr block_range blocks_of(block_range range, std::size_t blocks) const {
    auto const at = [&](std::size_t part) {
      return blocks * part / static_cast<std::size_t>(parts);
    };
    return {at(range.first), at(range.end()) - at(range.first)};
  }
};

}  // namespace hcomp
