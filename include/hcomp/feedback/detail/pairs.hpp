#pragma once
/// @file
/// A loop over two arrays that any compiler vectorises.

#include <hcomp/core/config.hpp>

namespace hcomp::detail {

template <int N, class A, class B, class F>
HCOMP_HD inline void for_n_pairs(A* __restrict a, B const* __restrict b, F const& f) {
  for (int i = 0; i < N; ++i) f(a[i], b[i]);
}

/// Calls f(a[i], b[i]) for this worker's share of n values. The arrays must not overlap. g++ -O2
/// vectorises only with this guarantee and an inner loop of fixed length.
template <class Group, class A, class B, class F>
HCOMP_HD void for_pairs(Group group, A* a, B const* b, int n, F const& f) {
  int i = group.worker();
  if constexpr (Group::workers == 1)
    for (; i + 64 <= n; i += 64) for_n_pairs<64>(a + i, b + i, f);
  for (; i < n; i += Group::workers) f(a[i], b[i]);
}

}  // namespace hcomp::detail
