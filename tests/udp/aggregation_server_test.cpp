#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <collective/packets.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/aggregation.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/udp/aggregation_server.hpp>
#include <hcomp/udp/packets.hpp>
#include <optional>
#include <span>
#include <string>
#include <support/mean_of_blocks.hpp>
#include <thread>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;

namespace {

udp::address const free_port("127.0.0.1:0");

/// Two workers, one chunk of up to 64 values, one of up to 4 words.
aggregator_options small_options() {
  aggregator_options o;
  o.workers = 2;
  o.levels = even_levels(4, 30);
  o.chunk_values = 64;
  o.word_chunks = 1;
  o.chunk_words = 4;
  return o;
}

/// Sends single datagrams to a server in the same thread.
class raw_worker {
 public:
  raw_worker(udp::aggregation_server& server, std::uint32_t job, std::uint16_t rank,
             std::uint32_t session)
      : server_(&server),
        to_(server.local()),
        frame_{.job = job, .rank = rank, .session = session} {}

  udp::frame& frame() { return frame_; }

  void send(std::vector<std::byte> const& datagram) {
    socket_.send(to_, datagram);
    server_->serve(10ms);
  }
  void send(udp::frame_kind kind, std::span<std::byte const> body = {}) {
    std::vector<std::byte> datagram(udp::frame_bytes);
    datagram.insert(datagram.end(), body.begin(), body.end());
    auto header = frame_;
    header.kind = kind;
    udp::seal(datagram, header);
    send(datagram);
  }
  void join(aggregator_options const& options) {
    send(udp::frame_kind::join, udp::to_terms(options));
  }
  /// Receives an answer: returns its frame and stores its payload in `body`.
  std::optional<udp::frame> answer() {
    std::vector<std::byte> buffer(2000);
    udp::address from;
    auto const bytes = socket_.receive(buffer, from);
    if (!bytes) return std::nullopt;
    udp::frame header;
    REQUIRE(udp::read_frame(std::span(buffer).first(*bytes), header) == udp::frame_fault::none);
    body.assign(buffer.begin() + udp::frame_bytes, buffer.begin() + static_cast<long>(*bytes));
    return header;
  }
  /// Joins; returns the reason of the refusal, 0 if there is none.
  int refusal_of(aggregator_options const& options) {
    join(options);
    auto const header = answer();
    REQUIRE(header);
    CHECK(header->session == frame_.session);
    if (header->kind == udp::frame_kind::welcome) return 0;
    REQUIRE(header->kind == udp::frame_kind::refusal);
    return static_cast<int>(load<udp::refusal_reason>(body.data()));
  }

  packet body;

 private:
  udp::aggregation_server* server_;
  udp::socket socket_{free_port};
  udp::address to_;
  udp::frame frame_;
};

packet contribution(int rank, std::uint32_t round = 0, std::uint32_t index = 1) {
  aggregation_packet h;
  h.bits = 4;
  h.largest_level = 30;
  h.round = round;
  h.rank = static_cast<std::uint16_t>(rank);
  return packet_of(h, std::vector<std::uint32_t>(64, index));
}
packet leave() {
  aggregation_packet h;
  h.kind = packet_kind::leave;
  return packet_of(h, {});
}

constexpr int reason(udp::refusal_reason why) { return static_cast<int>(why); }
constexpr std::size_t at(packet_fault fault) { return static_cast<std::size_t>(fault); }

}  // namespace

TEST_CASE("udp terms: a worker's terms arrive unchanged and have the documented bytes") {
  aggregator_options o = small_options();
  o.bits = 3;
  o.levels = even_levels(3, 14);
  o.chunks = 5;
  o.rounds = 4;
  o.quota = 1;
  o.width = sum_width::tight;
  o.deadline = 3ms;
  o.word_deadline = 4ms;
  o.answer_late = false;
  auto const terms = udp::to_terms(o);
  CHECK(terms.size() == 56);
  auto const again = udp::from_terms(terms);
  REQUIRE(again);
  CHECK(udp::to_terms(*again) == terms);
  CHECK(again->levels == o.levels);
  CHECK(again->deadline == 3ms);
  CHECK(again->word_deadline == 4ms);
  CHECK(again->width == sum_width::tight);
  CHECK_FALSE(again->answer_late);
  std::vector<std::byte> expected;
  for (int const byte : {2, 0, 3, 2, 5,    0, 0, 0, 64, 0, 0, 0, 1, 0,    0,    0,    4,  0, 0,
                         0, 4, 0, 0, 0,    1, 0, 0, 0,  0, 0, 0, 0, 0xc0, 0xc6, 0x2d, 0,  0, 0,
                         0, 0, 0, 9, 0x3d, 0, 0, 0, 0,  0, 0, 2, 4, 6,    8,    10,   12, 14})
    expected.push_back(static_cast<std::byte>(byte));
  CHECK(terms == expected);
  for (std::size_t bytes = 0; bytes < terms.size(); ++bytes)
    CHECK_FALSE(udp::from_terms(std::span(terms).first(bytes)));
}

TEST_CASE("udp server: adds the packets of joined workers, answers all, and ends when they leave") {
  udp::aggregation_server server(free_port, {});
  raw_worker first(server, 7, 0, 11), second(server, 7, 1, 12);
  CHECK(first.refusal_of(small_options()) == 0);
  CHECK(second.refusal_of(small_options()) == 0);
  CHECK(second.refusal_of(small_options()) == 0);  // repeated, as after a lost answer
  first.send(udp::frame_kind::packet, contribution(0, 0, 1));
  CHECK_FALSE(first.answer());
  second.send(udp::frame_kind::packet, contribution(1, 0, 15));
  for (auto* const worker : {&first, &second}) {
    auto const header = worker->answer();
    REQUIRE(header);
    CHECK(header->kind == udp::frame_kind::packet);
    CHECK(header->job == 7);
    CHECK(numbers_in(worker->body) == std::vector<std::uint32_t>(64, 32));
  }
  REQUIRE(server.jobs().size() == 1);
  CHECK(server.jobs()[0].joined == 2);
  first.send(udp::frame_kind::packet, leave());
  first.send(udp::frame_kind::packet, leave());
  CHECK(server.jobs()[0].left == 1);
  second.send(udp::frame_kind::packet, leave());
  CHECK(server.jobs().empty());
  CHECK(server.stats().jobs_left == 1);
  CHECK(server.ended().added == 2);
  CHECK(server.ended().whole == 1);
  second.send(udp::frame_kind::packet, contribution(1));
  CHECK(server.stats().unknown_job == 1);
}

TEST_CASE("udp server: a packet counts only from its rank's sender, and only for that rank") {
  udp::aggregation_server server(free_port, {});
  raw_worker first(server, 7, 0, 11), second(server, 7, 1, 12), stranger(server, 7, 0, 11);
  CHECK(first.refusal_of(small_options()) == 0);
  CHECK(second.refusal_of(small_options()) == 0);
  stranger.send(udp::frame_kind::packet, contribution(0));  // wrong address
  stranger.send(udp::frame_kind::packet, leave());
  first.frame().session = 13;
  first.send(udp::frame_kind::packet, contribution(0));  // wrong session
  first.frame().session = 11;
  first.frame().rank = 1;
  first.send(udp::frame_kind::packet, contribution(1));  // wrong rank in the frame
  first.frame().rank = 0;
  CHECK(server.stats().foreign == 4);
  first.send(udp::frame_kind::packet, contribution(1));  // wrong rank in the packet
  first.send(udp::frame_kind::packet, contribution(0));
  first.send(udp::frame_kind::packet, contribution(0, 2000));  // a round far ahead
  first.send(udp::frame_kind::packet, contribution(0));        // a duplicate
  second.send(udp::frame_kind::packet, contribution(1, 0, 2));
  REQUIRE(first.answer());
  CHECK(numbers_in(first.body) == std::vector<std::uint32_t>(64, 6));
  auto const sums = server.jobs().at(0).sums;
  CHECK(sums.added == 2);
  CHECK(sums.duplicates == 1);
  CHECK(sums.refused[at(packet_fault::sender)] == 1);
  CHECK(sums.refused[at(packet_fault::round)] == 1);
  CHECK(sums.all_refused() == 2);
  CHECK(stranger.refusal_of(small_options()) == reason(udp::refusal_reason::taken));
  CHECK_FALSE(stranger.answer());
}

TEST_CASE("udp server: jobs beyond its limits, and different or impossible terms, are refused") {
  udp::aggregation_server server(free_port, {.jobs = 2, .memory_bytes = 1 << 20, .idle = 50ms});
  auto const refusal = [&](std::uint32_t job, std::uint16_t rank, auto const& change) {
    auto options = small_options();
    change(options);
    return raw_worker(server, job, rank, 1).refusal_of(options);
  };
  auto const nothing = [](auto&) {};
  CHECK(refusal(1, 2, nothing) == reason(udp::refusal_reason::rank));
  CHECK(server.jobs().empty());
  CHECK(refusal(1, 0, [](auto& o) { o.workers = 0; }) == reason(udp::refusal_reason::terms));
  CHECK(refusal(1, 0, [](auto& o) { o.levels[1] = 31; }) == reason(udp::refusal_reason::terms));
  CHECK(refusal(1, 0, [](auto& o) { o.chunk_values = 2000; }) ==  // exceeds a datagram
        reason(udp::refusal_reason::terms));
  CHECK(refusal(1, 0, [](auto& o) { o.chunks = 5000; }) == reason(udp::refusal_reason::limits));
  CHECK(refusal(1, 0, [](auto& o) {
          o.chunks = o.word_chunks = o.chunk_values = o.chunk_words = o.rounds = 0xffffffff;
        }) == reason(udp::refusal_reason::limits));
  raw_worker bare(server, 1, 0, 1);
  bare.send(udp::frame_kind::join);
  REQUIRE(bare.answer());
  CHECK(load<udp::refusal_reason>(bare.body.data()) == udp::refusal_reason::terms);
  CHECK(refusal(1, 0, nothing) == 0);
  CHECK(refusal(1, 1, [](auto& o) { o.quota = 1; }) == reason(udp::refusal_reason::terms));
  CHECK(refusal(2, 0, nothing) == 0);
  CHECK(refusal(3, 0, nothing) == reason(udp::refusal_reason::limits));
  std::this_thread::sleep_for(60ms);
  server.serve(0ns);
  CHECK(server.jobs().empty());
  CHECK(server.stats().jobs_idle == 2);
  CHECK(refusal(3, 0, nothing) == 0);
}

TEST_CASE("udp server: at the deadline partial sums go out, and late workers are told") {
  for (bool const own : {false, true}) {
    CAPTURE(own);
    udp::server_options limits;
    auto options = small_options();
    (own ? options.deadline : limits.deadline) = 20ms;
    udp::aggregation_server server(free_port, limits);
    raw_worker first(server, 7, 0, 11), second(server, 7, 1, 12);
    CHECK(first.refusal_of(options) == 0);
    CHECK(second.refusal_of(options) == 0);
    first.send(udp::frame_kind::packet, contribution(0));
    for (int n = 0; n < 100 && server.jobs()[0].sums.partial == 0; ++n) server.serve(30ms);
    CHECK(server.jobs()[0].sums.partial == 1);
    REQUIRE(first.answer());
    CHECK(members_in(first.body) == std::vector<int>{0});
    REQUIRE(second.answer());
    second.send(udp::frame_kind::packet, contribution(1));
    REQUIRE(second.answer());
    CHECK((header_of(second.body).flags & packet_comes_late) != 0);
    CHECK(server.jobs()[0].sums.late == 1);
  }
}

TEST_CASE("udp server: statistics are sent on request, in an answer no longer than the question") {
  udp::aggregation_server server(free_port, {.jobs = 1});
  raw_worker one(server, 7, 0, 11), other(server, 8, 0, 12), asker(server, 0, 0, 99);
  CHECK(one.refusal_of(small_options()) == 0);
  CHECK(other.refusal_of(small_options()) == reason(udp::refusal_reason::limits));
  one.send(udp::frame_kind::packet, contribution(0));
  one.send(udp::frame_kind::packet, contribution(0));
  one.send(udp::frame_kind::packet, contribution(1));
  other.send(udp::frame_kind::packet, contribution(0));
  std::vector<std::byte> const buffer(sizeof(udp::statistics));
  asker.send(udp::frame_kind::question, std::span(buffer).subspan(1));  // too short for the answer
  CHECK_FALSE(asker.answer());
  asker.send(udp::frame_kind::question, buffer);
  auto const header = asker.answer();
  REQUIRE(header);
  CHECK(header->kind == udp::frame_kind::statistics);
  CHECK(header->session == 99);
  REQUIRE(asker.body.size() == buffer.size());
  auto const seen = load<udp::statistics>(asker.body.data());
  CHECK(seen.jobs == 1);
  CHECK(seen.jobs_begun == 1);
  CHECK(seen.received == 8);
  CHECK(seen.sent == 2);
  CHECK(seen.joins == 1);
  CHECK(seen.joins_refused == 1);
  CHECK(seen.added == 1);
  CHECK(seen.duplicates == 1);
  CHECK(seen.refused == 1);
  CHECK(seen.unknown_job == 1);
  CHECK(seen.damaged == 1);
  CHECK(seen.whole == 0);
}

TEST_CASE("udp server: a job survives 100,000 random and damaged datagrams") {
  udp::aggregation_server server(free_port, {.jobs = 8, .memory_bytes = 1 << 22});
  raw_worker first(server, 7, 0, 11), second(server, 7, 1, 12), stranger(server, 7, 0, 99);
  CHECK(first.refusal_of(small_options()) == 0);
  CHECK(second.refusal_of(small_options()) == 0);
  first.send(udp::frame_kind::packet, contribution(0, 0, 3));
  random_numbers draws(6);
  auto const terms = udp::to_terms(small_options());
  for (int n = 0; n < 100'000; ++n) {
    auto body = draws.integer(0, 1) == 0 ? contribution(draws.integer(0, 2)) : terms;
    if (draws.integer(0, 1) == 0) body[draws.next() % body.size()] ^= std::byte{4};
    std::vector<std::byte> datagram(udp::frame_bytes);
    datagram.insert(datagram.end(), body.begin(), body.end());
    udp::seal(datagram, {.job = 5u + draws.next() % 4,
                         .kind = static_cast<udp::frame_kind>(draws.integer(0, 7)),
                         .rank = static_cast<std::uint16_t>(draws.integer(0, 3)),
                         .session = static_cast<std::uint32_t>(draws.integer(10, 13))});
    if (draws.integer(0, 3) == 0)
      datagram[draws.next() % datagram.size()] ^= static_cast<std::byte>(1 + draws.next() % 255);
    if (draws.integer(0, 9) == 0) datagram.resize(draws.next() % 1600);
    stranger.send(datagram);
    while (stranger.answer()) continue;
  }
  auto const& stats = server.stats();
  for (std::size_t fault = 1; fault < stats.damaged.size(); ++fault)
    CHECK(stats.damaged[fault] > 0);
  for (std::size_t why = 1; why < stats.refused.size(); ++why) CHECK(stats.refused[why] > 0);
  CHECK(stats.foreign > 1000);
  CHECK(stats.unknown_job > 0);
  auto const mine = [&] {
    for (auto const& one : server.jobs())
      if (one.job == 7) return one;
    return udp::aggregation_server::job_stats{};
  };
  CHECK(mine().sums.added == 1);
  CHECK(mine().sums.all_refused() == 0);
  second.send(udp::frame_kind::packet, contribution(1, 0, 4));
  REQUIRE(second.answer());
  CHECK(numbers_in(second.body) == std::vector<std::uint32_t>(64, 14));
}

TEST_CASE("udp server: concurrent jobs, each with the codec's own mean, bit for bit") {
  udp::aggregation_server server(free_port, {});
  auto const to = server.local();
  std::atomic<bool> stop = false;
  std::thread serving([&] {
    while (!stop) server.serve(10ms);
  });
  constexpr int jobs = 3, workers = 2, rounds = 3;
  std::vector<outcome> ends(jobs * workers);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int job = 0; job < jobs; ++job)
    for (int rank = 0; rank < workers; ++rank)
      threads.emplace_back([&, job, rank] {
        auto const values = static_cast<std::size_t>(20'000 * (job + 1));
        thc<float> const codec({.bits = 2 + job});
        std::vector<std::vector<float>> x;
        for (int r = 0; r < workers; ++r)
          x.push_back(uniform_values(values, static_cast<std::uint64_t>(job), r));
        ends[static_cast<std::size_t>(job * workers + rank)] = outcome_of([&] {
          udp::packets link({.rank = rank,
                             .workers = workers,
                             .aggregators = {to},
                             .job = static_cast<std::uint32_t>(job)});
          // Adding 8-bit levels takes 16 bits, so 1024 values do not fit.
          aggregated_mean mean(values, codec, link,
                               {.share = {workers, 512}, .norm_timeout = 30s, .timeout = 30s});
          link.set_terms(mean.layout().aggregator());
          for (std::uint64_t step = 0; step < rounds; ++step) {
            auto own = x[static_cast<std::size_t>(rank)];
            mean.average(std::span(own), {.seed = 1, .step = step});
            auto const expected =
                mean_of_blocks(codec.fitted(workers), x, {.seed = 1, .step = step});
            wrong += first_difference(own, expected) != nowhere;
          }
          mean.leave();
        });
      });
  for (auto& thread : threads) thread.join();
  std::this_thread::sleep_for(20ms);
  stop = true;
  serving.join();
  for (auto const& one : ends) CHECK_MESSAGE(one.what == "returned", one.text);
  CHECK(wrong == 0);
  CHECK(server.stats().jobs_begun == jobs);
  CHECK(server.stats().jobs_left == jobs);
  CHECK(server.ended().partial == 0);
  CHECK(server.ended().all_refused() == 0);
}

TEST_CASE("udp server: a refused worker throws the reason") {
  udp::aggregation_server server(free_port, {});
  std::atomic<bool> stop = false;
  std::thread serving([&] {
    while (!stop) server.serve(10ms);
  });
  udp::packets link({.rank = 1, .workers = 2, .aggregators = {server.local()}, .job = 4});
  auto const end = outcome_of([&] { link.join(10s); });
  CHECK(end.what == "transport_error");
  CHECK(end.text == "udp: aggregator " + server.local() +
                        " refuses rank 1 of job 4: no terms, impossible ones, or others than the "
                        "job's first worker had");
  link.set_terms(small_options());
  CHECK(outcome_of([&] { link.join(10s); }).what == "returned");
  stop = true;
  serving.join();
}
