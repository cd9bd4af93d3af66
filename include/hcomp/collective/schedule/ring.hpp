#pragma once
/// @file
/// Which part each rank sends at each hop of a ring: arithmetic only, no communication.

namespace hcomp {

/// The view of one rank on a ring of `size` ranks. Parts are numbered like ranks.
///
/// After `hops()` hops of the reduce-scatter this rank owns the reduced part `shard()`; the
/// all-gather starts from there.
/// Source: P. Patarasuk and X. Yuan, J. Parallel Distrib. Comput. 69 (2009) 117-124.
struct ring {
  int rank;  ///< 0 <= rank < size
  int size;  ///< >= 1; a ring of one makes no hops

  constexpr int next() const { return (rank + 1) % size; }
  constexpr int previous() const { return (rank + size - 1) % size; }
  constexpr int hops() const { return size - 1; }
  constexpr int shard() const { return (rank + 1) % size; }

  /// Part sent, and part received and added, at hop `h` of the reduce-scatter.
  constexpr int reduce_send(int h) const { return (rank + size - h) % size; }
  constexpr int reduce_recv(int h) const { return (rank + 2 * size - h - 1) % size; }

  /// Lowest rank in the partial sum that is received at hop `h` of the reduce-scatter: it holds the
  /// h + 1 ranks that end with previous(), in a circle.
  constexpr int reduce_lowest(int h) const { return previous() < h ? 0 : previous() - h; }

  /// Part sent, and part received and kept, at hop `h` of the all-gather.
  constexpr int gather_send(int h) const { return (rank + size + 1 - h) % size; }
  constexpr int gather_recv(int h) const { return (rank + size - h) % size; }
};

}  // namespace hcomp
