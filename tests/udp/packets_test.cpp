#include <doctest/doctest.h>

#include <chrono>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/aggregation.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/udp/aggregator_packets.hpp>
#include <hcomp/udp/packets.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <support/mean_of_blocks.hpp>
#include <thread>
#include <udp/relay.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;

namespace {

std::string const free_port = "127.0.0.1:0";

udp::options aggregator_of(int workers) {
  return {.rank = workers, .workers = workers, .aggregators = {free_port}};
}
udp::options worker(int rank, int workers, std::string const& aggregator) {
  return {.rank = rank, .workers = workers, .aggregators = {aggregator}};
}

std::vector<std::vector<float>> vectors(int workers, std::size_t values, std::uint64_t seed) {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < workers; ++rank) x.push_back(uniform_values(values, seed, rank));
  return x;
}

std::uint64_t all(udp::stats const& stats) {
  std::uint64_t sum = 0;
  for (auto const count : stats.refused) sum += count;
  return sum;
}

std::vector<std::byte> bytes_of(std::size_t count, std::uint64_t seed) {
  random_numbers draws(seed);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(draws.next());
  return bytes;
}

struct run_result {
  std::vector<outcome> ends;  ///< by rank
  std::size_t resent = 0;     ///< packets
  std::size_t wrong = 0;      ///< means that differ from the codec's own in any bit
};

/// Workers with udp::packets average for `rounds` rounds.
/// @param peers  addresses of the aggregators
run_result run_workers(int workers, std::vector<std::string> const& peers, std::size_t values,
                       std::uint64_t rounds) {
  thc<float> const codec;
  auto const x = vectors(workers, values, 3);
  run_result result;
  result.ends.resize(static_cast<std::size_t>(workers));
  std::vector<std::size_t> resent(static_cast<std::size_t>(workers)), wrong(resent);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < workers; ++rank)
    threads.emplace_back([&, rank] {
      auto const me = static_cast<std::size_t>(rank);
      result.ends[me] = outcome_of([&] {
        udp::packets link({.rank = rank, .workers = workers, .aggregators = peers});
        aggregated_mean mean(
            values, codec, link,
            {.share = {workers}, .norm_timeout = 30s, .timeout = 30s, .resend_after = 30ms});
        for (std::uint64_t step = 0; step < rounds; ++step) {
          auto own = x[me];
          auto const report = mean.average(std::span(own), {.seed = 1, .step = step});
          resent[me] += report.resent;
          auto const expected = mean_of_blocks(codec.fitted(static_cast<std::uint32_t>(workers)), x,
                                               {.seed = 1, .step = step});
          wrong[me] += first_difference(own, expected) != nowhere;
        }
        mean.leave();
      });
    });
  for (auto& thread : threads) thread.join();
  for (auto const one : resent) result.resent += one;
  for (auto const one : wrong) result.wrong += one;
  return result;
}

bool all_returned(std::vector<outcome> const& ends) {
  for (auto const& one : ends)
    if (one.what != "returned") return false;
  return true;
}

/// An aggregator in a thread, until its workers have left.
class served {
 public:
  served(udp::options const& how, std::size_t values, std::chrono::nanoseconds idle)
      : link_(how), thread_([this, values, idle] {
          end = outcome_of([&] {
            aggregation_layout const layout(values, thc<float>(), link_.size(), {workers()});
            stats = serve_aggregation(link_, layout.aggregator(), idle);
          });
        }) {}
  ~served() {
    if (thread_.joinable()) thread_.join();
  }
  int workers() const { return link_.rank(); }  // the rank of the only aggregator
  void join() { thread_.join(); }
  udp::aggregator_packets& link() { return link_; }

  outcome end;
  aggregator_stats stats;

 private:
  udp::aggregator_packets link_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("udp frame: its bytes, and every damaged bit is found") {
  std::vector<std::byte> datagram(udp::frame_bytes + 5, std::byte{7});
  udp::seal(
      datagram,
      {.job = 0x01020304, .kind = udp::frame_kind::packet, .rank = 0x0506, .session = 0xa1a2a3a4});
  std::vector<std::byte> expected;
  for (int const byte :
       {0x48, 0x43, 0x55, 0x31, 4, 3, 2, 1, 1, 0, 6, 5, 0xa4, 0xa3, 0xa2, 0xa1, 7, 7, 7, 7, 7})
    expected.push_back(static_cast<std::byte>(byte));
  CHECK(std::vector(datagram.begin() + 8, datagram.end()) == expected);
  CHECK(load<std::uint64_t>(datagram.data()) == 6859945109790754390u);
  udp::frame header;
  CHECK(udp::read_frame(datagram, header) == udp::frame_fault::none);
  CHECK(header.rank == 0x0506);
  for (std::size_t bit = 0; bit < datagram.size() * 8; ++bit) {
    auto damaged = datagram;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    auto const fault = udp::read_frame(damaged, header);
    CAPTURE(bit);
    CHECK(fault == (bit / 32 == 2 ? udp::frame_fault::magic : udp::frame_fault::checksum));
  }
  for (std::size_t bytes = 0; bytes < datagram.size(); ++bytes)
    CHECK(udp::read_frame(std::span(datagram).first(bytes), header) ==
          (bytes < udp::frame_bytes ? udp::frame_fault::length : udp::frame_fault::checksum));
  datagram.push_back(std::byte{0});
  CHECK(udp::read_frame(datagram, header) == udp::frame_fault::checksum);
}

TEST_CASE("udp packets: arrive complete, in both directions, from the rank that sent them") {
  for (std::string const host : {"127.0.0.1", "[::1]"}) {
    CAPTURE(host);
    auto how = aggregator_of(2);
    how.aggregators = {host + ":0"};
    std::unique_ptr<udp::aggregator_packets> made;
    auto const end = outcome_of([&] { made = std::make_unique<udp::aggregator_packets>(how); });
    if (host == "[::1]" && end.what == "transport_error") continue;  // this node has no IPv6
    REQUIRE(end.what == "returned");
    auto& aggregator = *made;
    std::thread thread([&] {
      std::vector<std::byte> buffer(2000);
      for (int n = 0; n < 40; ++n) {  // back to the sender
        auto const got = aggregator.receive(buffer, 20s);
        if (got.from < 0) return;
        aggregator.send(got.from, std::span(buffer).first(got.bytes));
      }
    });
    udp::packets first(worker(0, 2, aggregator.local())), second(worker(1, 2, aggregator.local()));
    first.join(20s);
    second.join(20s);
    std::vector<std::byte> buffer(2000);
    for (std::size_t n = 0; n < 20; ++n)
      for (auto* const link : {&first, &second}) {
        auto const sent = bytes_of(n * 76, n);  // up to 1444
        link->send(2, sent);
        auto const got = link->receive(buffer, 20s);
        CHECK(got.from == 2);
        REQUIRE(got.bytes == sent.size());
        CHECK(std::vector(buffer.begin(), buffer.begin() + static_cast<long>(got.bytes)) == sent);
      }
    thread.join();
    CHECK(aggregator.stats().received == 40);
    CHECK(aggregator.stats().joins >= 2);
    CHECK(aggregator.stats().foreign == 0);
  }
}

TEST_CASE("udp packets: a packet longer than the buffer is truncated, and its length is returned") {
  udp::aggregator_packets aggregator(aggregator_of(1));
  udp::packets link(worker(0, 1, aggregator.local()));
  link.send(1, std::vector<std::byte>(100, std::byte{7}));
  std::vector<std::byte> buffer(11, std::byte{1});
  CHECK(aggregator.receive({}, 1ms).from == -1);  // the join; after it the packet leaves
  CHECK(link.receive({}, 1ms).from == -1);
  auto const got = aggregator.receive(std::span(buffer).first(10), 20s);
  CHECK(got.from == 0);
  CHECK(got.bytes == 100);
  CHECK(buffer[9] == std::byte{7});
  CHECK(buffer[10] == std::byte{1});
}

TEST_CASE("udp packets: receive returns at its timeout, join fails with the address") {
  udp::packets link(worker(0, 1, "127.0.0.1:9"));
  auto const start = link.now();
  CHECK(link.receive({}, 20ms).from == -1);
  CHECK(link.now() - start >= 20ms);
  auto const end = outcome_of([&] { link.join(30ms); });
  CHECK(end.what == "transport_error");
  CHECK(end.peer == 1);
  CHECK(end.text == "udp: aggregator 127.0.0.1:9 did not answer rank 0 of job 0 within 30 ms");
}

TEST_CASE("udp packets: at most a window leaves without an answer") {
  auto how = worker(0, 1, "");
  how.window = 5;
  how.window_timeout = 1h;
  udp::aggregator_packets aggregator(aggregator_of(1));
  how.aggregators = {aggregator.local()};
  udp::packets link(how);
  for (std::size_t n = 0; n < 20; ++n) link.send(1, bytes_of(50, n));
  CHECK(aggregator.receive({}, 1ms).from == -1);  // the join
  CHECK(link.receive({}, 1ms).from == -1);
  for (int answers = 0; answers < 15; ++answers) {
    std::vector<std::byte> buffer(100);
    for (int n = answers == 0 ? 0 : 4; n < 5; ++n) CHECK(aggregator.receive(buffer, 20s).from == 0);
    CHECK(aggregator.receive(buffer, 1ms).from == -1);
    aggregator.send(0, buffer);
    CHECK(link.receive(buffer, 20s).from == 1);  // and the packets that the answer releases
    CHECK(link.receive(buffer, 0ns).from == -1);
  }
  CHECK(aggregator.receive({}, 20s).from == 0);
}

TEST_CASE("udp packets: an unanswered window opens anew, and waiting packets are queued once") {
  auto how = worker(0, 1, "");
  how.window = 5;
  udp::aggregator_packets aggregator(aggregator_of(1));
  how.aggregators = {aggregator.local()};
  udp::packets link(how);
  for (int again = 0; again < 3; ++again)
    for (std::size_t n = 0; n < 20; ++n) link.send(1, bytes_of(50, n));
  CHECK(link.stats().waiting == 40);
  CHECK(aggregator.receive({}, 1ms).from == -1);  // the join
  CHECK(link.receive({}, 200ms).from == -1);
  CHECK(link.stats().windows == 3);
  for (std::size_t n = 0; n < 20; ++n) {
    std::vector<std::byte> buffer(50);
    CHECK(aggregator.receive(buffer, 20s).from == 0);
    CHECK(buffer == bytes_of(50, n));  // the loopback interface keeps the order
  }
  CHECK(aggregator.receive({}, 1ms).from == -1);
}

TEST_CASE("udp packets: a worker sends no faster than its rate") {
  auto how = worker(0, 1, "");
  how.window = 1000;
  how.bytes_per_second = 1'000'000;
  udp::aggregator_packets aggregator(aggregator_of(1));
  how.aggregators = {aggregator.local()};
  udp::packets link(how);
  for (std::size_t n = 0; n < 100; ++n) link.send(1, bytes_of(976, n));  // 1000 bytes with frames
  CHECK(aggregator.receive({}, 1ms).from == -1);                         // the join
  auto const start = link.now();
  while (link.stats().sent - link.stats().joins < 100) link.receive({}, 1ms);
  CHECK(link.now() - start >= 98ms);  // 100 ms minus a burst of 1 ms and the last packet's own time
}

TEST_CASE("udp packets: invalid options are refused with their values") {
  auto const refused = [](std::string const& text, auto const& body) {
    auto const end = outcome_of(body);
    CHECK(end.what == "invalid_argument");
    CHECK_MESSAGE(end.text == text, end.text);
  };
  udp::packets link(worker(1, 2, "127.0.0.1:9"));
  refused("send: peer 3, but the job has 3 ranks (0 to 2)", [&] { link.send(3, {}); });
  refused("send: peer 0 is a worker; workers send to aggregators, from rank 2 on",
          [&] { link.send(0, {}); });
  refused(
      "send: a packet of 1449 bytes and 24 before it, but datagrams have at most 1472; take "
      "smaller "
      "chunk_values, or datagram_bytes that the network holds",
      [&] { link.send(2, std::vector<std::byte>(1449)); });
  refused("udp::packets: rank 2 is none of the 2 workers",
          [] { udp::packets const one(worker(2, 2, "127.0.0.1:9")); });
  refused("udp: rank 3, but there are ranks 0 to 2",
          [] { udp::packets const one(worker(3, 2, "127.0.0.1:9")); });
  refused(
      "udp: 0 workers and 1 aggregators; 1 to 65535 workers and at least 1 aggregator are needed",
      [] { udp::packets const one(worker(0, 0, "127.0.0.1:9")); });
  refused("udp: address 'nowhere'; it is HOST:PORT",
          [] { udp::packets const one(worker(0, 1, "nowhere")); });
  for (std::string const port : {"65536", "99999", "-1", "7475x", "http"})
    refused("udp: address '127.0.0.1:" + port + "': the port is a number from 0 to 65535",
            [&] { udp::packets const one(worker(0, 1, "127.0.0.1:" + port)); });
  refused("udp::aggregator_packets: rank 0 is a worker; aggregators are ranks 1 to 1",
          [] { udp::aggregator_packets const one(worker(0, 1, free_port)); });
  udp::aggregator_packets aggregator(aggregator_of(2));
  refused("send: peer 2, but the job, for an aggregator, has 2 ranks (0 to 1)",
          [&] { aggregator.send(2, {}); });
  auto const end =
      outcome_of([&] { udp::aggregator_packets const one(worker(2, 2, aggregator.local())); });
  CHECK(end.what == "transport_error");
  CHECK_MESSAGE(
      end.text == "udp: listen on " + aggregator.local() + ": Address already in use (98)",
      end.text);
}

TEST_CASE("udp packets: the first sender of a rank owns it; later ones are refused or ignored") {
  udp::aggregator_packets aggregator(aggregator_of(1));
  udp::packets link(worker(0, 1, aggregator.local()));
  std::vector<std::byte> buffer(100);
  auto const answer_joins = [&] { CHECK(aggregator.receive(buffer, 5ms).from == -1); };
  link.send(1, bytes_of(10, 1));
  answer_joins();
  CHECK(link.receive(buffer, 1ms).from == -1);
  CHECK(aggregator.receive(buffer, 20s).from == 0);

  udp::packets second(worker(0, 1, aggregator.local()));
  second.send(1, bytes_of(10, 2));
  answer_joins();
  auto end = outcome_of([&] { second.receive(buffer, 20s); });
  CHECK(end.what == "transport_error");
  CHECK(end.text == "udp: aggregator " + aggregator.local() +
                        " refuses rank 0 of job 0: another sender has this rank");
  udp::packets third(worker(1, 2, aggregator.local()));
  third.send(2, bytes_of(10, 2));
  answer_joins();
  end = outcome_of([&] { third.receive(buffer, 20s); });
  CHECK(end.text == "udp: aggregator " + aggregator.local() +
                        " refuses rank 1 of job 0: the job has no worker of this rank");

  // As a stranger: packets of rank 0 with another session, of another job, damaged, and too long.
  udp::socket stranger(udp::address{free_port});
  udp::address const to(aggregator.local());
  auto const before = aggregator.stats();
  std::vector<std::byte> datagram(udp::frame_bytes + 10);
  udp::seal(datagram, {.job = 0});
  stranger.send(to, datagram);
  udp::seal(datagram, {.job = 1});
  stranger.send(to, datagram);
  datagram.back() ^= std::byte{1};
  stranger.send(to, datagram);
  udp::seal(datagram, {.job = 0, .kind = udp::frame_kind::welcome});
  stranger.send(to, datagram);
  stranger.send(to, std::vector<std::byte>(1473));
  stranger.send(to, std::vector<std::byte>(64));
  answer_joins();
  auto const& after = aggregator.stats();
  CHECK(after.foreign == before.foreign + 2);
  auto const refused = [&](udp::frame_fault fault) {
    return after.refused[static_cast<std::size_t>(fault)];
  };
  CHECK(refused(udp::frame_fault::checksum) == 1);
  CHECK(refused(udp::frame_fault::kind) == 1);
  CHECK(refused(udp::frame_fault::length) == 1);
  CHECK(refused(udp::frame_fault::magic) == 1);

  // Workers accept packets from their aggregator only.
  auto how = worker(0, 1, aggregator.local());
  how.listen = free_port;
  udp::packets listens(how);
  udp::seal(datagram, {.job = 0});
  stranger.send(udp::address(listens.local()), datagram);
  CHECK(listens.receive(buffer, 5ms).from == -1);
  CHECK(listens.stats().foreign == 1);
}

TEST_CASE("udp packets: a rank's packets need both its address and its session") {
  udp::aggregator_packets aggregator(aggregator_of(1));
  udp::address const to(aggregator.local());
  udp::socket joined(udp::address{free_port}), stranger(udp::address{free_port});
  auto const takes = [&](udp::socket& from, std::uint32_t session, udp::frame_kind kind) {
    std::vector<std::byte> datagram(udp::frame_bytes);
    udp::seal(datagram, {.kind = kind, .session = session});
    from.send(to, datagram);
    return aggregator.receive({}, 1ms).from == 0;
  };
  CHECK_FALSE(takes(joined, 7, udp::frame_kind::packet));  // before it joins
  takes(joined, 7, udp::frame_kind::join);
  CHECK(takes(joined, 7, udp::frame_kind::packet));
  CHECK_FALSE(takes(joined, 8, udp::frame_kind::packet));
  CHECK_FALSE(takes(stranger, 7, udp::frame_kind::packet));
  CHECK(aggregator.stats().foreign == 3);
}

TEST_CASE("udp packets: workers and aggregators give the codec's own mean, bit for bit") {
  constexpr std::size_t values = 200'000;  // 196 chunks: several windows
  served aggregator(aggregator_of(3), values, 20s);
  auto const got = run_workers(3, {aggregator.link().local()}, values, 2);
  aggregator.join();
  REQUIRE_MESSAGE(all_returned(got.ends), hcomp::testing::to_text(got.ends));
  CHECK(aggregator.end.what == "returned");
  CHECK(got.wrong == 0);
  CHECK(aggregator.stats.partial == 0);
  CHECK(aggregator.stats.all_refused() == 0);
  CHECK(all(aggregator.link().stats()) == 0);
}

TEST_CASE("udp packets: with datagrams lost, repeated, late and damaged the bits are the same") {
  constexpr std::size_t values = 60'000;
  served aggregator(aggregator_of(3), values, 2s);
  relay between(aggregator.link().local(), {.lost = 5, .repeated = 5, .delayed = 5, .damaged = 5},
                11);
  auto const got = run_workers(3, {between.local()}, values, 4);
  aggregator.join();
  REQUIRE_MESSAGE(all_returned(got.ends), hcomp::testing::to_text(got.ends));
  CHECK(got.wrong == 0);
  CHECK(got.resent > 0);
  CHECK(between.harmed() > 50);
  CHECK(aggregator.stats.partial == 0);
  CHECK(aggregator.stats.duplicates > 0);
  CHECK(aggregator.stats.all_refused() == 0);  // the frame's checksum stops damaged datagrams
  CHECK(all(aggregator.link().stats()) > 0);
}

TEST_CASE("udp packets: lossy_packets around the link drops by a seed, and the bits are the same") {
  constexpr std::size_t values = 30'000;
  constexpr int workers = 2;
  thc<float> const codec;
  auto const x = vectors(workers, values, 4);
  auto results = x;
  served aggregator(aggregator_of(workers), values, 2s);
  std::vector<std::thread> threads;
  std::vector<outcome> ends(workers);
  std::vector<std::uint64_t> lost(workers);
  for (std::size_t rank = 0; rank < workers; ++rank)
    threads.emplace_back([&, rank] {
      ends[rank] = outcome_of([&] {
        udp::packets inner(worker(static_cast<int>(rank), workers, aggregator.link().local()));
        lossy_packets link(inner, 0.2, 6);
        aggregated_mean mean(
            values, codec, link,
            {.share = {workers}, .norm_timeout = 30s, .timeout = 30s, .resend_after = 20ms});
        mean.average(std::span(results[rank]), {.seed = 2});
        mean.leave();
        lost[rank] = link.packets_lost();
      });
    });
  for (auto& thread : threads) thread.join();
  REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
  auto const expected = mean_of_blocks(codec.fitted(workers), x, {.seed = 2});
  for (auto const& result : results) CHECK(first_difference(result, expected) == nowhere);
  CHECK(lost[0] + lost[1] > 0);
}
