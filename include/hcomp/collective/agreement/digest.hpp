#pragma once
/// @file
/// Compares the bits of a vector on all ranks.

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/transport/transport.hpp>
#include <ranges>
#include <span>
#include <vector>

namespace hcomp {

/// The fingerprints of one vector on all ranks.
struct digest_report {
  std::vector<std::uint64_t> of_rank;  ///< 64-bit fingerprint, one per rank

  /// True if all ranks hold the same bytes (wrong with a probability of 2^-64).
  bool same() const {
    for (auto const fingerprint : of_rank)
      if (fingerprint != of_rank.front()) return false;
    return true;
  }
};

/// Compares the bytes of `x` over all ranks. Collective; every rank gets the same report.
/// @param x  in host memory; vectors of different lengths are different
///
/// Cost: one pass over x, 16 (P - 1) bytes sent.
template <class V, std::size_t N, Transport T>
digest_report digest(std::span<V, N> x, T& transport, tag_t tag = 0) {
  digest_report report;
  auto const bytes = std::as_bytes(x);
  all_gather_records(transport, tag, fingerprint(simd_group{}, bytes.data(), bytes.size()),
                     report.of_rank);
  return report;
}

/// The same for a vector, an array or another contiguous range.
template <std::ranges::contiguous_range R, Transport T>
digest_report digest(R const& x, T& transport, tag_t tag = 0) {
  return digest(std::span(x), transport, tag);
}

}  // namespace hcomp
