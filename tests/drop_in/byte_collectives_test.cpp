#include <doctest/doctest.h>

#include <algorithm>
#include <c/byte_collectives.hpp>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/transport/in_process.hpp>
#include <span>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using bytes = std::vector<std::byte>;

bytes drawn(int rank, std::size_t count) {
  bytes some(count);
  for (std::size_t i = 0; i < count; ++i)
    some[i] = static_cast<std::byte>(mix(i * 64 + static_cast<std::size_t>(rank)));
  return some;
}

}  // namespace

TEST_CASE("byte collectives: every node of a tree has one parent, which forwards to it") {
  for (auto const place_of : {drop_in::detail::binomial_place, drop_in::detail::chain_place})
    for (int size = 1; size <= 33; ++size) {
      std::vector<int> parents(static_cast<std::size_t>(size), -1);
      for (int rank = 0; rank < size; ++rank)
        for (int const child : place_of(rank, size).children) {
          REQUIRE(child > rank);  // the tree reaches all ranks
          REQUIRE(child < size);
          REQUIRE(parents[static_cast<std::size_t>(child)] == -1);
          parents[static_cast<std::size_t>(child)] = rank;
        }
      for (int rank = 0; rank < size; ++rank)
        REQUIRE(place_of(rank, size).parent == parents[static_cast<std::size_t>(rank)]);
    }
}

TEST_CASE("byte collectives: an all-gather gives the bytes of all ranks in rank order") {
  for (int const ranks : {1, 2, 3, 5})
    for (std::size_t const count : {0, 1, 4097, 300'000}) {
      CAPTURE(ranks);
      CAPTURE(count);
      bytes expected;
      std::vector<bytes> mine;
      for (int r = 0; r < ranks; ++r) {
        mine.push_back(drawn(r, count));
        expected.insert(expected.end(), mine.back().begin(), mine.back().end());
      }
      for (bool const in_place : {false, true}) {
        auto const found = on_ranks(mine, [&](in_process& transport, bytes& one) {
          bytes all(count * static_cast<std::size_t>(ranks));
          std::span<std::byte const> from = one;
          if (in_place && count > 0) {
            auto const place =
                std::span(all).subspan(static_cast<std::size_t>(transport.rank()) * count, count);
            std::ranges::copy(one, place.begin());
            from = place;
          }
          drop_in::all_gather_bytes(transport, 0, from, all);
          one = all;
        });
        for (auto const& one : found) CHECK(one == expected);
      }
    }
}

TEST_CASE("byte collectives: a broadcast gives all ranks the root's bytes") {
  for (int const ranks : {1, 2, 3, 5})
    for (std::size_t const count : {0, 1, 65536, 65537, 600'001})
      for (int root = 0; root < ranks; ++root) {
        CAPTURE(ranks);
        CAPTURE(count);
        CAPTURE(root);
        std::vector<bytes> mine;
        for (int r = 0; r < ranks; ++r) mine.push_back(drawn(r, count));
        auto const found = on_ranks(mine, [&](in_process& transport, bytes& one) {
          drop_in::broadcast_bytes(transport, 0, one, root);
        });
        for (auto const& one : found) CHECK(one == drawn(root, count));
      }
}

TEST_CASE("byte collectives: calls of different sizes are an error") {
  std::vector<bytes> mine{drawn(0, 10), drawn(1, 8), drawn(2, 10)};
  int failed = 0;
  on_ranks(mine, [&](in_process& transport, bytes& one) {
    bytes all(3 * one.size() + 64);
    try {
      drop_in::all_gather_bytes(transport, 0, one, std::span(all).first(3 * one.size()));
    } catch (wire_error const&) {
      if (transport.rank() == 0) ++failed;
    } catch (transport_error const&) {  // rank 1 receives more than its buffer holds
      if (transport.rank() == 0) ++failed;
    }
  });
  CHECK(failed == 1);
}
