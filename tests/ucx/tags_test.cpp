// run: single
#include <doctest/doctest.h>

#include <hcomp/ucx/accusations.hpp>
#include <hcomp/ucx/tags.hpp>
#include <limits>

using namespace hcomp;
using namespace hcomp::ucx;

TEST_CASE("tags: the transport's own messages match neither a caller's nor each other") {
  int const last_rank = std::numeric_limits<int>::max();
  for (int source : {0, 1, last_rank})
    for (tag_t tag : {tag_t{0}, tag_t{0x8000'0000u}, ~tag_t{0}}) {
      CHECK((message_tag(source, tag) & own_message_bit) == 0);
      CHECK(message_tag(source, tag) != message_tag(source, tag + 1));
    }
  CHECK(message_tag(1, 0) != message_tag(0, 1));
  for (int rank : {0, 1, last_rank}) {
    CHECK((notice_tag(rank, notice::goodbye) & abort_mask) == own_message_bit);
    CHECK((abort_tag(rank, rank) & abort_mask) == abort_mask);
  }
}

TEST_CASE("tags: a notice contains its kind and its hop") {
  int const last_rank = std::numeric_limits<int>::max();
  for (int source : {0, 3, last_rank}) {
    for (notice what : {notice::goodbye, notice::hello}) {
      CHECK(notice_in(notice_tag(source, what)) == what);
      CHECK(source_in(notice_tag(source, what)) == source);
    }
    for (int hop : {0, 1, 30}) {
      CHECK(notice_in(notice_tag(source, notice::ready, hop)) == notice::ready);
      CHECK(hop_in(notice_tag(source, notice::ready, hop)) == hop);
      CHECK((notice_tag(source, notice::ready, hop) & abort_mask) == own_message_bit);
    }
  }
}

TEST_CASE("tags: an abort contains the accuser and the accused") {
  int const last_source = std::numeric_limits<int>::max(), last_culprit = (1 << 30) - 1;
  for (int source : {0, 3, last_source})
    for (int culprit : {0, 5, last_culprit})
      for (bool certain : {false, true}) {
        auto const tag = abort_tag(source, culprit, certain);
        CHECK(source_in(tag) == source);
        CHECK(abort_culprit(tag) == culprit);
        CHECK(is_certain(tag) == certain);
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

TEST_CASE("accusations: a rank that certainly failed cannot pass on the blame") {
  accusations heard(/*rank=*/0, /*size=*/4);
  heard.add(1, 2);
  heard.add(2, 3);
  CHECK(heard.follow(1) == accusations::verdict{3, 2});
  heard.make_certain(2);
  CHECK(heard.follow(1) == accusations::verdict{2, 1});
}

TEST_CASE("accusations: accusing this rank or oneself blames nobody") {
  accusations heard(/*rank=*/0, /*size=*/3);
  heard.add(1, 0);
  heard.add(2, 2);
  CHECK(heard.follow(1) == accusations::verdict{1, 0});
  CHECK(heard.follow(2) == accusations::verdict{2, 0});
}

TEST_CASE("accusations: a cycle of accusations ends") {
  accusations heard(/*rank=*/0, /*size=*/4);
  heard.add(1, 2);
  heard.add(2, 3);
  heard.add(3, 1);
  CHECK(heard.follow(1).culprit > 0);
}

TEST_CASE("accusations: in a circle of ranks that waited, the culprit is who does not answer") {
  accusations heard(/*rank=*/0, /*size=*/5);
  auto const nobody_left = [](int) { return false; };
  auto const concluded = [&](int suspect) {
    return heard.conclude(heard.follow(suspect), nobody_left);
  };
  heard.add(0, 1);
  heard.add(1, 0);
  heard.add(2, 1);
  // ranks 3 and 4 have not answered
  CHECK(concluded(1) == accusations::verdict{3, accusations::nobody});
  CHECK(concluded(2) == accusations::verdict{3, accusations::nobody});
  CHECK(heard.conclude(heard.follow(1), [](int rank) { return rank == 3; }) ==
        accusations::verdict{4, accusations::nobody});
  // the chain decides where it ends at one of them, or at a rank that certainly failed
  CHECK(concluded(4) == accusations::verdict{4, 0});
  heard.make_certain(1);
  CHECK(concluded(2) == accusations::verdict{1, 2});
}

TEST_CASE("accusations: a circle of all ranks, and a rank that revoked, are judged by the chain") {
  accusations heard(/*rank=*/0, /*size=*/3);
  auto const nobody_left = [](int) { return false; };
  heard.add(0, 1);
  heard.add(1, 1, "block 7 is damaged");
  CHECK(heard.conclude(heard.follow(1), nobody_left) == accusations::verdict{1, 0});
  heard.add(1, 0);
  heard.add(2, 1);
  CHECK(heard.conclude(heard.follow(2), nobody_left) == accusations::verdict{1, 2});
}

TEST_CASE("accusations: accuser and accused, as seen by other ranks") {
  accusations heard(/*rank=*/1, /*size=*/4);
  CHECK(heard.first_accuser() == accusations::nobody);
  heard.add(1, 3);  // made by this rank
  CHECK(heard.made_by(1) == 3);
  CHECK(heard.first_accuser() == accusations::nobody);
  CHECK(heard.accuser_of(3) == accusations::nobody);
  heard.add(3, 3);  // a self-accusation
  CHECK(heard.first_accuser() == 3);
  CHECK(heard.accuser_of(3) == accusations::nobody);
  heard.add(2, 3);
  CHECK(heard.first_accuser() == 2);
  CHECK(heard.accuser_of(3) == 2);
}

TEST_CASE("accusations: the first text of a revoking rank counts") {
  accusations heard(/*rank=*/0, /*size=*/3);
  CHECK(heard.words_of(2).empty());
  heard.add(1, 2, "block 7 is damaged");
  heard.add(2, 2, "something else");
  CHECK(heard.words_of(2) == "block 7 is damaged");
  CHECK(heard.words_of(1).empty());
}
