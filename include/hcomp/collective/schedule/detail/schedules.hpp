#pragma once
/// @file
/// The schedules of all algorithms: arithmetic only. They are made once per plan and compiled for
/// size, which compiles faster.

#include <algorithm>
#include <cstddef>
#include <hcomp/collective/schedule/ring.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
#include <hcomp/op/encoded_layout.hpp>

namespace hcomp::detail {

constexpr block_range one_part(int part) { return {static_cast<std::size_t>(part), 1}; }

/// size - 1 hops in each half, all between neighbours; bandwidth-optimal.
[[gnu::cold]] inline schedule ring_schedule(int rank, int size) {
  ring const r{rank, size};
  schedule s{rank, size, size, {}, {}, one_part(r.shard())};
  for (int h = 0; h < r.hops(); ++h) {
    s.reduce.push_back({r.next(), r.previous(), one_part(r.reduce_send(h)),
                        one_part(r.reduce_recv(h)), h + 1, true, r.reduce_lowest(h)});
    s.gather.push_back(
        {r.next(), r.previous(), one_part(r.gather_send(h)), one_part(r.gather_recv(h)), size});
  }
  return s;
}

/// Rings in the rows, then rings in the columns for the rows' results, and back: the bytes of the
/// ring in 2 (rows + columns - 2) hops. rank = row * columns + column. A row's ring moves `rows`
/// parts at once, p * rows to p * rows + rows - 1.
[[gnu::cold]] inline schedule torus_schedule(int rank, int rows, int columns) {
  int const row = rank / columns, column = rank % columns;
  ring const across{column, columns}, down{row, rows};
  auto const in_row = [&](int c) { return row * columns + c; };
  auto const in_column = [&](int r) { return r * columns + column; };
  auto const parts = [&](int p) {
    return block_range{static_cast<std::size_t>(p * rows), static_cast<std::size_t>(rows)};
  };
  auto const part = [&](int p) { return one_part(across.shard() * rows + p); };

  schedule s{rank, rows * columns, rows * columns, {}, {}, part(down.shard())};
  for (int h = 0; h < across.hops(); ++h)
    s.reduce.push_back({in_row(across.next()), in_row(across.previous()),
                        parts(across.reduce_send(h)), parts(across.reduce_recv(h)), h + 1, true,
                        in_row(across.reduce_lowest(h))});
  for (int h = 0; h < down.hops(); ++h)
    s.reduce.push_back({in_column(down.next()), in_column(down.previous()),
                        part(down.reduce_send(h)), part(down.reduce_recv(h)), columns * (h + 1),
                        true, down.reduce_lowest(h) * columns});
  for (int h = 0; h < down.hops(); ++h)
    s.gather.push_back({in_column(down.next()), in_column(down.previous()),
                        part(down.gather_send(h)), part(down.gather_recv(h)), s.size});
  for (int h = 0; h < across.hops(); ++h)
    s.gather.push_back({in_row(across.next()), in_row(across.previous()),
                        parts(across.gather_send(h)), parts(across.gather_recv(h)), s.size});
  return s;
}

/// Every rank reduces its own part: all-to-all, then all-gather. Two steps of latency.
[[gnu::cold]] inline schedule direct_schedule(int rank, int size) {
  schedule s{rank, size, size, {}, {}, one_part(rank)};
  for (int h = 1; h < size; ++h) {
    int const to = (rank + h) % size, from = (rank + size - h) % size;
    s.reduce.push_back({to, from, one_part(to), one_part(rank), 1, true, from});
    s.gather.push_back({to, from, one_part(rank), one_part(from), size});
  }
  return s;
}

/// Recursive doubling: log2 P exchanges of the complete vector with ranks 1, 2, 4, ... positions
/// away, for powers of two. Otherwise the first ranks form pairs before, and one rank of each pair
/// waits.
/// Source: R. Thakur, R. Rabenseifner and W. Gropp, Int. J. High Perform. Comput. Appl. 19 (2005).
[[gnu::cold]] inline schedule recursive_doubling_schedule(int rank, int size) {
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
  if (is_paired) s.reduce.push_back({rank - 1, rank - 1, nothing, all, 1, true, rank - 1});
  int const place = is_paired ? rank / 2 : rank - pairs;
  for (int distance = 1; distance < cube; distance *= 2) {
    int const other = place ^ distance, peer = other < pairs ? 2 * other + 1 : other + pairs;
    // first positions of both partial sums
    int const first = place / distance * distance, others = other / distance * distance;
    s.reduce.push_back({peer, peer, all, all, distance + std::clamp(pairs - first, 0, distance),
                        true, others < pairs ? 2 * others : others + pairs,
                        distance + std::clamp(pairs - others, 0, distance)});
  }
  if (is_paired) s.reduce.push_back({rank - 1, rank - 1, all, nothing, size});
  return s;
}

/// Rank 0 receives the vectors of all ranks, adds them in rank order, and sends the result.
[[gnu::cold]] inline schedule aggregator_schedule(int rank, int size) {
  block_range const all{0, 1}, nothing{};
  schedule s{rank, size, 1, {}, {}, rank == 0 ? all : nothing};
  s.is_centralised = true;
  if (rank > 0) {
    s.reduce.push_back({0, 0, all, nothing});
    s.gather.push_back({0, 0, nothing, all, size});
  }
  for (int other = 1; rank == 0 && other < size; ++other) {
    s.reduce.push_back({other, other, nothing, all, 1, true, other});
    s.gather.push_back({other, other, all, nothing, size});
  }
  return s;
}

}  // namespace hcomp::detail
