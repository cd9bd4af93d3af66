#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/schedule/ring.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace hcomp;

namespace {

/// How often one part of one rank includes each rank's values.
using contributions = std::vector<int>;

int lowest_of(contributions const& sum) {
  return static_cast<int>(std::ranges::find_if(sum, [](int times) { return times > 0; }) -
                          sum.begin());
}

std::vector<schedule> schedules_of(algorithm const& how, int size) {
  std::vector<schedule> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(make_schedule(how, rank, size));
  return all;
}

std::vector<hop> const& hops_of(schedule const& s, bool gather) {
  return gather ? s.gather : s.reduce;
}

/// Contents of the parts after all ranks' hops, executed simultaneously: [rank][part].
std::vector<std::vector<contributions>> played(std::vector<schedule> const& all, bool gather,
                                               std::vector<std::vector<contributions>> state) {
  for (std::size_t h = 0; h < hops_of(all[0], gather).size(); ++h) {
    auto const before = state;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      auto const& hop = hops_of(all[rank], gather)[h];
      auto const& sent = before[static_cast<std::size_t>(hop.from)];
      for (std::size_t part = hop.receive.first; part < hop.receive.end(); ++part) {
        if (!gather) REQUIRE(hop.lowest == lowest_of(sent[part]));
        for (std::size_t i = 0; i < all.size(); ++i)
          state[rank][part][i] = sent[part][i] + (gather ? 0 : before[rank][part][i]);
      }
    }
  }
  return state;
}

/// Conditions that hold for every schedule of an all-reduce.
void check_schedule(algorithm const& how, int size, std::size_t expected_hops) {
  CAPTURE(how.name());
  CAPTURE(size);
  auto const all = schedules_of(how, size);
  auto const ranks = static_cast<std::size_t>(size);
  auto const parts = static_cast<std::size_t>(all[0].parts);

  for (bool const gather : {false, true})
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CAPTURE(gather);
      CAPTURE(rank);
      auto const& mine = hops_of(all[rank], gather);
      REQUIRE(mine.size() == expected_hops);
      for (std::size_t h = 0; h < mine.size(); ++h) {
        CAPTURE(h);
        REQUIRE(mine[h].from != static_cast<int>(rank));
        REQUIRE(mine[h].receive.end() <= parts);
        // A rank receives what its peer sends to it at the same hop. With one message per pair and
        // hop, this is also the order of the messages of every pair.
        auto const& peer = hops_of(all[static_cast<std::size_t>(mine[h].from)], gather);
        REQUIRE(peer.size() > h);
        REQUIRE(peer[h].to == static_cast<int>(rank));
        REQUIRE(peer[h].send == mine[h].receive);
      }
    }

  std::vector<std::vector<contributions>> state(
      ranks, std::vector<contributions>(parts, contributions(ranks, 0)));
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (auto& part : state[rank]) part[rank] = 1;
  contributions const everybody_once(ranks, 1);

  state = played(all, false, state);
  std::vector<int> owners(parts, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    REQUIRE(all[rank].rank == static_cast<int>(rank));
    REQUIRE(all[rank].size == size);
    for (std::size_t c = all[rank].shard.first; c < all[rank].shard.end(); ++c) {
      REQUIRE(state[rank][c] == everybody_once);
      ++owners[c];
    }
  }
  REQUIRE(owners == std::vector<int>(parts, 1));

  state = played(all, true, state);
  for (auto const& of_rank : state)
    for (auto const& part : of_rank) REQUIRE(part == everybody_once);
}

}  // namespace

TEST_CASE("ring: a rank receives what its predecessor sends") {
  for (int size = 1; size <= 64; ++size)
    for (int rank = 0; rank < size; ++rank)
      for (int hop = 0; hop < size - 1; ++hop) {
        ring const me{rank, size}, before{me.previous(), size};
        CAPTURE(size);
        CAPTURE(rank);
        CAPTURE(hop);
        REQUIRE(before.next() == rank);
        REQUIRE(me.reduce_recv(hop) == before.reduce_send(hop));
        REQUIRE(me.gather_recv(hop) == before.gather_send(hop));
      }
}

TEST_CASE("ring: every rank's values reach every part once, and every part every rank") {
  for (int size = 1; size <= 32; ++size)
    check_schedule(algorithm::from("ring"), size, static_cast<std::size_t>(size - 1));
}

TEST_CASE("ring: a rank talks to its two neighbours only") {
  for (int size = 2; size <= 16; ++size)
    for (auto const& s : schedules_of(algorithm::from("ring"), size))
      for (bool const gather : {false, true})
        for (auto const& hop : hops_of(s, gather)) {
          REQUIRE(hop.to == (s.rank + 1) % size);
          REQUIRE(hop.from == (s.rank + size - 1) % size);
        }
}

TEST_CASE("direct: every rank's values reach every part once, and every part every rank") {
  for (int size = 1; size <= 32; ++size)
    check_schedule(algorithm::from("direct"), size, static_cast<std::size_t>(size - 1));
}

TEST_CASE("aggregator: rank 0 receives from all ranks in their order, and answers them") {
  for (int size = 1; size <= 16; ++size)
    for (auto const& s : schedules_of(algorithm::from("aggregator"), size)) {
      CAPTURE(size);
      CAPTURE(s.rank);
      block_range const all{0, 1}, nothing{};
      REQUIRE(s.parts == 1);
      REQUIRE(s.shard == (s.rank == 0 ? all : nothing));
      for (bool const gather : {false, true}) {
        auto const& hops = hops_of(s, gather);
        REQUIRE(hops.size() == static_cast<std::size_t>(s.rank == 0 ? size - 1 : 1));
        for (std::size_t h = 0; h < hops.size(); ++h) {
          int const peer = s.rank == 0 ? static_cast<int>(h) + 1 : 0;
          bool const sends = (s.rank == 0) == gather;
          REQUIRE(hops[h].to == peer);
          REQUIRE(hops[h].from == peer);
          REQUIRE(hops[h].send == (sends ? all : nothing));
          REQUIRE(hops[h].receive == (sends ? nothing : all));
          REQUIRE(hops[h].ranks == (gather ? size : 1));
        }
      }
    }
}

TEST_CASE("direct: a rank can send all its messages of a phase before it receives any") {
  // two steps of latency: no message depends on one received in the same phase
  for (int size = 2; size <= 16; ++size)
    for (auto const& s : schedules_of(algorithm::from("direct"), size)) {
      for (auto const& hop : s.reduce) REQUIRE(hop.send.first != s.shard.first);
      for (auto const& hop : s.gather) REQUIRE(hop.send == s.shard);
    }
}

TEST_CASE("torus: every rank's values reach every part once, and every part every rank") {
  for (int rows = 1; rows <= 8; ++rows)
    for (int columns = 1; columns <= 8; ++columns)
      check_schedule({algorithm_kind::torus, rows, columns}, rows * columns,
                     static_cast<std::size_t>(rows + columns - 2));
}

TEST_CASE(
    "recursive_doubling: every rank ends with every rank's values once, in pairs that exchange") {
  for (int size = 1; size <= 33; ++size) {
    CAPTURE(size);
    auto const all = schedules_of(algorithm::from("recursive_doubling"), size);
    // A rank holds sets of ranks. A hop is made as soon as both partners have reached it.
    auto const ranks = static_cast<std::size_t>(size);
    std::vector<contributions> state(ranks, contributions(ranks, 0));
    for (std::size_t r = 0; r < ranks; ++r) state[r][r] = 1;
    std::vector<std::size_t> next(ranks, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks; ++r) {
        if (next[r] == all[r].reduce.size()) continue;
        auto const& mine = all[r].reduce[next[r]];
        REQUIRE(mine.to == mine.from);
        auto const p = static_cast<std::size_t>(mine.to);
        if (next[p] == all[p].reduce.size()) continue;
        auto const& theirs = all[p].reduce[next[p]];
        if (theirs.to != static_cast<int>(r)) continue;
        REQUIRE(theirs.send == mine.receive);
        REQUIRE(theirs.receive == mine.send);
        auto const before = std::pair(state[r], state[p]);
        if (mine.receive.count > 0) REQUIRE(mine.lowest == lowest_of(before.second));
        if (theirs.receive.count > 0) REQUIRE(theirs.lowest == lowest_of(before.first));
        for (std::size_t i = 0; i < ranks; ++i) {
          if (mine.receive.count > 0)
            state[r][i] = before.second[i] + (mine.adds ? before.first[i] : 0);
          if (theirs.receive.count > 0)
            state[p][i] = before.first[i] + (theirs.adds ? before.second[i] : 0);
        }
        ++next[r];
        ++next[p];
        moved = true;
      }
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      REQUIRE(next[r] == all[r].reduce.size());
      REQUIRE(all[r].reduces_all);
      REQUIRE(state[r] == contributions(ranks, 1));
    }
  }
}

TEST_CASE("torus: messages stay within a row or within a column") {
  for (int rows = 1; rows <= 5; ++rows)
    for (int columns = 1; columns <= 5; ++columns)
      for (auto const& s : schedules_of({algorithm_kind::torus, rows, columns}, rows * columns))
        for (bool const gather : {false, true})
          for (auto const& hop : hops_of(s, gather)) {
            bool const in_row = hop.to / columns == s.rank / columns;
            bool const in_column = hop.to % columns == s.rank % columns;
            REQUIRE((in_row || in_column));
          }
}

TEST_CASE("torus: without a shape it is as square as possible") {
  for (int size = 1; size <= 24; ++size) {
    CAPTURE(size);
    auto const shape = algorithm::from("torus").fitted(size);
    check_schedule(algorithm::from("torus"), size,
                   static_cast<std::size_t>(shape.rows + shape.columns - 2));
  }
}

TEST_CASE("every schedule sends every part once per phase and hop-to-owner, as the ring does") {
  // bandwidth: over all ranks, each phase moves size - 1 times the whole vector
  for (std::string const name : {"ring", "direct", "torus"})
    for (int size = 1; size <= 12; ++size)
      for (bool const gather : {false, true}) {
        CAPTURE(name);
        CAPTURE(size);
        std::size_t moved = 0;
        auto const all = schedules_of(algorithm::from(name), size);
        for (auto const& s : all)
          for (auto const& hop : hops_of(s, gather)) moved += hop.send.count;
        REQUIRE(moved == static_cast<std::size_t>((size - 1) * all[0].parts));
      }
}

TEST_CASE("schedule: parts cut any number of blocks without gap or overlap, evenly") {
  for (int size = 1; size <= 9; ++size)
    for (std::size_t blocks : {0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 1000}) {
      CAPTURE(size);
      CAPTURE(blocks);
      auto const s = make_schedule(algorithm::from("ring"), 0, size);
      std::size_t end = 0;
      for (std::size_t part = 0; part < static_cast<std::size_t>(s.parts); ++part) {
        auto const range = s.blocks_of({part, 1}, blocks);
        REQUIRE(range.first == end);
        end = range.end();
        auto const floor = blocks / static_cast<std::size_t>(size);
        REQUIRE((range.count == floor || range.count == floor + 1));
      }
      REQUIRE(end == blocks);
      REQUIRE(s.blocks_of({0, static_cast<std::size_t>(s.parts)}, blocks) ==
              block_range{0, blocks});
    }
}

TEST_CASE("every algorithm with a schedule: no rank makes more hops than rank 0 or 1") {
  for (auto const& row : detail::algorithm_rows) {
    algorithm const how{row.kind};
    CHECK(algorithm::from(row.name) == how);
    CHECK(how.merges() == algorithm_set::merging().contains(row.kind));
    for (int size = 1; how.merges() && size <= 64; ++size) {
      CAPTURE(how.name());
      CAPTURE(size);
      std::size_t most = 0;
      for (auto const& s : schedules_of(how, size))
        most = std::max(most, s.reduce.size() + s.gather.size());
      auto const longest = detail::longest_schedule(how, size);
      REQUIRE(longest.reduce.size() + longest.gather.size() == most);
    }
  }
}

TEST_CASE("make_schedule: the sampled algorithm and a torus that does not fit are refused") {
  CHECK_THROWS_WITH_AS(make_schedule(algorithm::from("sampled"), 0, 4),
                       "make_schedule: algorithm 'sampled' merges nothing and has no schedule",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(make_schedule(algorithm::from("torus:3x3"), 0, 8),
                       "torus: 3 rows of 3 are 9 places, the transport has 8 ranks",
                       std::invalid_argument);
}
