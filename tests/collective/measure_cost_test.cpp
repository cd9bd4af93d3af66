#include <doctest/doctest.h>

#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/automatic/automatic.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/in_process.hpp>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

measure_options const brief{.values = 70'000, .codec_seconds = 1e-3, .link_seconds = 1e-2};

std::vector<double> stats_of(link_cost const& l) {
  return {l.seconds_per_message, l.seconds_per_byte, l.seconds_between_messages,
          l.seconds_of_rendezvous};
}
std::vector<double> stats_of(codec_cost const& c) {
  return {c.encode, c.merge,      c.decode, c.call,      c.pack,
          c.unpack, c.narrow_one, c.narrow, c.widen_one, c.widen};
}
void check_possible(std::vector<double> const& stats) {
  for (double const metric : stats) {
    CHECK(metric >= 0);
    CHECK(metric < 1);  // a second, per message or value
  }
}

}  // namespace

TEST_CASE("measure_link: all ranks get the same costs, and one rank has no link") {
  for (int const ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    std::vector<std::vector<double>> stats(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](in_process& transport) {
      stats[static_cast<std::size_t>(transport.rank())] =
          stats_of(measure_link(transport, 1e-2, 7));
    });
    for (auto const& of_rank : stats) CHECK(of_rank == stats[0]);
    check_possible(stats[0]);
    CHECK((stats[0][0] > 0) == (ranks > 1));
  }
}

TEST_CASE("measure_costs: all ranks get the same costs of every codec, with its size") {
  for (int const ranks : {1, 3}) {
    CAPTURE(ranks);
    std::vector<cost_table> tables(static_cast<std::size_t>(ranks));
    std::vector<std::string> const names{"sign_count", "identity", "sign", "float_cast:bf16"};
    run_ranks(ranks, [&](in_process& transport) {
      host_executor executor(transport.rank() == 0 ? 2 : 1);
      tables[static_cast<std::size_t>(transport.rank())] =
          measure_costs(registered_codecs<float>(), names, executor, transport, brief);
    });
    for (auto const& table : tables) {
      CHECK(stats_of(table.link) == stats_of(tables[0].link));
      REQUIRE(table.codecs.size() == names.size());
      for (std::size_t i = 0; i < names.size(); ++i) {
        CAPTURE(names[i]);
        auto const& cost = table.codecs[i].cost;
        CHECK(table.codecs[i].codec == names[i]);
        CHECK(stats_of(cost) == stats_of(tables[0].codecs[i].cost));
        check_possible(stats_of(cost));
        // waking a thread may take longer than the little work here
        CHECK(cost.encode + cost.call > 0);
        CHECK(cost.decode + cost.call > 0);
        if (ranks == 1) CHECK(cost.merge == 0);
        if (ranks == 1 || names[i] != "sign") CHECK(cost.pack + cost.unpack == 0);
        builtin_codecs<float>::with(names[i], [&]<class C>() {
          auto const codec = fit(C{}, static_cast<unsigned>(ranks));
          CHECK(cost.layout(100'000).bytes() == size_of(codec).layout(100'000).bytes());
        });
      }
    }
  }
}

TEST_CASE("measure_codec: sizes of variable-rate codecs are those for values from -1 to 1") {
  host_executor executor;
  for (int const ranks : {1, 5}) {
    CAPTURE(ranks);
    auto const coarse = measure_codec(error_bounded({.bound = 0.1}), executor, ranks, brief),
               fallback = measure_codec(error_bounded({.bound = 0.001}), executor, ranks, brief);
    check_possible(stats_of(coarse));
    check_possible(stats_of(fallback));
    CHECK(coarse.bytes_per_value() > 0.25);
    CHECK(coarse.bytes_per_value() < fallback.bytes_per_value());
    CHECK(fallback.bytes_per_value() < 4);
    CHECK(coarse.encode > 0);
    CHECK((coarse.merge > 0) == (ranks > 1));
    CHECK(coarse.decode > 0);
    CHECK(coarse.algorithms.contains(algorithm_kind::ring));
    CHECK(!coarse.algorithms.contains(algorithm_kind::recursive_doubling));
  }
}

TEST_CASE("measure_costs: sizes of codecs are those for the total weight that they are fitted to") {
  run_ranks(2, [](in_process& transport) {
    host_executor executor;
    auto const costs =
        measure_costs(registered_codecs<float>(), {"sign_count"}, executor, transport, brief, 1000);
    CHECK(costs.of("sign_count").block_bytes == 32 + 10 * 8192 / 8);
  });
}

TEST_CASE("measure_codec: one process measures a codec for any number of ranks") {
  host_executor executor;
  for (int const ranks : {1, 2, 9, 1024, 1025}) {
    CAPTURE(ranks);
    auto const cost = measure_codec(sign<double>{}, executor, ranks, brief);
    check_possible(stats_of(cost));
    CHECK((cost.merge > 0) == (ranks > 1));
    CHECK((cost.pack > 0) == (ranks > 1 && ranks <= 1024));
  }
}

TEST_CASE("measure_costs: wrong arguments are refused with their values") {
  host_executor executor;
  auto const text = [](auto const& call) {
    try {
      call();
    } catch (std::invalid_argument const& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  CHECK(text([&] { measure_codec(sign<>{}, executor, 0); }) ==
        "measure_codec: 4194304 values, 0 ranks; at least 1 is needed of both");
  CHECK(text([&] { measure_codec(sign<>{}, executor, 2, {.values = 0}); }) ==
        "measure_codec: 0 values, 2 ranks; at least 1 is needed of both");
  auto const outcomes = outcomes_on(2, [](in_process& transport) {
    host_executor mine;
    measure_costs(registered_codecs<float>(), {"identity", "gzip"}, mine, transport, brief);
  });
  CHECK(all_ended_alike(outcomes, "invalid_argument"));
  CHECK(outcomes[0].text ==
        "no codec is called 'gzip'; hcomp has: " + registered_codecs<float>().names());
}
