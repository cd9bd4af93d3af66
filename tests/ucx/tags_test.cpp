// run: single
#include <doctest/doctest.h>

#include <hcomp/ucx/accusations.hpp>
#include <hcomp/ucx/tags.hpp>
#include <limits>

using namespace hcomp;
using namespace hcomp::ucx;

TEST_CASE("tags: the transport's own messages never match a caller's, nor each other") {
  int const last_rank = std::numeric_limits<int>::max();
  for (int source : {0, 1, last_rank})
    for (tag_t tag : {tag_t{0}, tag_t{0x8000'0000u}, ~tag_t{0}}) {
      CHECK((message_tag(source, tag) & own_message_bit) == 0);
      CHECK(message_tag(source, tag) != message_tag(source, tag + 1));
    }
  CHECK(message_tag(1, 0) != message_tag(0, 1));
  for (int rank : {0, 1, last_rank}) {
    CHECK((goodbye_tag(rank) & abort_mask) == own_message_bit);
    CHECK((abort_tag(rank, rank) & abort_mask) == abort_mask);
  }
}

TEST_CASE("tags: an abort says who accuses whom") {
  int const last_rank = std::numeric_limits<int>::max();
  for (int source : {0, 3, last_rank})
    for (int culprit : {0, 5, last_rank}) {
      CHECK(abort_source(abort_tag(source, culprit)) == source);
      CHECK(abort_culprit(abort_tag(source, culprit)) == culprit);
    }
}

TEST_CASE("accusations: the end of the chain is the culprit, its last link the reporter") {
  accusations heard(/*rank=*/0, /*size=*/5);
  CHECK(heard.follow(4) == accusations::verdict{4, 0});
  heard.add(4, 3);
  heard.add(3, 2);
  CHECK(heard.follow(4) == accusations::verdict{2, 3});
  CHECK(heard.follow(3) == accusations::verdict{2, 3});
  CHECK(heard.follow(2) == accusations::verdict{2, 0});
}

TEST_CASE("accusations: nobody is blamed for blaming this rank, nor for blaming itself") {
  accusations heard(/*rank=*/0, /*size=*/3);
  heard.add(1, 0);
  heard.add(2, 2);
  CHECK(heard.follow(1) == accusations::verdict{1, 0});
  CHECK(heard.follow(2) == accusations::verdict{2, 0});
}

TEST_CASE("accusations: ranks that accuse in a circle are not followed for ever") {
  accusations heard(/*rank=*/0, /*size=*/4);
  heard.add(1, 2);
  heard.add(2, 3);
  heard.add(3, 1);
  CHECK(heard.follow(1).culprit > 0);
}
