
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <collective/packets.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/aggregation/aggregated_mean.hpp>
#include <hcomp/collective/aggregation/serve_aggregation.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/in_process_packets.hpp>
#include <hcomp/transport/lossy_packets.hpp>
#include <limits>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <support/baselines.hpp>
#include <support/close_to.hpp>
#include <support/mean_of_blocks.hpp>
#include <thread>
#include <vector>

using namespace hcomp;
using namespace std::chrono_literals;
using namespace hcomp::testing;
using namespace std::chrono_literals;

namespace {

/// Calls f(link) on one thread per rank. Returns the outcome of each rank.
template <class F> std::vector<outcome> on_links(int ranks, F const& f) {
  packet_world world(ranks);
  std::vector<outcome> outcomes(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      in_process_packets link(world, rank);
      outcomes[static_cast<std::size_t>(rank)] = outcome_of([&] { f(link); });
    });
  for (auto& thread : threads) thread.join();
  return outcomes;
}

bool all_returned(std::vector<outcome> const& outcomes) {
  for (auto const& one : outcomes)
    if (one.what != "returned") return false;
  return true;
}

/// Runs the aggregator of on_links with the options of the layout, changed by `wanted`.
template <class C, class L>
aggregator_stats serve(L& link, std::size_t values, C const& codec,
                       aggregation_options const& share, aggregator_options const& wanted = {},
                       std::chrono::nanoseconds idle = 10s) {
  aggregation_layout<C> const layout(values, codec, link.size(), share);
  return serve_aggregation(link, layout.aggregator(wanted), idle);
}

std::vector<std::vector<float>> normal_vectors(int workers, std::size_t values,
                                               std::uint64_t seed) {
  baselines::randomness random(seed);
  std::vector<std::vector<float>> all(static_cast<std::size_t>(workers));
  for (auto& x : all)
    for (std::size_t i = 0; i < values; ++i) x.push_back(static_cast<float>(random.normal()));
  return all;
}

/// ||mean - estimate||^2 in units of the workers' mean ||x||^2.
double nmse(std::vector<std::vector<float>> const& workers, std::vector<float> const& estimate) {
  std::vector<baselines::vector> all;
  for (auto const& x : workers) all.emplace_back(x.begin(), x.end());
  return baselines::nmse(all, {estimate.begin(), estimate.end()});
}

}  // namespace

TEST_CASE(
    "aggregated_mean: with contributions of all workers, it is the codec's own mean, bit by bit") {
  struct {
    int workers, aggregators;
    std::size_t values;
    std::uint32_t chunk;
    thc_options how;
    sum_width width;
  } const cases[] = {
      {1, 1, 1, 1024, {}, sum_width::lanes},
      {2, 1, 100, 64, {}, sum_width::tight},
      {3, 2, 4096, 1024, {}, sum_width::lanes},
      {4, 1, 16384 + 777, 1024, {}, sum_width::tight},
      {4, 3, 40000, 16384, {}, sum_width::u16},
      {9, 2, 20000, 256, {.bits = 4, .granularity = 30}, sum_width::lanes},
      {5, 1, 3000, 128, {.bits = 3, .transform = 64}, sum_width::tight},
      {3, 1, 33000, 512, {.bits = 8, .transform = 16384}, sum_width::lanes},
      {2, 1, 5000, 1024, {.bits = 1, .truncation = 0.1}, sum_width::lanes},
      {4, 2, 0, 1024, {}, sum_width::lanes},
  };
  auto const check = []<class C>(C const& codec, auto const& one) {
    CAPTURE(std::string(C::name));
    CAPTURE(one.workers);
    CAPTURE(one.values);
    auto const x = normal_vectors(one.workers, one.values, 5);
    auto results = x, later = x;
    aggregation_options const share{one.workers, one.chunk};
    draw_key const key{.seed = 3, .step = 8}, next{.seed = 3, .step = 9};
    auto const ends = on_links(one.workers + one.aggregators, [&](in_process_packets& link) {
      if (link.rank() >= one.workers) {
        aggregator_options wanted;
        wanted.width = one.width;
        serve(link, one.values, codec, share, wanted);
        return;
      }
      aggregated_mean mean(one.values, codec, link,
                           {.share = share, .norm_timeout = 20s, .timeout = 20s});
      auto const report =
          mean.average(std::span(results[static_cast<std::size_t>(link.rank())]), key);
      if (report.lost + report.left_out > 0 ||
          report.contributions != report.chunks * static_cast<std::size_t>(one.workers))
        throw std::runtime_error("some contribution did not come");
      mean.average(std::span(later[static_cast<std::size_t>(link.rank())]), next);
      mean.leave();
    });
    REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
    auto const fitted = codec.fitted(static_cast<std::uint32_t>(one.workers));
    auto const expected = mean_of_blocks(fitted, x, key);
    auto const expected_later = mean_of_blocks(fitted, x, next);
    for (auto const& result : results) REQUIRE(first_difference(result, expected) == nowhere);
    for (auto const& result : later) REQUIRE(first_difference(result, expected_later) == nowhere);
  };
  for (auto const& one : cases) {
    check(thc<float>(one.how), one);
    if (one.how.granularity == 0) check(uniform_thc<float>(one.how), one);
  }
}

TEST_CASE("aggregated_mean: with k of n workers, the error is (V + B) / k + (1 - 2p)(1/k - 1/n)") {
  // The scheduler decides which k contributions come first. The vectors are independent, so the
  // choice does not matter.
  constexpr std::size_t values = 1 << 16;
  constexpr int workers = 10;
  for (int const quota : {9, 8, 5}) {
    CAPTURE(quota);
    thc<float> const codec({.bits = 4, .granularity = 30});
    auto const x = normal_vectors(workers, values, static_cast<std::uint64_t>(quota));
    auto results = x;
    aggregator_stats stats;
    std::atomic<std::size_t> left_out = 0, chunks = 0;
    auto const ends = on_links(workers + 1, [&](in_process_packets& link) {
      if (link.rank() == workers) {
        aggregator_options wanted;
        wanted.quota = quota;
        stats = serve(link, values, codec, {workers}, wanted);
        return;
      }
      aggregated_mean mean(values, codec, link,
                           {.share = {workers}, .norm_timeout = 20s, .timeout = 20s});
      auto const report =
          mean.average(std::span(results[static_cast<std::size_t>(link.rank())]), {.seed = 1});
      left_out += report.left_out;
      chunks = report.chunks;
      if (report.contributions != report.chunks * static_cast<std::size_t>(quota))
        throw std::runtime_error("a sum of more or fewer members than the quota");
      mean.leave();
    });
    REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
    for (auto const& result : results)
      REQUIRE(first_difference(result, results.front()) == nowhere);
    auto const table = codec.table();
    double const k = quota, n = workers, p = codec.truncation();
    double const expected =
        (table.rounding_error + table.truncation_error) / k + (1 - 2 * p) * (1 / k - 1 / n);
    CHECK(nmse(x, results.front()) == close_to(expected, 0.05));
    CHECK(left_out == chunks * (workers - static_cast<std::size_t>(quota)));
    CHECK(stats.partial >= chunks);
    CHECK(stats.late > 0);
  }
}

TEST_CASE(
    "aggregated_mean: a lost answer adds its share of ||mean||^2 to the error, evenly spread") {
  constexpr std::size_t values = 1 << 18;
  constexpr int workers = 4;
  thc<float> const codec({.bits = 4, .granularity = 30});
  auto const x = normal_vectors(workers, values, 9);
  for (double const loss : {0.01, 0.05}) {
    CAPTURE(loss);
    auto results = x;
    std::vector<aggregation_report> reports(workers);
    auto const ends = on_links(workers + 1, [&](in_process_packets& link) {
      if (link.rank() == workers) {
        lossy_packets lossy(link, loss, 17);
        serve(lossy, values, codec, {workers});
        return;
      }
      auto const rank = static_cast<std::size_t>(link.rank());
      aggregated_mean mean(
          values, codec, link,
          {.share = {workers}, .norm_timeout = 20s, .timeout = 1500ms, .resend_indices = false});
      reports[rank] = mean.average(std::span(results[rank]), {.seed = 2});
      mean.leave();
    });
    REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
    auto const table = codec.table();
    std::size_t lost = 0;
    for (std::size_t rank = 0; rank < workers; ++rank) {
      auto const& report = reports[rank];
      CAPTURE(report.lost);
      lost += report.lost;
      // For independent vectors ||mean||^2 is 1/n. Tolerance 4 %: a chunk is 1024 of 2^18
      // coordinates.
      double const expected =
          (table.rounding_error + table.truncation_error +
           static_cast<double>(report.lost) / static_cast<double>(report.chunks)) /
          workers;
      CHECK(nmse(x, results[rank]) == close_to(expected, 0.04));
    }
    CHECK(lost > 0);
    // A lost answer removes at most a quarter of a transform's coordinates, so no stretch of 256
    // values becomes 0.
    for (std::size_t rank = 0; rank < workers; ++rank)
      for (std::size_t first = 0; first < values; first += 256) {
        double energy = 0;
        for (std::size_t i = first; i < first + 256; ++i)
          energy += static_cast<double>(results[rank][i]) * static_cast<double>(results[rank][i]);
        REQUIRE(energy > 256. / workers * 0.2);
      }
  }
}

TEST_CASE(
    "aggregated_mean: retransmission after packet loss gives the bits of a link without loss") {
  constexpr std::size_t values = 50000;
  constexpr int workers = 3;
  thc<float> const codec;
  auto const x = normal_vectors(workers, values, 10);
  auto results = x;
  std::atomic<std::size_t> resent = 0;
  std::atomic<std::uint64_t> duplicates = 0;
  auto const ends = on_links(workers + 2, [&](in_process_packets& inner) {
    lossy_packets link(inner, 0.25, 4);
    if (link.rank() >= workers) {
      duplicates += serve(link, values, codec, {workers}, {}, 1s).duplicates;
      return;
    }
    auto const rank = static_cast<std::size_t>(link.rank());
    aggregated_mean mean(
        values, codec, link,
        {.share = {workers}, .norm_timeout = 30s, .timeout = 30s, .resend_after = 20ms});
    auto const report = mean.average(std::span(results[rank]), {.seed = 2});
    resent += report.resent;
    if (report.lost > 0) throw std::runtime_error("a sum did not come");
    for (int again = 0; again < 10; ++again) mean.leave();
  });
  REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
  auto const expected = mean_of_blocks(codec.fitted(workers), x, {.seed = 2});
  for (auto const& result : results) CHECK(first_difference(result, expected) == nowhere);
  CHECK(resent > 0);
  CHECK(duplicates > 0);
}

TEST_CASE("aggregated_mean: members differ from chunk to chunk when contributions get lost") {
  // Error of each chunk: (V + B) / k + (1 - 2p)(1/k - 1/n), or 1/n if no contribution arrived.
  constexpr std::size_t values = 1 << 17;
  constexpr int workers = 4;
  thc<float> const codec({.bits = 4, .granularity = 31});
  auto const x = normal_vectors(workers, values, 11);
  aggregation_layout<thc<float>> const layout(values, codec, workers + 1, {workers});
  auto options = layout.aggregator();
  options.deadline = 1ns;
  aggregator sums(options);
  std::vector<detail::partial_sums<thc<float>>> receivers(workers,
                                                          detail::partial_sums<thc<float>>(layout));
  std::uint64_t const key = philox_key({.seed = 7});
  for (int rank = 0; rank < workers; ++rank)
    receivers[static_cast<std::size_t>(rank)].begin(0, key, rank);

  std::vector<std::uint32_t> words(layout.words()), maxima(layout.words());
  for (auto const& mine : x)
    for (std::size_t b = 0; b < layout.blocks().blocks(); ++b) {
      layout.codec().measure_block(simd_group{}, mine.data() + b * 16384, 16384,
                                   words.data() + b * 4);
      for (std::size_t i = b * 4; i < b * 4 + 4; ++i) maxima[i] = std::max(maxima[i], words[i]);
    }
  random_numbers numbers(12);
  std::vector<int> members(layout.chunks());
  std::vector<std::uint8_t> indices(layout.coordinates());
  for (int rank = 0; rank < workers; ++rank) {
    auto& receiver = receivers[static_cast<std::size_t>(rank)];
    for (std::size_t b = 0; b < layout.blocks().blocks(); ++b)
      layout.codec().encode_indices(simd_group{},
                                    x[static_cast<std::size_t>(rank)].data() + b * 16384, 16384,
                                    indices.data() + b * 16384,
                                    {key, static_cast<std::uint32_t>(rank), 1,
                                     static_cast<std::uint32_t>(b), maxima.data() + b * 4});
    for (std::size_t c = 0; c < layout.chunks(); ++c) {
      if (numbers.integer(0, 3) == 0) continue;  // this contribution is lost
      ++members[c];
      auto h = receiver.header(packet_kind::indices, c);
      h.unit = maxima[c / 4];
      std::vector<std::uint32_t> const chunk(indices.data() + c * 1024,
                                             indices.data() + c * 1024 + 1024);
      auto const answer = take(sums, packet_of(h, chunk), 0ns);
      REQUIRE(answer.refused == packet_fault::none);
      if (!answer.packet.empty())
        for (auto& one : receivers) one.take(workers, answer.packet);
    }
  }
  for (auto out = sums.expire(9ns); !out.packet.empty(); out = sums.expire(9ns))
    for (auto& one : receivers) one.take(workers, out.packet);

  auto const table = codec.table();
  double const p = codec.truncation(), one = table.rounding_error + table.truncation_error;
  double expected = 0;
  std::vector<int> counts(workers + 1);
  for (std::size_t c = 0; c < layout.chunks(); ++c) {
    double const k = members[c], n = workers;
    REQUIRE(receivers[2].members(c) == static_cast<std::uint32_t>(members[c]));
    ++counts[static_cast<std::size_t>(members[c])];
    expected += (k == 0 ? 1 / n : one / k + (1 - 2 * p) * (1 / k - 1 / n)) /
                static_cast<double>(layout.chunks());
  }
  for (int k = 1; k <= workers; ++k) CHECK(counts[static_cast<std::size_t>(k)] > 0);
  std::vector<float> first, result(values);
  // receivers learn the norms only from the aggregator's answers
  for (auto& receiver : receivers) {
    for (std::size_t b = 0; b < layout.blocks().blocks(); ++b)
      receiver.decode(b, result.data() + b * 16384);
    if (first.empty()) first = result;
    CHECK(first_difference(result, first) == nowhere);
  }
  CHECK(nmse(x, first) == close_to(expected, 0.04));

  // A receiver rejects answers of another round, even with the same seed and step.
  auto h = receivers[0].header(packet_kind::indices, 0);
  packet late;
  for (int rank = 0; rank < workers; ++rank) {
    h.rank = static_cast<std::uint16_t>(rank);
    h.round = 1;
    auto const answer = take(sums, packet_of(h, std::vector<std::uint32_t>(1024)), 0ns);
    late.assign(answer.packet.begin(), answer.packet.end());
  }
  receivers[0].begin(2, key, 0);
  receivers[0].take(workers, late);
  CHECK(receivers[0].members(0) == 0);
  receivers[0].begin(1, key, 0);
  receivers[0].take(workers, late);
  CHECK(receivers[0].members(0) == workers);
}

TEST_CASE("aggregated_mean: an answer with norms that differ from this worker's is rejected") {
  // Such an answer comes from a restarted aggregator that has united the norms of fewer workers.
  aggregation_layout<thc<float>> const layout(16384, thc<float>(), 2, {1});
  detail::partial_sums<thc<float>> receiver(layout);
  aggregator sums(layout.aggregator());
  receiver.begin(0, 5, 0);
  auto const words =
      take(sums, packet_of(receiver.header(packet_kind::words, 0), {0x3f800000, 2, 3, 4}), 0ns);
  receiver.take(1, words.packet);
  REQUIRE(receiver.has_words(0));
  for (std::size_t chunk = 0; chunk < 2; ++chunk) {
    auto h = receiver.header(packet_kind::indices, chunk);
    CHECK(h.unit == 0x3f800000);
    h.unit += static_cast<std::uint32_t>(chunk);
    receiver.take(1, take(sums, packet_of(h, std::vector<std::uint32_t>(1024)), 0ns).packet);
    CHECK(receiver.members(chunk) == 1 - chunk);
  }
}

namespace {

/// Drops the packets for which `loses(peer, header)` is true.
template <class F> class filtered_packets {
 public:
  filtered_packets(in_process_packets& link, F const& loses) : link_(&link), loses_(loses) {}

  int rank() const { return link_->rank(); }
  int size() const { return link_->size(); }
  std::uint64_t bytes_sent() const { return link_->bytes_sent(); }
  std::chrono::nanoseconds now() const { return link_->now(); }
  void send(int peer, std::span<std::byte const> packet) {
    if (!loses_(peer, header_of(packet))) link_->send(peer, packet);
  }
  received_packet receive(std::span<std::byte> buffer, std::chrono::nanoseconds timeout) {
    return link_->receive(buffer, timeout);
  }

 private:
  in_process_packets* link_;
  F loses_;
};

}  // namespace

TEST_CASE(
    "aggregated_mean: a worker without the norms sends nothing, keeps all values, and gets the "
    "mean") {
  constexpr std::size_t values = 5000;
  constexpr int workers = 3;
  thc<float> const codec;
  auto const x = normal_vectors(workers, values, 21);
  auto results = x;
  aggregation_report report;
  std::vector<float> residual;
  std::uint64_t refused = 0;
  auto const ends = on_links(workers + 1, [&](in_process_packets& link) {
    if (link.rank() == workers) {
      filtered_packets lossy(link, [](int peer, aggregation_packet const& header) {
        return peer == 1 && header.kind == packet_kind::maxima;
      });
      aggregator_options wanted;
      wanted.deadline = std::chrono::milliseconds(1500);
      refused = serve(lossy, values, codec, {workers}, wanted).all_refused();
      return;
    }
    auto& mine = results[static_cast<std::size_t>(link.rank())];
    // Shorter than the aggregator's deadline for the means of the other workers: this worker has
    // time to give up.
    aggregated_mean mean(
        values, codec, link,
        {.share = {workers}, .norm_timeout = link.rank() == 1 ? 1000ms : 20s, .timeout = 20s});
    error_feedback<float> feedback(values);
    auto const got = mean.average(std::span(mine), feedback, {});
    if (link.rank() == 1) {
      report = got;
      residual.assign(feedback.residual().begin(), feedback.residual().end());
    }
    mean.leave();
  });
  REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
  CHECK(report.left_out == report.chunks);
  CHECK(report.lost == 0);
  CHECK(report.contributions == 2 * report.chunks);
  CHECK(report.resent > 0);  // retransmitted norms
  CHECK(refused == 0);
  CHECK(first_difference(results[1], results[0]) == nowhere);
  CHECK(first_difference(results[2], results[0]) == nowhere);
  CHECK(first_difference(residual, x[1]) == nowhere);
  CHECK(nmse({x[0], x[2]}, results[0]) == close_to(0.0184 / 2, 0.15));
}

TEST_CASE("aggregated_mean: by default, error feedback keeps the values of late contributions") {
  // With k of n members in every mean: sum over t of k mean_t = sum over t and w of x - sum of the
  // last residuals. Float error: 12 terms near 1, residuals up to about 10.
  constexpr std::size_t values = 9000;
  constexpr int workers = 3, quota = 2, steps = 12;
  thc<float> const codec;
  for (bool const kept : {true, false}) {
    CAPTURE(kept);
    std::vector<double> difference(values);  // inputs - outputs - residuals
    std::mutex mutex;
    std::atomic<std::size_t> left_out = 0;
    auto const ends = on_links(workers + 1, [&](in_process_packets& link) {
      if (link.rank() == workers) {
        aggregator_options wanted;
        wanted.quota = quota;
        serve(link, values, codec, {workers}, wanted);
        return;
      }
      aggregated_mean mean(
          values, codec, link,
          {.share = {workers}, .norm_timeout = 20s, .timeout = 20s, .late_to_residual = kept});
      error_feedback<float> feedback(values);
      std::vector<double> mine(values);
      for (int step = 0; step < steps; ++step) {
        auto x = normal_vectors(1, values, static_cast<std::uint64_t>(step * 10 + link.rank()))[0];
        for (std::size_t i = 0; i < values; ++i) mine[i] += static_cast<double>(x[i]);
        left_out += mean.average(std::span(x), feedback, {.step = static_cast<std::uint64_t>(step)})
                        .left_out;
        if (link.rank() == 0)
          for (std::size_t i = 0; i < values; ++i) mine[i] -= quota * static_cast<double>(x[i]);
      }
      mean.leave();
      std::lock_guard const lock(mutex);
      for (std::size_t i = 0; i < values; ++i)
        difference[i] += mine[i] - static_cast<double>(feedback.residual()[i]);
    });
    REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
    CHECK(left_out > 0);
    double worst = 0;
    for (double const d : difference) worst = std::fmax(worst, std::fabs(d));
    if (kept)
      CHECK(worst < 1e-3);
    else
      CHECK(worst > 1);
  }
}

TEST_CASE("aggregated_mean: after the deadline, a worker that never sends delays no other worker") {
  constexpr std::size_t values = 5000;
  constexpr int workers = 4;
  thc<float> const codec;
  auto const x = normal_vectors(workers, values, 13);
  auto results = x;
  auto const ends = on_links(workers + 1, [&](in_process_packets& link) {
    if (link.rank() == workers) {
      aggregator_options wanted;
      wanted.deadline = std::chrono::milliseconds(100);
      serve(link, values, codec, {workers}, wanted, 1s);
      return;
    }
    if (link.rank() == 1) return;  // never sends a packet
    aggregated_mean mean(values, codec, link,
                         {.share = {workers}, .norm_timeout = 20s, .timeout = 20s});
    auto const report = mean.average(std::span(results[static_cast<std::size_t>(link.rank())]), {});
    mean.leave();
    if (report.lost > 0 || report.contributions != report.chunks * 3)
      throw std::runtime_error("not three contributions each");
  });
  REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
  CHECK(first_difference(results[0], results[2]) == nowhere);
  CHECK(first_difference(results[0], results[3]) == nowhere);
  CHECK(nmse({x[0], x[2], x[3]}, results[0]) == close_to(0.0184 / 3, 0.15));
}

TEST_CASE(
    "aggregated_mean: without an aggregator it fails in time and leaves all state unchanged") {
  auto x = normal_vectors(1, 5000, 14)[0];
  auto const before = x;
  error_feedback<float> feedback(x.size());
  packet_world world(2);
  in_process_packets link(world, 0);
  aggregated_mean mean(x.size(), thc<float>(), link,
                       {.share = {1}, .norm_timeout = 30ms, .timeout = 50ms, .resend_after = 10ms});
  auto const start = link.now();
  auto const end = outcome_of([&] { mean.average(std::span(x), feedback, {}); });
  CHECK(end.what == "transport_error");
  CHECK(end.peer == 1);
  CHECK(end.text ==
        "aggregated_mean: none of 5 sums came from 1 aggregators (ranks 1 on) within 30 ms for "
        "norms and 50 ms for sums");
  CHECK(link.now() - start < 10s);
  CHECK(first_difference(x, before) == nowhere);
  for (float const value : feedback.residual()) REQUIRE(value == 0);
}

TEST_CASE("aggregated_mean: NaN on one worker is treated as the policy says, on all workers") {
  constexpr std::size_t values = 40000;
  constexpr int workers = 3;
  for (auto const policy :
       {nonfinite_policy::throw_error, nonfinite_policy::propagate, nonfinite_policy::ignore}) {
    auto results = normal_vectors(workers, values, 15);
    results[1][20000] = std::numeric_limits<float>::quiet_NaN();
    auto const before = results;
    auto const ends = on_links(workers + 1, [&](in_process_packets& link) {
      if (link.rank() == workers) {
        serve(link, values, thc<float>(), {workers});
        return;
      }
      aggregated_mean mean(
          values, thc<float>(), link,
          {.share = {workers}, .nonfinite = policy, .norm_timeout = 20s, .timeout = 20s});
      auto const end = outcome_of(
          [&] { mean.average(std::span(results[static_cast<std::size_t>(link.rank())]), {}); });
      mean.leave();
      if (end.what == "nonfinite_error") throw nonfinite_error(end.text);
      if (end.what != "returned") throw std::runtime_error(end.text);
    });
    for (int rank = 0; rank < workers; ++rank) {
      auto const& end = ends[static_cast<std::size_t>(rank)];
      auto const& x = results[static_cast<std::size_t>(rank)];
      if (policy == nonfinite_policy::throw_error) {
        CHECK(end.what == "nonfinite_error");
        CHECK(end.text ==
              "aggregated_mean: codec 'thc', NaN or infinity in block 1 (values 16384 to 32767) of "
              "some worker");
        CHECK(first_difference(x, before[static_cast<std::size_t>(rank)]) == nowhere);
      } else {
        CHECK(end.what == "returned");
        std::size_t nans = 0;
        for (float const value : x) nans += std::isnan(value);
        CHECK(nans == (policy == nonfinite_policy::propagate ? 16384 : 0));
      }
    }
  }
}

TEST_CASE("aggregated_mean: a mean that overflows is an error and leaves the vector unchanged") {
  constexpr std::size_t values = 40000;
  std::vector<float> x(values, 1);
  // further beyond the largest float than the error of 4 bits
  for (std::size_t i = 16384; i < 32768; ++i)
    x[i] = (i % 2 == 0 ? 0.9f : -0.9f) * std::numeric_limits<float>::max();
  auto const before = x;
  auto const ends = on_links(2, [&](in_process_packets& link) {
    if (link.rank() == 1) {
      serve(link, values, thc<float>(), {1});
      return;
    }
    aggregated_mean mean(values, thc<float>(), link,
                         {.share = {1}, .norm_timeout = 20s, .timeout = 20s});
    auto const end = outcome_of([&] { mean.average(std::span(x), {}); });
    mean.leave();
    CHECK(end.what == "nonfinite_error");
    CHECK(end.text ==
          "aggregated_mean: codec 'thc', a mean that overflows in block 1 (values 16384 to 32767)");
    CHECK(x == before);
  });
  REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
}

namespace {

/// Bytes of one mean, as the links count them.
struct traffic {
  std::uint64_t up = 0;    ///< sent by one worker
  std::uint64_t down = 0;  ///< sent by the aggregator to all workers
};
traffic traffic_of(std::size_t values, int workers, std::uint32_t chunk,
                   sum_width width = sum_width::lanes) {
  thc<float> const codec;
  traffic bytes;
  auto const ends = on_links(workers + 1, [&](in_process_packets& link) {
    if (link.rank() == workers) {
      aggregator_options wanted;
      wanted.width = width;
      serve(link, values, codec, {workers, chunk}, wanted, 60s);
      bytes.down = link.bytes_sent();
      return;
    }
    std::vector<float> x(values, link.rank() % 2 == 0 ? 1.f : -2.f);
    aggregated_mean mean(
        values, codec, link,
        {.share = {workers, chunk}, .norm_timeout = 60s, .timeout = 60s, .resend_after = 0ns});
    auto const report = mean.average(std::span(x), {});
    if (report.lost > 0) throw std::runtime_error("a sum did not come");
    if (report.bytes_sent != link.bytes_sent()) throw std::runtime_error("the report miscounts");
    if (link.rank() == 0) bytes.up = report.bytes_sent;
    mean.leave();
  });
  REQUIRE_MESSAGE(all_returned(ends), hcomp::testing::to_text(ends));
  return bytes;
}

/// Bytes of `sent` beyond the payload of numbers of the given bits, relative to that payload.
double overhead(std::uint64_t sent, std::size_t numbers, int bits) {
  auto const payload = static_cast<double>(numbers) * bits / 8;
  return static_cast<double>(sent) / payload - 1;
}

}  // namespace

TEST_CASE("aggregated_mean: bytes are those of the packets: 4 bits up, 8 down, headers and norms") {
  constexpr std::size_t values = 1 << 17;
  constexpr int workers = 2;
  for (std::uint32_t const chunk : {1024u, 16384u}) {
    CAPTURE(chunk);
    auto const bytes = traffic_of(values, workers, chunk);
    std::uint64_t const chunks = values / chunk, norms = 32 + 4 * values / 4096;
    CHECK(bytes.up == norms + chunks * (32 + chunk / 2));
    CHECK(bytes.down == workers * (norms + 1 + chunks * (32 + chunk + 1)));
  }
}

TEST_CASE("aggregated_mean: with 8192 or more coordinates per packet, headers and norms take 1 %") {
  struct {
    std::size_t values;
    int workers;
    sum_width width;
    int sum_bits;  // the largest sum is 17 * workers
  } const cases[] = {{1 << 20, 2, sum_width::lanes, 8},
                     {1'150'000, 4, sum_width::tight, 7},
                     {1 << 20, 2, sum_width::u16, 16}};
  for (auto const& one : cases)
    for (std::uint32_t const chunk : {8192u, 16384u}) {
      CAPTURE(one.values);
      CAPTURE(one.sum_bits);
      CAPTURE(chunk);
      auto const bytes = traffic_of(one.values, one.workers, chunk, one.width);
      // The padding of the last transform counts as payload.
      std::size_t const coordinates =
          aggregation_layout<thc<float>>(one.values, {}, one.workers + 1, {one.workers})
              .coordinates();
      REQUIRE(coordinates < one.values + 4096);
      auto const down = bytes.down / static_cast<std::uint64_t>(one.workers);
      CHECK(overhead(bytes.up, coordinates, 4) > 0);
      CHECK(overhead(bytes.up, coordinates, 4) <= 0.01);
      CHECK(overhead(down, coordinates, one.sum_bits) > 0);
      CHECK(overhead(down, coordinates, one.sum_bits) <= 0.01);
    }
}

TEST_CASE("aggregated_mean: overhead of small packets, and the frames that they fit") {
  // The numbers in the documentation of aggregation_options::chunk_values.
  constexpr std::size_t values = 1 << 20;
  struct {
    std::uint32_t chunk;
    double up, down;
  } const cases[] = {{1024, 0.064, 0.033}, {8192, 0.0098, 0.005}};
  for (auto const& one : cases) {
    CAPTURE(one.chunk);
    auto const bytes = traffic_of(values, 2, one.chunk);
    CHECK(overhead(bytes.up, values, 4) == close_to(one.up, 0.03));
    CHECK(overhead(bytes.down / 2, values, 8) == close_to(one.down, 0.03));
  }
  constexpr std::size_t ip_and_udp = 28;
  CHECK(packet_bytes(1024, 8, 15) + ip_and_udp <= 1500);
  CHECK(packet_bytes(2048, 8, 15) + ip_and_udp > 1500);
  CHECK(packet_bytes(8192, 8, 15) + ip_and_udp <= 9000);
  CHECK(packet_bytes(4096, 16, 1000) + ip_and_udp <= 9000);
  CHECK(packet_bytes(aggregation_layout<thc<float>>::chunk_words, 32, 1000) + ip_and_udp <= 1500);
}

TEST_CASE("aggregated_mean: impossible settings are refused with their values") {
  packet_world world(3);
  in_process_packets link(world, 2);
  auto const text_of = [&](int workers, std::uint32_t chunk) {
    auto const end = outcome_of([&] {
      aggregated_mean const mean(10, thc<float>(), link, {.share = {workers, chunk}});
    });
    CHECK(end.what == "invalid_argument");
    return end.text;
  };
  CHECK(text_of(3, 1024) ==
        "aggregation: 3 workers on 3 ranks; at least 1 worker and 1 aggregator are needed");
  CHECK(text_of(0, 1024) ==
        "aggregation: 0 workers on 3 ranks; at least 1 worker and 1 aggregator are needed");
  CHECK(text_of(2, 1000) ==
        "aggregation: chunks of 1000 coordinates; powers of two from 64 to 16384 are possible");
  CHECK(text_of(2, 1024) == "aggregated_mean: rank 2 is none of the 2 workers");

  in_process_packets worker(world, 0);
  aggregated_mean mean(10, thc<float>(), worker, {.share = {2}});
  std::vector<float> x(9);
  CHECK(outcome_of([&] { mean.average(std::span(x), {}); }).text ==
        "aggregated_mean: 9 values and feedback for 9, the aggregation was made for 10");
  x.resize(10);
  error_feedback<float> feedback(10);
  aggregated_mean one_bit(10, thc<float>({.bits = 1, .truncation = 1. / 32}), worker,
                          {.share = {2}});
  CHECK(outcome_of([&] { one_bit.average(std::span(x), feedback, {}); }).text ==
        "aggregated_mean: codec 'thc:bits=1,granularity=1,truncation=0.03125' loses 3.702 of a "
        "vector's energy, and error feedback works below 0.75");
  CHECK(outcome_of([&] { lossy_packets const lossy(worker, 1.5, 0); }).text ==
        "lossy_packets: a loss of 1.5 of all packets; 0 to 1 is possible");
  CHECK(outcome_of([&] { packet_world const none(0); }).text ==
        "packet_world: 0 ranks asked for, at least 1 is needed");
  CHECK(outcome_of([&] { worker.send(3, {}); }).text ==
        "send: peer 3, but the world has 3 ranks (0 to 2)");
}
