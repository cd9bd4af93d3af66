// run: single
#include <doctest/doctest.h>

#include <cstring>
#include <hcomp/ucx/transport.hpp>
#include <string>
#include <vector>

#include "support.hpp"

using namespace hcomp;
using namespace hcomp::ucx;
using namespace hcomp::ucx::testing;

namespace {

void check_all_finished(std::vector<outcome> const& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    CAPTURE(rank);
    INFO(ranks[rank].text);
    CHECK(ranks[rank].how == ending::finished);
    CHECK(ranks[rank].clean_exit);
    CHECK(ranks[rank].seconds < 20);  // no rank waited for the 30 s timeout of closing
  }
}

void move_around(member& self, options const& how, int rounds, std::size_t bytes) {
  transport ring(self.rank, self.size, self.exchange(), how);
  auto held = pattern(bytes, std::uint32_t(self.rank));
  std::vector<std::byte> in(bytes);
  for (int round = 0; round < rounds; ++round) {
    must(shift(ring, tag_t(round), held, in) == bytes, "whole messages");
    held.swap(in);
  }
  int const origin = ((self.rank - rounds) % self.size + self.size) % self.size;
  must(held == pattern(bytes, std::uint32_t(origin)),
       "the bytes of rank " + std::to_string(origin));
  must(ring.bytes_sent() == std::uint64_t(rounds) * bytes, "bytes_sent counts payload");
}

}  // namespace

TEST_CASE("ucx ring: bytes pass 1000 times around the ring unchanged") {
  check_all_finished(run_ranks(4, [](member& self) { move_around(self, {}, 1000, 4096); }));
}

TEST_CASE("ucx ring: long messages as well") {
  check_all_finished(run_ranks(3, [](member& self) { move_around(self, {}, 10, 2'000'003); }));
}

TEST_CASE("ucx ring: without keepalive, also over shared memory") {
  for (char const* transports : {"tcp,self", "posix,sysv,self"}) {
    CAPTURE(transports);
    check_all_finished(run_ranks(4, [&](member& self) {
      setenv("HCOMP_UCX_TLS", transports, 1);
      options const how{.failures = peer_failure::ignore};
      move_around(self, how, 100, 4096);
      move_around(self, how, 10, 300'001);
    }));
  }
}

TEST_CASE("ucx: HCOMP_UCX_... applies, the environment of another UCX user does not") {
  auto const ranks = run_ranks(1, [](member& self) {
    setenv("UCX_TLS", "nonsense", 1);
    { transport fallback(self.rank, self.size, self.exchange()); }
    setenv("HCOMP_UCX_TLS", "nonsense", 1);
    transport refused(self.rank, self.size, self.exchange());
  });
  INFO(ranks[0].text);
  CHECK(ranks[0].how == ending::gave_up);
}

TEST_CASE("ucx teardown: repeated construction and destruction, with and without messages") {
  check_all_finished(run_ranks(5, [](member& self) {
    for (int life = 0; life < 10; ++life) {
      transport t(self.rank, self.size, self.exchange());
      std::vector<std::byte> out(100), in(100);
      if (life % 3 != 0) shift(t, 1, out, in);
    }
  }));
}

TEST_CASE("ucx teardown: ranks of many runs end, early or late") {
  for (int run = 0; run < 20; ++run) {
    CAPTURE(run);
    check_all_finished(run_ranks(4 + run % 2, [&](member& self) {
      transport ring(self.rank, self.size, self.exchange());
      auto const out = pattern(run % 4 == 0 ? 500'000 : 1000, 1);
      std::vector<std::byte> in(out.size());
      for (int round = 0; round < 5; ++round) shift(ring, 1, out, in);
      if (self.rank == run % 4) usleep(20'000);
    }));
  }
}

TEST_CASE("ucx teardown: a pending message to a late rank arrives") {
  check_all_finished(run_ranks(2, [](member& self) {
    transport t(self.rank, self.size, self.exchange());
    auto const out = pattern(5000, 3);
    if (self.rank == 0) {
      auto going = t.isend(1, 1, out);
      t.wait(going);
    } else {
      usleep(100'000);
      std::vector<std::byte> in(out.size());
      auto coming = t.irecv(0, 1, in);
      must(t.wait(coming) == out.size() && in == out, "the message of a rank in its destructor");
    }
  }));
}

TEST_CASE("ucx teardown: a pending operation without a wait gives the peers a transport_error") {
  auto const ranks = run_ranks(3, [](member& self) {
    transport t(self.rank, self.size, self.exchange());
    std::vector<std::byte> out(100), in(100);
    shift(t, 1, out, in);
    if (self.rank == 1) {
      t.irecv(0, 2, in);  // never waited for
      return;
    }
    shift(t, 2, out, in);
    shift(t, 2, out, in);
  });
  CHECK(ranks[1].how == ending::finished);
  for (auto const& rank : {ranks[0], ranks[2]}) {
    INFO(rank.text);
    CHECK(rank.how == ending::gave_up);
    CHECK(rank.peer == 1);
    CHECK(rank.seconds < 20);
    CHECK(rank.clean_exit);
  }
}
