
#include <doctest/doctest.h>

#include <hcomp/collective/schedule/algorithm.hpp>
#include <stdexcept>
#include <string>

using hcomp::algorithm;
using hcomp::algorithm_kind;

TEST_CASE("algorithm: from(name()) gives the same algorithm back") {
  for (std::string const text :
       {"ring", "torus", "torus:1x1", "torus:2x4", "torus:16x3", "direct", "recursive_doubling",
        "sampled", "aggregator", "hierarchical", "hierarchical:direct", "hierarchical:torus:2x4"}) {
    CAPTURE(text);
    CHECK(algorithm::from(text).name() == text);
    CHECK(algorithm::from(algorithm::from(text).name()) == algorithm::from(text));
  }
  CHECK(algorithm{}.name() == "ring");
  CHECK(algorithm::from("torus:2x4") == algorithm{algorithm_kind::torus, 2, 4});
}

TEST_CASE("algorithm: an unknown name is refused with the list of all names") {
  for (std::string const text : {"", "Ring", "ring ", "rings", "torus:", "torus:2", "torus:2x",
                                 "torus:x2", "torus:2x4x1", "torus:0x4", "torus:4x0", "torus:-2x-2",
                                 "torus:2X4", "torus: 2x4", "torus:99999999999x1"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(algorithm::from(text),
                         ("no algorithm is called '" + text +
                          "'; hcomp has: ring, torus, torus:RxC (such as torus:2x4), direct, "
                          "recursive_doubling, sampled, "
                          "aggregator, hierarchical, hierarchical:NAME (another one between nodes)")
                             .c_str(),
                         std::invalid_argument);
  }
}

TEST_CASE("algorithm: hierarchical takes an algorithm between nodes, ring by default") {
  CHECK(algorithm::from("hierarchical") == algorithm{.hierarchical = true});
  CHECK(algorithm::from("hierarchical:ring").name() == "hierarchical");
  CHECK(algorithm::from("hierarchical:torus:2x4").between_nodes() == algorithm::from("torus:2x4"));
  for (std::string const text : {"hierarchical:", "hierarchical:hierarchical", "hierarchical:rings",
                                 "hierarchicals", "hierarchical:torus:2x"})
    CHECK_THROWS_AS(algorithm::from(text), std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      hcomp::make_schedule(algorithm::from("hierarchical"), 0, 4),
      "make_schedule: algorithm 'hierarchical' has a schedule for nodes, not for ranks",
      std::invalid_argument);
}

TEST_CASE("algorithm: a torus without a shape becomes as square as the ranks allow") {
  struct {
    int ranks, rows, columns;
  } const expected[] = {{1, 1, 1},  {2, 1, 2},  {3, 1, 3},  {4, 2, 2},  {6, 2, 3},
                        {7, 1, 7},  {8, 2, 4},  {9, 3, 3},  {12, 3, 4}, {13, 1, 13},
                        {16, 4, 4}, {24, 4, 6}, {36, 6, 6}, {48, 6, 8}, {100, 10, 10}};
  for (auto const& one : expected) {
    CAPTURE(one.ranks);
    auto const fit = algorithm::from("torus").fitted(one.ranks);
    CHECK(fit.rows == one.rows);
    CHECK(fit.columns == one.columns);
  }
}

TEST_CASE("algorithm: a torus with a shape fits exactly its number of ranks") {
  CHECK(algorithm::from("torus:2x4").fitted(8) == algorithm::from("torus:2x4"));
  CHECK_THROWS_WITH_AS(algorithm::from("torus:2x4").fitted(6),
                       "torus: 2 rows of 4 are 8 places, the transport has 6 ranks",
                       std::invalid_argument);
  // the computation must not overflow
  CHECK_THROWS_AS(algorithm::from("torus:65536x65536").fitted(1), std::invalid_argument);
  // a shape that no torus has, although its product fits
  CHECK_THROWS_AS((algorithm{algorithm_kind::torus, -2, -2}.fitted(4)), std::invalid_argument);
}

TEST_CASE("algorithm: ring, direct and sampled fit any number of ranks unchanged") {
  for (std::string const text : {"ring", "direct", "recursive_doubling", "sampled"})
    for (int ranks = 1; ranks < 10; ++ranks)
      CHECK(algorithm::from(text).fitted(ranks) == algorithm::from(text));
}
