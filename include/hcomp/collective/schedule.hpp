#pragma once
/// @file
/// An all-reduce as data: who sends which chunks to whom at which hop. Arithmetic only. Schedules are
/// made once per plan: they are compiled for size, which takes less time.

#include <algorithm>
#include <cstddef>
#include <hcomp/collective/algorithm.hpp>
#include <hcomp/collective/ring.hpp>
#include <hcomp/op/code_layout.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// What one rank does at one hop. Ranges count chunks.
struct hop {
  int to = 0;
  int from = 0;
  block_range send;
  block_range receive;
  int ranks = 1;     ///< whose sum is sent
  bool adds = true;  ///< in a reduction; false: what is received is finished and replaces
};

/// The view of one rank on a whole all-reduce. The vector is cut into `chunks` chunks; in the
/// reduce-scatter received chunks are added to one's own, in the all-gather they replace them.
/// In between, this rank holds the finished chunks `owned`, or all of them.
struct schedule {
  int rank = 0;
  int size = 1;
  int chunks = 1;
  std::vector<hop> reduce;
  std::vector<hop> gather;
  block_range owned{0, 1};
  bool reduces_all = false;  ///< after `reduce` every rank holds all chunks, finished

  /// The blocks of a range of chunks, of `blocks` blocks in all.
  constexpr block_range blocks_of(block_range range, std::size_t blocks) const {
    auto const at = [&](std::size_t chunk) {
      return blocks * chunk / static_cast<std::size_t>(chunks);
    };
    return {at(range.first), at(range.end()) - at(range.first)};
  }
};

namespace detail {

constexpr block_range one_chunk(int chunk) { return {static_cast<std::size_t>(chunk), 1}; }

/// size - 1 hops each way, all between neighbours; bandwidth-optimal.
[[gnu::cold]] inline schedule ring_schedule(int rank, int size) {
  ring const r{rank, size};
  schedule s{rank, size, size, {}, {}, one_chunk(r.owned())};
  for (int h = 0; h < r.hops(); ++h) {
    s.reduce.push_back(
        {r.next(), r.previous(), one_chunk(r.reduce_send(h)), one_chunk(r.reduce_recv(h)), h + 1});
    s.gather.push_back(
        {r.next(), r.previous(), one_chunk(r.gather_send(h)), one_chunk(r.gather_recv(h)), size});
  }
  return s;
}

/// Rings in the rows, then on the rows' parts rings in the columns, and back: the same bytes as the
/// ring in 2 (rows + columns - 2) hops. rank = row * columns + column; part p of a row's ring is
/// the chunks p * rows .. p * rows + rows - 1.
[[gnu::cold]] inline schedule torus_schedule(int rank, int rows, int columns) {
  int const row = rank / columns, column = rank % columns;
  ring const across{column, columns}, down{row, rows};
  auto const in_row = [&](int c) { return row * columns + c; };
  auto const in_column = [&](int r) { return r * columns + column; };
  auto const part = [&](int p) {
    return block_range{static_cast<std::size_t>(p * rows), static_cast<std::size_t>(rows)};
  };
  auto const piece = [&](int p) { return one_chunk(across.owned() * rows + p); };

  schedule s{rank, rows * columns, rows * columns, {}, {}, piece(down.owned())};
  for (int h = 0; h < across.hops(); ++h)
    s.reduce.push_back({in_row(across.next()), in_row(across.previous()),
                        part(across.reduce_send(h)), part(across.reduce_recv(h)), h + 1});
  for (int h = 0; h < down.hops(); ++h)
    s.reduce.push_back({in_column(down.next()), in_column(down.previous()),
                        piece(down.reduce_send(h)), piece(down.reduce_recv(h)), columns * (h + 1)});
  for (int h = 0; h < down.hops(); ++h)
    s.gather.push_back({in_column(down.next()), in_column(down.previous()),
                        piece(down.gather_send(h)), piece(down.gather_recv(h)), s.size});
  for (int h = 0; h < across.hops(); ++h)
    s.gather.push_back({in_row(across.next()), in_row(across.previous()),
                        part(across.gather_send(h)), part(across.gather_recv(h)), s.size});
  return s;
}

/// Every rank is the server of its own chunk: all-to-all, then all-gather. Two steps of latency.
[[gnu::cold]] inline schedule direct_schedule(int rank, int size) {
  schedule s{rank, size, size, {}, {}, one_chunk(rank)};
  for (int h = 1; h < size; ++h) {
    int const to = (rank + h) % size, from = (rank + size - h) % size;
    s.reduce.push_back({to, from, one_chunk(to), one_chunk(rank)});
    s.gather.push_back({to, from, one_chunk(rank), one_chunk(from), size});
  }
  return s;
}

/// Recursive doubling: log2 P exchanges of the whole vector with ranks 1, 2, 4, ... places away,
/// for powers of two. Otherwise the first ranks pair up before, and one of each pair waits.
/// Source: R. Thakur, R. Rabenseifner and W. Gropp, Int. J. High Perform. Comput. Appl. 19 (2005).
[[gnu::cold]] inline schedule doubling_schedule(int rank, int size) {
  auto s = direct_schedule(rank, size);
  s.reduce.clear();
  s.reduces_all = true;
  block_range const all{0, static_cast<std::size_t>(size)}, nothing{};
  int cube = 1;
  while (2 * cube <= size) cube *= 2;
  int const pairs = size - cube;  // of ranks 2 i and 2 i + 1
  if (rank < 2 * pairs && rank % 2 == 0) {
    s.reduce = {{rank + 1, rank + 1, all, nothing},
                {rank + 1, rank + 1, nothing, all, size, false}};
    return s;
  }
  bool const is_paired = rank < 2 * pairs;
  if (is_paired) s.reduce.push_back({rank - 1, rank - 1, nothing, all});
  int const place = is_paired ? rank / 2 : rank - pairs;
  for (int distance = 1; distance < cube; distance *= 2) {
    int const other = place ^ distance, peer = other < pairs ? 2 * other + 1 : other + pairs;
    int const first = place / distance * distance;  // of the places whose sum this rank has
    s.reduce.push_back({peer, peer, all, all, distance + std::clamp(pairs - first, 0, distance)});
  }
  if (is_paired) s.reduce.push_back({rank - 1, rank - 1, all, nothing, size});
  return s;
}

/// Rank 0 receives the vectors of all others, adds them up in the order of the ranks, and answers.
[[gnu::cold]] inline schedule aggregator_schedule(int rank, int size) {
  block_range const all{0, 1}, nothing{};
  schedule s{rank, size, 1, {}, {}, rank == 0 ? all : nothing};
  if (rank > 0) {
    s.reduce.push_back({0, 0, all, nothing});
    s.gather.push_back({0, 0, nothing, all, size});
  }
  for (int other = 1; rank == 0 && other < size; ++other) {
    s.reduce.push_back({other, other, nothing, all});
    s.gather.push_back({other, other, all, nothing, size});
  }
  return s;
}

}  // namespace detail

/// The schedule of one rank.
/// @throws std::invalid_argument  a torus that does not have `size` places, or `owner`, which is no
///                                schedule of merges
[[gnu::cold]] inline schedule make_schedule(algorithm const& how, int rank, int size) {
  switch (how.kind) {
    case algorithm_kind::ring: return detail::ring_schedule(rank, size);
    case algorithm_kind::direct: return detail::direct_schedule(rank, size);
    case algorithm_kind::doubling: return detail::doubling_schedule(rank, size);
    case algorithm_kind::torus: {
      auto const shape = how.fitted(size);
      return detail::torus_schedule(rank, shape.rows, shape.columns);
    }
    case algorithm_kind::aggregator: return detail::aggregator_schedule(rank, size);
    case algorithm_kind::owner: break;
  }
  throw std::invalid_argument("make_schedule: algorithm '" + how.name() +
                              "' merges nothing and has no schedule");
}

}  // namespace hcomp
