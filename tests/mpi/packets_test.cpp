// ranks: 1 2 3 5
#include <doctest/doctest.h>
#include <mpi.h>

#include <chrono>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/aggregation.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <span>
#include <string>
#include <support/mean_of_blocks.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;

TEST_CASE(
    "mpi packets: every packet arrives whole, in the order of its sender, and none is awaited") {
  mpi::packets link(MPI_COMM_WORLD);
  int const next = (link.rank() + 1) % link.size();
  int const before = (link.rank() + link.size() - 1) % link.size();
  std::vector<std::byte> buffer(4096);
  std::uint64_t bytes = 0;
  for (std::size_t n = 0; n < 300; ++n) {
    std::vector<std::byte> const packet(n * 13, static_cast<std::byte>(n));
    link.send(next, packet);  // the vector is destroyed before the packet is received
    bytes += packet.size();
  }
  CHECK(link.bytes_sent() == bytes);
  for (std::size_t n = 0; n < 300; ++n) {
    auto const got = link.receive(buffer, 60s);
    REQUIRE(got.from == before);
    REQUIRE(got.bytes == n * 13);
    for (std::size_t i = 0; i < got.bytes; ++i) REQUIRE(buffer[i] == static_cast<std::byte>(n));
  }
}

TEST_CASE("mpi packets: receive returns at its timeout") {
  mpi::packets link(MPI_COMM_WORLD);
  std::vector<std::byte> buffer(16);
  auto const start = link.now();
  CHECK(link.receive(buffer, 20ms).from == -1);
  CHECK(link.now() - start >= 20ms);
}

TEST_CASE("mpi packets: a packet longer than the buffer is truncated, and its length is returned") {
  mpi::packets link(MPI_COMM_WORLD);
  std::vector<std::byte> const packet(100, std::byte{7});
  std::vector<std::byte> buffer(11, std::byte{1});
  link.send(link.rank(), packet);
  auto const got = link.receive(std::span(buffer).first(10), 60s);
  CHECK(got.from == link.rank());
  CHECK(got.bytes == 100);
  CHECK(buffer[9] == std::byte{7});
  CHECK(buffer[10] == std::byte{1});
}

TEST_CASE("mpi packets: packets that no rank receives do not block the end") {
  mpi::packets link(MPI_COMM_WORLD);
  std::vector<std::byte> const packet(100'000);
  for (int peer = 0; peer < link.size(); ++peer) link.send(peer, packet);
}

TEST_CASE("mpi packets: a wrong peer is refused with the numbers") {
  mpi::packets link(MPI_COMM_WORLD);
  auto const end = outcome_of([&] { link.send(99, {}); });
  CHECK(end.what == "invalid_argument");
  CHECK(end.text == "send: peer 99, but the communicator has " + std::to_string(link.size()) +
                        " ranks (0 to " + std::to_string(link.size() - 1) + ")");
}

TEST_CASE("mpi packets: workers and aggregator give the codec's own mean, bit for bit") {
  mpi::packets link(MPI_COMM_WORLD);
  if (link.size() < 2) return;
  int const workers = link.size() - 1;
  constexpr std::size_t values = 40000;
  thc<float> const codec;
  std::vector<std::vector<float>> x;
  for (int worker = 0; worker < workers; ++worker) x.push_back(uniform_values(values, 3, worker));
  if (link.rank() == workers) {
    aggregation_layout const layout(values, codec, link.size(), {workers});
    auto const stats = serve_aggregation(link, layout.aggregator(), 60s);
    CHECK(stats.partial == 0);
    return;
  }
  aggregated_mean mean(values, codec, link,
                       {.share = {workers}, .norm_timeout = 60s, .timeout = 60s});
  for (std::uint64_t step = 0; step < 3; ++step) {
    auto mine = x[static_cast<std::size_t>(link.rank())];
    mean.average(std::span(mine), {.seed = 1, .step = step});
    auto const expected = mean_of_blocks(codec.fitted(static_cast<std::uint32_t>(workers)), x,
                                         {.seed = 1, .step = step});
    CHECK(first_difference(mine, expected) == nowhere);
  }
  mean.leave();
}
