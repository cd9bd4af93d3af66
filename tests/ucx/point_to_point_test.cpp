// run: single
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <hcomp/ucx/transport.hpp>
#include <limits>
#include <stdexcept>
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

std::size_t const sizes[] = {0, 1, 3, 1023, 8191, 65537, 1 << 20, 9 << 20};

/// Returns the text of the invalid_argument that `call` must throw.
template <class Call> std::string refusal(Call call) {
  try {
    call();
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("ucx: messages of all sizes arrive unchanged") {
  check_all_finished(run_ranks(2, [](member& self) {
    transport t(self.rank, self.size, self.exchange());
    int const other = 1 - self.rank;
    std::uint64_t sent = 0;
    for (std::size_t bytes : sizes) {
      auto const out = pattern(bytes, std::uint32_t(self.rank + 1));
      std::vector<std::byte> in(bytes);
      auto coming = t.irecv(other, 5, in);
      auto going = t.isend(other, 5, out);
      must(t.wait(coming) == bytes, std::to_string(bytes) + " bytes received");
      must(t.wait(going) == bytes, std::to_string(bytes) + " bytes sent");
      must(t.wait(coming) == bytes, "the same answer when waited for again");
      must(in == pattern(bytes, std::uint32_t(other + 1)), "the bytes that were sent");
      sent += bytes;
    }
    must(t.bytes_sent() == sent, "bytes_sent of " + std::to_string(sent));
  }));
}

TEST_CASE("ucx: device memory is reached by UCX's device transports only") {
  auto const is_loaded = [](char const* library) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.find(library) != line.npos) return true;
    return false;
  };
  check_all_finished(run_ranks(1, [&](member& self) {
    transport t(self.rank, self.size, self.exchange());
    must(t.reaches(memory_space::host), "host memory");
    must(!t.reaches(memory_space::device) || is_loaded("libuct_cuda"),
         "no device's memory without UCX's module for CUDA");
  }));
  check_all_finished(run_ranks(1, [](member& self) {
    setenv("HCOMP_UCX_TLS", "tcp,self", 1);
    transport t(self.rank, self.size, self.exchange());
    must(t.reaches(memory_space::host), "host memory over TCP");
    must(!t.reaches(memory_space::device), "no device's memory over TCP alone");
  }));
}

TEST_CASE("ucx: messages that arrive before their receive are kept") {
  check_all_finished(run_ranks(2, [](member& self) {
    transport t(self.rank, self.size, self.exchange());
    for (std::size_t bytes : sizes) {
      auto data = pattern(bytes, 7);
      if (self.rank == 0) {
        auto data_sent = t.isend(1, 1, data);
        auto sign_sent = t.isend(1, 2, {});
        t.wait(sign_sent);
        t.wait(data_sent);
      } else {
        auto sign = t.irecv(0, 2, {});
        t.wait(sign);
        std::vector<std::byte> in(bytes);
        auto coming = t.irecv(0, 1, in);
        must(t.wait(coming) == bytes && in == data, std::to_string(bytes) + " equal bytes");
      }
    }
  }));
}

TEST_CASE("ucx: messages of one tag keep their order, however different their sizes") {
  check_all_finished(run_ranks(2, [](member& self) {
    transport t(self.rank, self.size, self.exchange());
    int const messages = 200;
    auto const length = [](int i) { return std::size_t(i % 7 == 3 ? 200'000 + i : 4 + i); };
    std::vector<std::vector<std::byte>> data;
    std::vector<transport::request> under_way;
    for (int i = 0; i < messages; ++i) {
      if (self.rank == 0) {
        data.push_back(pattern(length(i), std::uint32_t(i)));
        under_way.push_back(t.isend(1, 9, data.back()));
      } else {
        data.emplace_back(300'000);
        under_way.push_back(t.irecv(0, 9, data.back()));
      }
    }
    for (int i = messages - 1; i >= 0; --i)  // the order of waits changes nothing
      must(t.wait(under_way[std::size_t(i)]) == length(i),
           "length of message " + std::to_string(i));
    for (int i = 0; self.rank == 1 && i < messages; ++i) {
      data[std::size_t(i)].resize(length(i));
      must(data[std::size_t(i)] == pattern(length(i), std::uint32_t(i)),
           "bytes of message " + std::to_string(i));
    }
  }));
}

TEST_CASE("ucx: a receive matches only a message of its tag and its source") {
  check_all_finished(run_ranks(3, [](member& self) {
    transport t(self.rank, self.size, self.exchange());
    tag_t const tags[] = {0, 1, 0x8000'0000u, ~tag_t{0}};
    if (self.rank != 0) {
      for (tag_t tag : tags) {
        auto const out = pattern(16, tag + std::uint32_t(self.rank));
        auto going = t.isend(0, tag, out);
        t.wait(going);
      }
      return;
    }
    for (tag_t tag : {tags[3], tags[0], tags[2], tags[1]})
      for (int source : {2, 1}) {
        std::vector<std::byte> in(16);
        auto coming = t.irecv(source, tag, in);
        t.wait(coming);
        must(in == pattern(16, tag + std::uint32_t(source)),
             "tag " + std::to_string(tag) + " of rank " + std::to_string(source));
      }
  }));
}

TEST_CASE("ucx: a message may be shorter than its receive buffer") {
  check_all_finished(run_ranks(2, [](member& self) {
    transport t(self.rank, self.size, self.exchange());
    for (std::size_t bytes : sizes) {
      if (self.rank == 0) {
        auto const out = pattern(bytes, 1);
        auto going = t.isend(1, 3, out);
        t.wait(going);
      } else {
        std::vector<std::byte> in(bytes + 1000, std::byte{0x5a});
        auto coming = t.irecv(0, 3, in);
        must(t.wait(coming) == bytes, "the length of the message, " + std::to_string(bytes));
        for (std::size_t i = bytes; i < in.size(); ++i)
          must(in[i] == std::byte{0x5a}, "nothing written behind the message");
      }
    }
  }));
}

TEST_CASE("ucx: a rank may send to itself") {
  check_all_finished(run_ranks(1, [](member& self) {
    transport t(self.rank, self.size, self.exchange());
    for (std::size_t bytes : sizes) {
      auto const out = pattern(bytes, 4);
      std::vector<std::byte> in(bytes);
      auto coming = t.irecv(0, 1, in);
      auto going = t.isend(0, 1, out);
      must(t.wait(coming) == bytes && in == out, std::to_string(bytes) + " bytes to itself");
      t.wait(going);
    }
  }));
}

TEST_CASE("ucx: a message longer than its receive buffer is a transport_error") {
  for (std::size_t bytes : {std::size_t{65}, std::size_t{100'000}, std::size_t{9} << 20}) {
    CAPTURE(bytes);
    for (bool early : {false, true}) {
      CAPTURE(early);
      auto const ranks = run_ranks(2, [&](member& self) {
        transport t(self.rank, self.size, self.exchange());
        if (self.rank == 0) {
          auto const out = pattern(bytes, 1);
          auto going = t.isend(1, 3, out);
          auto sign = t.isend(1, 4, {});
          t.wait(sign);
          t.wait(going);
        } else {
          std::vector<std::byte> in(64);
          auto sign = t.irecv(0, 4, {});
          if (early) t.wait(sign);
          auto coming = t.irecv(0, 3, in);
          t.wait(coming);
        }
      });
      INFO(ranks[1].text);
      CHECK(ranks[1].how == ending::gave_up);
      CHECK(ranks[1].peer == 0);
      CHECK(std::string(ranks[1].text) ==
            "ucx: receive of up to 64 bytes from rank 0 (tag 3): rank 0 sent more");
      CHECK(ranks[0].how != ending::other_exception);
      CHECK(ranks[0].clean_exit);
      CHECK(ranks[1].clean_exit);
    }
  }
}

TEST_CASE("ucx: a peer that does not exist is refused, and the transport still works") {
  check_all_finished(run_ranks(2, [](member& self) {
    transport t(self.rank, self.size, self.exchange());
    std::vector<std::byte> bytes(8);
    must(refusal([&] { t.isend(7, 1, bytes); }) ==
             "isend: peer 7, but the transport has 2 ranks (0 to 1)",
         "isend to rank 7 refused");
    must(refusal([&] { t.irecv(-1, 1, bytes); }) ==
             "irecv: peer -1, but the transport has 2 ranks (0 to 1)",
         "irecv from rank -1 refused");
    must(t.bytes_sent() == 0, "nothing sent");
    std::vector<std::byte> in(8);
    must(shift(t, 1, bytes, in) == 8, "still works");
  }));
}

TEST_CASE("ucx: impossible ranks and sizes are refused before the exchange") {
  auto const never = [](std::span<std::byte const>) -> std::vector<std::vector<std::byte>> {
    throw std::logic_error("the exchange was called");
  };
  CHECK(refusal([&] { transport(4, 4, never); }) ==
        "transport: rank 4 of 4 ranks; 0 <= rank < size is needed");
  CHECK(refusal([&] { transport(-1, 4, never); }) ==
        "transport: rank -1 of 4 ranks; 0 <= rank < size is needed");
  CHECK(refusal([&] { transport(0, 0, never); }) ==
        "transport: rank 0 of 0 ranks; 0 <= rank < size is needed");
}

TEST_CASE("ucx: an exchange that returns too little is a transport_error") {
  auto const ranks = run_ranks(1, [](member& self) {
    transport(self.rank, 3, [](std::span<std::byte const> mine) {
      return std::vector<std::vector<std::byte>>{{mine.begin(), mine.end()}};
    });
  });
  CHECK(ranks[0].how == ending::gave_up);
  CHECK(std::string(ranks[0].text) ==
        "ucx: the exchange returned 1 addresses, the transport has 3 ranks");
}
