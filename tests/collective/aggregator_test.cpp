
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <collective/packets.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/aggregation/aggregator.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

using namespace hcomp;
using namespace std::chrono_literals;
using namespace hcomp::testing;

namespace {

using receiver = aggregator_answer::receiver;

std::vector<std::uint32_t> random_indices(std::size_t count, int bits, std::uint64_t seed) {
  random_numbers numbers(seed);
  std::vector<std::uint32_t> indices(count);
  for (auto& index : indices)
    index = static_cast<std::uint32_t>(numbers.integer(0, (1 << bits) - 1));
  return indices;
}

/// The table of the THC paper: b = 4, g = 30, p = 1/32.
std::vector<std::uint8_t> const thc_levels = {0,  3,  5,  7,  9,  11, 13, 14,
                                              16, 17, 19, 21, 23, 25, 27, 30};

aggregation_packet header(int rank, std::uint32_t round = 0, std::uint32_t chunk = 0) {
  aggregation_packet h;
  h.bits = 4;
  h.largest_level = 30;
  h.round = round;
  h.chunk = chunk;
  h.rank = static_cast<std::uint16_t>(rank);
  h.key = 77;
  h.unit = 0x3f800000;
  return h;
}

aggregation_packet words_header(int rank, std::uint32_t round = 0, std::uint32_t chunk = 0) {
  auto h = header(rank, round, chunk);
  h.kind = packet_kind::words;
  h.bits = 32;
  h.largest_level = 0;
  h.unit = 0;
  return h;
}

/// Four workers, two chunks of up to 9 values, up to 5 words.
aggregator_options small_options() {
  aggregator_options o;
  o.workers = 4;
  o.levels = thc_levels;
  o.chunks = 2;
  o.chunk_values = 9;
  o.word_chunks = 1;
  o.chunk_words = 5;
  return o;
}

bool same_bytes(std::span<std::byte const> a, std::span<std::byte const> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}
packet copy_of(std::span<std::byte const> bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

TEST_CASE("aggregator: its packets keep their golden bytes") {
  auto options = small_options();
  options.workers = 2;
  aggregator sums(options);
  auto h = header(0, 0x01020304, 1);
  h.key = 0xa1a2a3a4;
  packet const first = packet_of(h, {1, 2, 15});
  packet const expected_first = [] {
    packet bytes;
    for (int const byte :
         {0x01, 0x54, 1, 4, 30, 0, 0, 0,    0x04, 0x03, 0x02, 0x01, 1, 0,    0,    0,    3,
          0,    0,    0, 1, 0,  0, 0, 0xa4, 0xa3, 0xa2, 0xa1, 0,    0, 0x80, 0x3f, 0x21, 0x0f})
      bytes.push_back(static_cast<std::byte>(byte));
    return bytes;
  }();
  CHECK(same_bytes(first, expected_first));

  take(sums, first, 0ns);
  h.rank = 1;
  auto const answer = take(sums, packet_of(h, {0, 3, 15}), 0ns);
  packet expected;
  for (int const byte :
       {0x01, 0x54, 2, 8, 30, 0, 0,    0,    0x04, 0x03, 0x02, 0x01, 1,    0,    0, 0,  3,  0,
        0,    0,    2, 0, 2,  0, 0xa4, 0xa3, 0xa2, 0xa1, 0,    0,    0x80, 0x3f, 3, 12, 60, 3})
    expected.push_back(static_cast<std::byte>(byte));
  CHECK(answer.to == receiver::all);
  CHECK(same_bytes(answer.packet, expected));
}

TEST_CASE("aggregator: every order of arrival gives the same packet, the exact sum") {
  std::vector<std::vector<std::uint32_t>> indices;
  for (int rank = 0; rank < 4; ++rank)
    indices.push_back(random_indices(9, 4, static_cast<std::uint64_t>(rank)));
  std::vector<std::uint32_t> expected(9);
  for (auto const& mine : indices)
    for (std::size_t i = 0; i < 9; ++i) expected[i] += thc_levels[mine[i]];

  std::vector<int> order = {0, 1, 2, 3};
  packet first;
  int orders = 0;
  do {
    aggregator sums(small_options());
    for (int at = 0; at < 4; ++at) {
      int const rank = order[static_cast<std::size_t>(at)];
      auto const answer =
          take(sums, packet_of(header(rank), indices[static_cast<std::size_t>(rank)]), 0ns);
      REQUIRE(answer.refused == packet_fault::none);
      REQUIRE(answer.to == (at == 3 ? receiver::all : receiver::nobody));
      if (at < 3) continue;
      REQUIRE(numbers_in(answer.packet) == expected);
      REQUIRE(header_of(answer.packet).members == 4);
      if (first.empty()) first = copy_of(answer.packet);
      REQUIRE(same_bytes(answer.packet, first));
    }
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(orders == 24);
}

TEST_CASE("aggregator: exact for all widths, lengths and numbers of workers, at the largest sums") {
  for (int bits = 1; bits <= 8; ++bits)
    for (int const workers : {1, 2, 8, 17, 70, 257})
      for (auto const width : {sum_width::lanes, sum_width::u16, sum_width::tight})
        for (int const largest : {255 / workers, 255 / workers + 1, 255}) {
          CAPTURE(bits);
          CAPTURE(workers);
          CAPTURE(largest);
          if (largest > 255 || largest < (1 << bits) - 1) continue;
          std::size_t const count = std::size_t{1} << (bits + workers) % 6 | (bits & 1);
          aggregator_options options;
          options.workers = workers;
          options.bits = bits;
          options.levels = even_levels(bits, largest);
          options.chunk_values = 33;
          options.width = width;
          aggregator sums(options);
          if (width == sum_width::tight)
            REQUIRE(sums.sum_bits() == bits_for(static_cast<std::uint64_t>(workers * largest)));
          else
            REQUIRE(sums.sum_bits() ==
                    (width == sum_width::u16 || workers * largest > 255 ? 16 : 8));
          std::vector<std::uint32_t> expected(count);
          packet answer;
          for (int rank = 0; rank < workers; ++rank) {
            auto indices = random_indices(count, bits, static_cast<std::uint64_t>(rank + 1));
            indices.back() = (1u << bits) - 1;  // the largest possible sum
            for (std::size_t i = 0; i < count; ++i) expected[i] += options.levels[indices[i]];
            auto h = header(rank);
            h.bits = static_cast<std::uint8_t>(bits);
            h.largest_level = static_cast<std::uint16_t>(largest);
            answer = copy_of(take(sums, packet_of(h, indices), 0ns).packet);
          }
          REQUIRE(numbers_in(answer) == expected);
          REQUIRE(expected.back() == static_cast<std::uint32_t>(workers * largest));
          REQUIRE(members_in(answer).size() == static_cast<std::size_t>(workers));
          REQUIRE(answer.size() ==
                  packet_bytes(static_cast<std::uint32_t>(count), sums.sum_bits(), workers));
        }
}

TEST_CASE("aggregator: sums in tight packets have the predicted number of bits") {
  // ceil(log2(30 n + 1))
  CHECK(bits_for(30) == 5);
  CHECK(bits_for(60) == 6);
  CHECK(bits_for(120) == 7);
  CHECK(bits_for(240) == 8);
  CHECK(bits_for(480) == 9);
  CHECK(bits_for(2184 * 30) == 16);
  CHECK(bits_for(255) == 8);
  CHECK(bits_for(256) == 9);
}

TEST_CASE("aggregator: a contribution counts once, also when it arrives again") {
  aggregator sums(small_options());
  auto const send = [&](int rank) {
    return take(sums, packet_of(header(rank), {static_cast<std::uint32_t>(rank), 15}), 0ns);
  };
  send(2);
  CHECK(send(2).to == receiver::nobody);  // no answer yet
  send(0);
  send(2);
  send(3);
  packet const sum = copy_of(send(1).packet);
  CHECK(numbers_in(sum) == std::vector<std::uint32_t>{0 + 3 + 5 + 7, 120});
  CHECK(sums.stats().duplicates == 2);
  for (int rank = 0; rank < 4; ++rank) {  // a retransmission answers only the rank that asks
    auto const again = send(rank);
    CHECK(again.to == receiver::one);
    CHECK(again.rank == rank);
    CHECK(same_bytes(again.packet, sum));
  }
  CHECK(sums.stats().duplicates == 6);
  CHECK(sums.stats().added == 4);
  CHECK(sums.stats().whole == 1);
  CHECK(sums.stats().partial == 0);
}

TEST_CASE(
    "aggregator: the answer leaves at the quota, and late ranks are told that they were late") {
  auto options = small_options();
  options.quota = 3;
  aggregator sums(options);
  auto const send = [&](int rank) { return take(sums, packet_of(header(rank), {15, 1}), 0ns); };
  send(3);
  send(0);
  packet const sum = copy_of(send(2).packet);
  CHECK(numbers_in(sum) == std::vector<std::uint32_t>{90, 9});
  CHECK(header_of(sum).members == 3);
  CHECK(header_of(sum).rank == 4);
  CHECK(header_of(sum).flags == 0);
  CHECK(members_in(sum) == std::vector<int>{0, 2, 3});

  auto const late = send(1);
  CHECK(late.to == receiver::one);
  CHECK(late.rank == 1);
  CHECK(header_of(late.packet).flags == packet_comes_late);
  CHECK(numbers_in(late.packet) == numbers_in(sum));
  CHECK(members_in(late.packet) == std::vector<int>{0, 2, 3});
  auto const duplicate = send(2);  // a duplicate is not reported as late
  CHECK(same_bytes(duplicate.packet, sum));
  CHECK(sums.stats().late == 1);
  CHECK(sums.stats().duplicates == 1);
  CHECK(sums.stats().partial == 1);

  options.answer_late = false;
  aggregator silent(options);
  for (int const rank : {0, 1, 2}) take(silent, packet_of(header(rank), {1}), 0ns);
  CHECK(take(silent, packet_of(header(3), {1}), 0ns).to == receiver::nobody);
  CHECK(silent.stats().late == 1);
}

TEST_CASE(
    "aggregator: at its deadline every sum leaves with the contributions so far, oldest first") {
  auto options = small_options();
  options.deadline = 100ns;
  aggregator sums(options);
  CHECK(sums.time_left(0ns) == std::chrono::nanoseconds::max());
  take(sums, packet_of(header(1, 0, 1), {4}), 1000ns);
  take(sums, packet_of(header(2, 0, 0), {5}), 1030ns);
  take(sums, packet_of(header(3, 0, 1), {6}), 1090ns);  // does not extend the deadline
  CHECK(sums.time_left(1090ns) == 10ns);
  CHECK(sums.expire(1099ns).to == receiver::nobody);
  auto const first = sums.expire(1100ns);
  CHECK(first.to == receiver::all);
  CHECK(header_of(first.packet).chunk == 1);
  CHECK(header_of(first.packet).members == 2);
  CHECK(members_in(first.packet) == std::vector<int>{1, 3});
  CHECK(numbers_in(first.packet) == std::vector<std::uint32_t>{9 + 13});
  CHECK(sums.expire(1100ns).to == receiver::nobody);
  CHECK(sums.time_left(1100ns) == 30ns);
  auto const second = sums.expire(5000ns);
  CHECK(header_of(second.packet).chunk == 0);
  CHECK(header_of(second.packet).members == 1);
  CHECK(sums.expire(5000ns).to == receiver::nobody);
  CHECK(sums.time_left(5000ns) == std::chrono::nanoseconds::max());
  CHECK(sums.stats().partial == 2);

  // An answer that left in time is not sent again. The deadline of a chunk that was
  // opened between two other chunks is independent.
  for (std::uint32_t round = 1; round < 3; ++round)
    for (std::uint32_t const chunk : {0, 1})
      take(sums, packet_of(header(0, round, chunk), {1}), 6000ns);
  for (int const rank : {1, 2}) take(sums, packet_of(header(rank, 1, 1), {1}), 6001ns);
  CHECK(take(sums, packet_of(header(3, 1, 1), {1}), 6001ns).to == receiver::all);
  std::vector<std::uint32_t> rounds;
  for (auto out = sums.expire(7000ns); out.to == receiver::all; out = sums.expire(7000ns))
    rounds.push_back(10 * header_of(out.packet).round + header_of(out.packet).chunk);
  CHECK(rounds == std::vector<std::uint32_t>{10, 20, 21});
}

TEST_CASE("aggregator: words may have their own deadline") {
  auto options = small_options();
  options.deadline = 100ns;
  for (auto const own : {0ns, 300ns}) {
    options.word_deadline = own;
    aggregator sums(options);
    take(sums, packet_of(words_header(0), {1}), 0ns);
    take(sums, packet_of(header(0), {1}), 1ns);
    CHECK(sums.time_left(50ns) == (own == 0ns ? 50ns : 51ns));
    CHECK(header_of(sums.expire(101ns).packet).kind ==
          (own == 0ns ? packet_kind::maxima : packet_kind::sums));
    CHECK(sums.expire(299ns).to == (own == 0ns ? receiver::all : receiver::nobody));
    CHECK(sums.expire(300ns).to == (own == 0ns ? receiver::nobody : receiver::all));
  }
}

TEST_CASE("aggregator: without a deadline no answer leaves early") {
  aggregator sums(small_options());
  take(sums, packet_of(header(1), {4}), 0ns);
  CHECK(sums.expire(std::chrono::nanoseconds::max()).to == receiver::nobody);
  CHECK(sums.time_left(5ns) == std::chrono::nanoseconds::max());
}

TEST_CASE("aggregator: rounds alternate; a round older than its slot is stale, also around 2^32") {
  for (std::uint32_t const start : {0u, 5u, 0xfffffffeu}) {
    CAPTURE(start);
    auto options = small_options();
    options.workers = 2;
    aggregator sums(options);
    auto const send = [&](int rank, std::uint32_t round) {
      return take(sums, packet_of(header(rank, start + round), {7}), 0ns);
    };
    send(0, 0);
    send(0, 1);  // two rounds are under way
    CHECK(send(1, 0).to == receiver::all);
    send(0, 2);  // takes the slot of round 0
    CHECK(send(1, 0).to == receiver::nobody);
    CHECK(sums.stats().stale == 1);
    CHECK(numbers_in(send(1, 2).packet) == std::vector<std::uint32_t>{28});
    CHECK(sums.stats().abandoned == 0);
    send(0, 3);  // round 1 never received all its contributions
    CHECK(sums.stats().abandoned == 1);
    CHECK(numbers_in(send(1, 3).packet) == std::vector<std::uint32_t>{28});
    send(1, 1);
    CHECK(sums.stats().stale == 2);
  }
}

TEST_CASE("aggregator: words are merged by maximum, beside the sums of the same chunk") {
  aggregator sums(small_options());
  std::uint32_t const one = 0x3f800000, two = 0x40000000;
  take(sums, packet_of(words_header(0), {one, 0, 5}), 0ns);
  take(sums, packet_of(header(0), {1, 1, 1}), 0ns);
  take(sums, packet_of(words_header(1), {two, 0, 0xffffffff}), 0ns);
  take(sums, packet_of(words_header(2), {one, 0, 6}), 0ns);
  auto const answer = take(sums, packet_of(words_header(3), {0, 0, 4}), 0ns);
  CHECK(answer.to == receiver::all);
  CHECK(header_of(answer.packet).kind == packet_kind::maxima);
  CHECK(numbers_in(answer.packet) == std::vector<std::uint32_t>{two, 0, 0xffffffff});
  CHECK(members_in(answer.packet) == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("aggregator: NaN of one member is reported to all") {
  auto options = small_options();
  options.quota = 2;
  aggregator sums(options);
  auto h = header(0);
  h.flags = packet_has_nonfinite | 0x4000;  // unknown bits are not forwarded
  take(sums, packet_of(h, {1}), 0ns);
  auto const answer = take(sums, packet_of(header(1), {1}), 0ns);
  CHECK(header_of(answer.packet).flags == packet_has_nonfinite);
  CHECK(header_of(take(sums, packet_of(header(2), {1}), 0ns).packet).flags ==
        (packet_has_nonfinite | packet_comes_late));
}

TEST_CASE("aggregator: malformed or contradictory packets are refused with their reason") {
  struct {
    packet_fault fault;
    packet bytes;
  } cases[] = {
      {packet_fault::length, {}},
      {packet_fault::length, packet(31)},
      {packet_fault::magic, packet(64)},
      {packet_fault::length, packet_of(header(1), {1, 2, 3})},
      {packet_fault::length, packet_of(header(1), {1, 2, 3})},
  };
  cases[3].bytes.pop_back();
  cases[4].bytes.push_back(std::byte{0});
  std::vector<std::pair<packet_fault, packet>> all;
  for (auto& one : cases) all.emplace_back(one.fault, one.bytes);
  auto const add = [&](packet_fault fault, std::size_t count, auto const& change) {
    auto h = header(1);
    change(h);
    all.emplace_back(fault, packet_of(h, std::vector<std::uint32_t>(count)));
  };
  add(packet_fault::magic, 3, [](auto& h) { ++h.magic; });
  add(packet_fault::kind, 3, [](auto& h) { h.kind = packet_kind::sums; });
  add(packet_fault::kind, 3, [](auto& h) { h.kind = packet_kind{}; });
  add(packet_fault::rank, 3, [](auto& h) { h.rank = 4; });
  add(packet_fault::rank, 3, [](auto& h) { h.rank = 65535; });
  add(packet_fault::members, 3, [](auto& h) { h.members = 2; });
  add(packet_fault::members, 3, [](auto& h) { h.members = 0; });
  add(packet_fault::levels, 3, [](auto& h) { h.bits = 3; });
  add(packet_fault::levels, 3, [](auto& h) { h.largest_level = 31; });
  add(packet_fault::chunk, 3, [](auto& h) { h.chunk = 2; });
  add(packet_fault::chunk, 3, [](auto& h) { h.chunk = 0xffffffff; });
  add(packet_fault::values, 0, [](auto&) {});
  add(packet_fault::values, 10, [](auto&) {});
  add(packet_fault::values, 2, [](auto&) {});  // the first contribution has 3
  add(packet_fault::key, 3, [](auto& h) { ++h.key; });
  add(packet_fault::unit, 3, [](auto& h) { ++h.unit; });
  auto const word = [](auto& h) { h = words_header(1); };
  add(packet_fault::chunk, 3, [&](auto& h) { word(h), h.chunk = 1; });
  add(packet_fault::values, 6, word);
  add(packet_fault::levels, 3, [&](auto& h) { word(h), h.largest_level = 30; });
  add(packet_fault::key, 3, [&](auto& h) { word(h), ++h.key; });
  {
    auto huge = packet_of(header(1), {1, 2, 3});  // claims more values than the packet has bytes
    auto h = header_of(huge);
    h.values = 0xffffffff;
    store(huge.data(), 0, h);
    all.emplace_back(packet_fault::values, huge);
  }

  aggregator sums(small_options());
  take(sums, packet_of(header(0), {1, 2, 3}), 0ns);
  take(sums, packet_of(words_header(0), {1, 2, 3}), 0ns);
  for (auto const& [fault, bytes] : all) {
    std::string const text = to_text(fault);
    CAPTURE(text);
    auto const before = sums.stats();
    auto const answer = take(sums, bytes, 0ns);
    CHECK(std::string(to_text(answer.refused)) == text);
    CHECK(answer.to == receiver::nobody);
    CHECK(sums.stats().refused[static_cast<std::size_t>(fault)] ==
          before.refused[static_cast<std::size_t>(fault)] + 1);
    CHECK(sums.stats().all_refused() == before.all_refused() + 1);
    CHECK(sums.stats().added == 2);
  }
  for (int const rank : {1, 2}) take(sums, packet_of(header(rank), {1, 2, 3}), 0ns);
  auto const sum = take(sums, packet_of(header(3), {1, 2, 3}), 0ns);
  // the refused packets changed nothing
  CHECK(numbers_in(sum.packet) == std::vector<std::uint32_t>{12, 20, 28});
}

TEST_CASE("aggregator: contributions of a rank count only from that rank's sender") {
  aggregator sums(small_options());
  take(sums, packet_of(header(0), {1, 2, 3}), 0ns);
  for (int const from : {0, 2, 3, 4, -1}) {
    auto const answer = sums.take(from, packet_of(header(1), {9, 9, 9}), 0ns);
    CHECK(answer.refused == packet_fault::sender);
    CHECK(answer.to == receiver::nobody);
  }
  CHECK(sums.stats().refused[static_cast<std::size_t>(packet_fault::sender)] == 5);
  for (int const rank : {1, 2}) take(sums, packet_of(header(rank), {1, 2, 3}), 0ns);
  auto const sum = take(sums, packet_of(header(3), {1, 2, 3}), 0ns);
  CHECK(numbers_in(sum.packet) == std::vector<std::uint32_t>{12, 20, 28});
}

TEST_CASE("aggregator: a round far ahead takes no slot, and the next round does") {
  // started before the aggregator
  for (std::uint32_t const start : {0u, 7'000'000u, 0xfffffffeu}) {
    CAPTURE(start);
    auto options = small_options();
    options.rounds_ahead = 5;
    aggregator sums(options);
    auto const add = [&](int rank, std::uint32_t round) {
      return take(sums, packet_of(header(rank, start + round), {1}), 0ns).refused;
    };
    CHECK(add(0, 0) == packet_fault::none);
    CHECK(add(1, 6) == packet_fault::round);
    CHECK(add(1, 0x7fffffff) == packet_fault::round);
    CHECK(take(sums, packet_of(words_header(1, start + 6), {1}), 0ns).refused ==
          packet_fault::round);
    CHECK(sums.stats().refused[static_cast<std::size_t>(packet_fault::round)] == 3);
    for (int const rank : {1, 2, 3}) CHECK(add(rank, 0) == packet_fault::none);
    CHECK(sums.stats().whole == 1);
    CHECK(add(1, 5) == packet_fault::none);  // now the newest round
    CHECK(add(2, 10) == packet_fault::none);
    CHECK(add(3, 16) == packet_fault::round);
    CHECK(sums.stats().stale == 0);
  }
}

TEST_CASE("aggregator: impossible settings are refused with their values") {
  auto const refused = [](std::string const& expected, auto const& change) {
    auto options = small_options();
    change(options);
    auto const end = outcome_of([&] { aggregator const sums(options); });
    CHECK(end.what == "invalid_argument");
    CHECK_MESSAGE(end.text == "aggregator: " + expected, end.text);
  };
  refused("0 workers; 1 to 65535 are possible", [](auto& o) { o.workers = 0; });
  refused("70000 workers; 1 to 65535 are possible", [](auto& o) { o.workers = 70000; });
  refused("indices of 9 bits; 1 to 8 are possible", [](auto& o) { o.bits = 9; });
  refused("16 levels for indices of 3 bits, 8 are needed", [](auto& o) { o.bits = 3; });
  refused("level 1 is 6, the next one 5; levels never fall", [](auto& o) { o.levels[1] = 6; });
  refused("levels from 1 to 30; from 0 to 1 or more is needed", [](auto& o) { o.levels[0] = 1; });
  refused("levels from 0 to 0; from 0 to 1 or more is needed",
          [](auto& o) { o.levels.assign(16, 0); });
  refused(
      "the sum of 2185 workers' levels of up to 30 is up to 65550, 16 bits hold 65535; at most "
      "2184 "
      "workers are possible",
      [](auto& o) { o.workers = 2185; });
  refused("a quota of 5 contributions of 4 workers", [](auto& o) { o.quota = 5; });
  refused("a quota of -1 contributions of 4 workers", [](auto& o) { o.quota = -1; });
  refused(
      "chunks of 0 values and 5 words in 2 rounds; at least 1 of each is needed, and at most 65536 "
      "rounds",
      [](auto& o) { o.chunk_values = 0; });
  refused("rounds_ahead 0; 1 to 2147483647 are possible", [](auto& o) { o.rounds_ahead = 0; });
  CHECK_NOTHROW([] {
    auto options = small_options();
    options.workers = 2184;
    return aggregator(options).sum_bits();
  }());
}

TEST_CASE("aggregator: 300,000 random, truncated and damaged packets do no harm") {
  auto options = small_options();
  options.workers = 67;  // two words of bitmap
  options.deadline = 50ns;
  options.width = sum_width::tight;
  options.rounds_ahead = 4;  // a damaged round within it makes the next rounds stale
  aggregator sums(options);
  random_numbers numbers(11);
  std::uint64_t answers = 0, out = 0;
  for (std::uint64_t i = 0; i < 300'000; ++i) {
    std::chrono::nanoseconds const now(i);
    packet bytes;
    int from = 0;
    if (numbers.integer(0, 9) == 0) {
      bytes.resize(static_cast<std::size_t>(numbers.integer(0, 80)));
      for (auto& byte : bytes) byte = static_cast<std::byte>(numbers.next());
    } else {
      auto h = numbers.integer(0, 3) == 0 ? words_header(numbers.integer(0, 70))
                                          : header(numbers.integer(0, 70));
      h.round = static_cast<std::uint32_t>(i / 1000 - numbers.integer(0, 3));
      h.chunk = static_cast<std::uint32_t>(numbers.integer(0, 2));
      from = h.rank;
      bytes =
          packet_of(h, random_indices(static_cast<std::size_t>(numbers.integer(1, 3) * 3), 4, i));
      for (int damage = numbers.integer(0, 3); damage == 3; damage = numbers.integer(0, 3))
        bytes[numbers.next() % bytes.size()] = static_cast<std::byte>(numbers.next());
      if (numbers.integer(0, 9) == 0) bytes.resize(numbers.next() % (bytes.size() + 1));
    }
    // An exact copy on the heap: a sanitizer sees every byte read beyond it.
    auto answer = sums.take(from, packet(bytes.begin(), bytes.end()), now);
    answers += answer.to == receiver::one;
    do {
      if (answer.to != receiver::nobody) {
        auto const h = header_of(answer.packet);
        REQUIRE(answer.packet.size() == packet_bytes(h.values, h.bits, 67));
        REQUIRE(members_in(answer.packet).size() == h.members);
        for (std::uint32_t const sum : numbers_in(answer.packet))
          if (h.kind == packet_kind::sums) REQUIRE(sum <= h.members * 30u);
      }
      out += answer.to == receiver::all;
      answer = sums.expire(now);
    } while (answer.to != receiver::nobody);
  }
  auto const& stats = sums.stats();
  CHECK(stats.whole + stats.partial == out);
  CHECK(stats.late + stats.duplicates >= answers);
  for (std::size_t fault = 1; fault < stats.refused.size(); ++fault) {
    CAPTURE(fault);
    CHECK(stats.refused[fault] > 0);
  }
  CHECK(stats.added > 1000);
  CHECK(stats.stale > 1000);
}
