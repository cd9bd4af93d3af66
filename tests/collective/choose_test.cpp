// optimise: -O1
// optimise sanitized: -O1
#include <doctest/doctest.h>

#include <algorithm>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/automatic/choose.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Typical seconds per value: codecs with fewer bytes on the wire take longer to encode.
cost_table some_costs(link_cost const& link, int ranks) {
  cost_table costs{link, {}};
  builtin_codecs<float>::for_each([&]<class C>() {
    auto cost = size_of(fit(C{}, static_cast<unsigned>(ranks)));
    double const effort = std::max(1.0, 4 / cost.bytes_per_value());
    cost.encode = cost.decode = 1e-10 * effort;
    cost.merge = 5e-11;
    cost.pack = cost.unpack = 1e-11;
    costs.codecs.push_back({C::name, cost});
  });
  return costs;
}

link_cost gbit(double rate) { return {1e-5, 8e-9 / rate, 0}; }

std::vector<std::string> all_codecs() {
  std::vector<std::string> names;
  builtin_codecs<float>::for_each([&]<class C>() { names.push_back(C::name); });
  return names;
}

allowed_strategies const everything{all_codecs(), all_algorithms()};

}  // namespace

TEST_CASE("choose: lossy codecs are chosen only if they are allowed") {
  for (auto const& one : choose(some_costs(gbit(0.001), 8), 8, 1 << 24))
    CHECK(one.codec == "identity");
}

TEST_CASE("choose: identity where the link costs nothing, sign where only the link counts") {
  auto const fast = choose(some_costs({}, 8), 8, 1 << 22, everything).front();
  CHECK(fast.codec == "identity");
  auto const slow = choose(some_costs(gbit(0.001), 8), 8, 1 << 22, everything).front();
  CHECK(slow.codec == "sign");
  CHECK(slow.algorithm.name() == "sampled");
}

TEST_CASE("choose: few hops where only latency counts, few draws on many ranks") {
  link_cost const far{1e-2, 0, 0};
  auto const fastest = [&](allowed_strategies const& allowed) {
    return to_text(choose(some_costs(far, 64), 64, 1000, allowed).front());
  };
  CHECK(fastest(everything).starts_with("sign by sampled: 70"));  // one hop and six of agreement
  CHECK(fastest({}).starts_with("identity by direct: 80"));
  allowed_strategies const neighbours{{"identity"},
                                      {algorithm::from("ring"), algorithm::from("torus")}};
  CHECK(fastest(neighbours).starts_with("identity by torus:8x8: 340"));
  // selecting takes the same time on every rank; with 512 ranks it exceeds the saving on the link
  allowed_strategies const signs{{"sign"}, all_algorithms()};
  auto const crowd = choose(some_costs(gbit(10), 512), 512, 1 << 24, signs).front();
  CHECK(crowd.algorithm.name() == "direct");
}

TEST_CASE("choose: strategies come in the order of their times, each with its prediction") {
  auto const costs = some_costs(gbit(1), 12);
  auto const strategies = choose(costs, 12, 1 << 20, everything);
  CHECK(strategies.size() == 8 * (3 + 4) + 1);  // the torus has 4 shapes
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    CAPTURE(to_text(strategies[i]));
    CHECK(strategies[i].seconds() == predicted_seconds(strategies[i].algorithm, 12, 1 << 20,
                                                       costs.of(strategies[i].codec), costs.link));
    if (i > 0) CHECK(strategies[i - 1].seconds() <= strategies[i].seconds());
    CHECK(
        (strategies[i].algorithm.kind != algorithm_kind::sampled || strategies[i].codec == "sign"));
    CHECK((strategies[i].algorithm.kind != algorithm_kind::torus ||
           (strategies[i].algorithm.rows > 1 && strategies[i].algorithm.columns > 1 &&
            strategies[i].algorithm.rows * strategies[i].algorithm.columns == 12)));
  }
}

TEST_CASE("choose: chooses the fastest shape of a torus, and the most square one on a tie") {
  auto const fastest = [](link_cost const& link, int ranks, std::size_t values) {
    allowed_strategies const tori{{"identity"}, {algorithm::from("torus")}};
    return choose(some_costs(link, ranks), ranks, values, tori).front().algorithm.name();
  };
  CHECK(fastest({1e-2, 0, 0}, 1024, 1000) == "torus:32x32");  // fewest hops
  CHECK(fastest({1e-2, 0, 0}, 7, 1000) == "torus:1x7");       // 7 ranks have no other shape
  // The model walks the schedules in complete blocks, and includes more than the hops.
  link_cost const slow{1e-5, 8e-8, 1e-6};
  auto const costs = some_costs(slow, 128);
  auto const seconds = [&](char const* shape) {
    return predicted_seconds(algorithm::from(shape), 128, 30'000, costs.of("identity"), slow);
  };
  CHECK(fastest(slow, 128, 30'000) == "torus:16x8");
  CHECK(seconds("torus:16x8") < 0.96 * seconds("torus:8x16"));
}

TEST_CASE(
    "choose: lists hierarchical strategies where costs within nodes are known and ranks share a "
    "link") {
  auto costs = some_costs(gbit(1), 12);
  allowed_strategies const strategies{{"identity"},
                                      {algorithm::from("ring"), algorithm::from("hierarchical"),
                                       algorithm::from("hierarchical:torus")}};
  CHECK(choose(costs, 12, 1 << 20, strategies).size() == 1);

  node_cost nodes{.ranks = 3, .between = costs.link, .inside = 1e-9, .call = 2e-5};
  nodes.between.seconds_per_byte *= 3;
  costs.nodes = nodes;
  auto const found = choose(costs, 12, 1 << 20, strategies);
  REQUIRE(found.size() == 3);
  CHECK(found[0].algorithm.name() == "hierarchical:torus:2x2");  // of 4 nodes: fewer hops
  CHECK(found[1].algorithm.name() == "hierarchical");
  // A node sends 2 (4 - 1) / 4 of its values over its link. The flat ring sends 2 (12 - 1) / 12
  // over the links of all ranks, which here have the same speed. Agreement and partial segments add
  // up to a tenth.
  double const bytes = 4.0 * (1 << 20) * costs.link.seconds_per_byte;
  CHECK(found[0].seconds() == doctest::Approx(1.5 * bytes + 1e-9 * (1 << 20)).epsilon(0.1));
  CHECK(found[0].expected.inside == doctest::Approx(2e-5 + 1e-9 * (1 << 20)));

  CHECK(choose(costs, 13, 1 << 20, strategies).size() == 1);  // no nodes of three ranks
  costs.nodes->ranks = 1;
  CHECK(choose(costs, 12, 1 << 20, strategies).size() == 1);
  costs.nodes->ranks = 12;  // one node: not even where the ring is predicted to be faster
  costs.nodes->call = 1e3;
  auto const alone = choose(costs, 12, 1 << 20, strategies);
  REQUIRE(alone.size() == 1);
  CHECK(alone.front().algorithm.name() == "hierarchical");
  CHECK(!choose(costs, 12, 1 << 20, {{"identity"}, {algorithm::from("ring")}})
             .front()
             .algorithm.hierarchical);
  auto const on_one_node = predict_by_nodes({}, 3, 1000, costs.of("identity"), nodes);
  CHECK(on_one_node.seconds() == doctest::Approx(2e-5 + 1e-6));  // nothing is encoded
  CHECK_THROWS_WITH_AS(predict_by_nodes({}, 4, 1, costs.of("identity"), nodes),
                       "predict_by_nodes: nodes of 3 ranks, there are 4 ranks",
                       std::invalid_argument);
}

TEST_CASE("choose: among equally fast strategies, prefers the one allowed first") {
  auto const costs = some_costs(gbit(1), 1);
  allowed_strategies strategies = everything;
  CHECK(choose(costs, 1, 0, strategies).front().codec == "identity");
  CHECK(choose(costs, 1, 0, strategies).front().algorithm.name() == "ring");
  std::reverse(strategies.codecs.begin(), strategies.codecs.end());
  std::reverse(strategies.algorithms.begin(), strategies.algorithms.end());
  CHECK(choose(costs, 1, 0, strategies).front().codec == "reproducible");
  CHECK(choose(costs, 1, 0, strategies).front().algorithm.name() == "recursive_doubling");
}

TEST_CASE("choose: no sampled selection on more ranks than it can choose among") {
  allowed_strategies const selection{{"sign"}, {{algorithm_kind::sampled}, {algorithm_kind::ring}}};
  CHECK(choose(some_costs(gbit(1), 1024), 1024, 100, selection).size() == 2);
  CHECK(choose(some_costs(gbit(1), 1025), 1025, 100, selection).size() == 1);
}

TEST_CASE("choose: an impossible choice is refused, and the text lists the possible ones") {
  auto const costs = some_costs(gbit(1), 4);
  auto const text = [&](allowed_strategies const& allowed) {
    return outcome_of([&] { choose(costs, 4, 100, allowed); }).text;
  };
  CHECK(text({{"gzip"}, all_algorithms()}) ==
        "there are no costs of codec 'gzip'; there are of: identity, float_cast:fp16, "
        "float_cast:bf16, sign, sign_count, thc, uniform_thc, reproducible");
  CHECK(text({{}, all_algorithms()}) ==
        "choose: nothing is left to choose from on 4 ranks; codecs allowed: none; algorithms "
        "allowed: ring, torus, direct, recursive_doubling, sampled");
  CHECK(text({{"identity"}, {{algorithm_kind::sampled}}}) ==
        "choose: nothing is left to choose from on 4 ranks; codecs allowed: identity; algorithms "
        "allowed: sampled");
  CHECK(text({{"sign"}, {algorithm::from("torus:3x3")}}) ==
        "torus: 3 rows of 3 are 9 places, the transport has 4 ranks");
  CHECK(outcome_of([] { choose({}, 4, 100); }).text ==
        "there are no costs of codec 'identity'; there are of: no codec");
}

TEST_CASE("pays_from: the last crossing of two times, exactly; nothing if none is below") {
  auto const values = [](std::size_t v) { return static_cast<double>(v); };
  for (std::size_t const crossing : {1u, 2u, 3u, 1000u, 123'457u, 1u << 30}) {
    CAPTURE(crossing);
    auto const other = [&](std::size_t v) {
      return v < crossing ? values(v) - 0.5 : values(v) + 0.5;
    };
    CHECK(pays_from(values, other) == crossing);
  }
  auto const never = [&](std::size_t v) { return values(v); };  // equal times do not pay
  CHECK(pays_from(values, never) == std::nullopt);
  auto const twice = [&](std::size_t v) {  // pays between 10 and 100, and from 10000 on
    bool const pays = (v >= 10 && v < 100) || v >= 10'000;
    return values(v) + (pays ? 0.5 : -0.5);
  };
  CHECK(pays_from(values, twice) == 10'000);
  CHECK(pays_from(values, twice, 50) == 10);
}

TEST_CASE("pays_from: the slower the link, the smaller the vectors for which sign pays") {
  allowed_strategies const signs{{"sign"}, all_algorithms()}, plain{};
  for (int const ranks : {2, 8, 24}) {
    std::optional<std::size_t> before, library_before;
    bool paid = false;
    for (double const rate : {10000., 400., 100., 40., 10., 1., 0.1}) {
      CAPTURE(ranks);
      CAPTURE(rate);
      auto const costs = some_costs(gbit(rate), ranks);
      auto const size = pays_from(costs, ranks, signs, plain);
      auto const library = pays_from(costs, ranks, signs, sizeof(float));
      if (before) {
        REQUIRE(size.has_value());
        CHECK(*size <= *before);
      }
      // at lower rates headers and agreement count more than latency
      if (library_before && rate >= 1) {
        REQUIRE(library.has_value());
        CHECK(*library <= *library_before);
      }
      if (size) {  // and it pays there
        CHECK(choose(costs, ranks, *size, signs).front().seconds() <
              choose(costs, ranks, *size, plain).front().seconds());
        if (*size > 1)
          CHECK(choose(costs, ranks, *size - 1, signs).front().seconds() >=
                choose(costs, ranks, *size - 1, plain).front().seconds());
        paid = true;
      }
      before = size;
      library_before = library;
    }
    CHECK(paid);
    CHECK(pays_from(some_costs(gbit(10000), ranks), ranks, signs, plain) == std::nullopt);
  }
}

TEST_CASE("half_precision_codecs: propagate infinity and NaN, like all codecs that only round") {
  for (auto const& name : half_precision_codecs())
    builtin_codecs<float>::with(name, [&]<class C>() { CHECK(C::passes_nonfinite); });
}
