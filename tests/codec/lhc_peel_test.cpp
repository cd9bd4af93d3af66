// optimise sanitized: -O1
/// @file
/// The sketch of LHC and its peeling. C1, C2, ...: reference numbers for the method, from theory
/// and from independent simulations.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sparse/detail/index_words.hpp>
#include <hcomp/codec/sparse/detail/lhc_cells.hpp>
#include <hcomp/codec/sparse/detail/lhc_peel.hpp>
#include <hcomp/codec/sparse/detail/lhc_sketch.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <numeric>
#include <support/data.hpp>
#include <support/worker_group.hpp>
#include <type_traits>
#include <utility>
#include <vector>

using hcomp::serial_group;
using namespace hcomp::detail::lhc;

namespace {

// ---- Supports ----

using marks = std::vector<std::uint64_t>;

/// Marks each value with this probability.
marks random_marks(std::size_t values, double density, std::uint64_t seed) {
  auto const limit = static_cast<std::uint64_t>(density * 0x1p53);
  marks words(hcomp::detail::sparse::index_words(values));
  for (std::size_t i = 0; i < values; ++i)
    if (hcomp::mix(hcomp::mix(seed) + i * 0x9e3779b97f4a7c15u) >> 11 < limit)
      words[i / 64] |= std::uint64_t{1} << i % 64;
  return words;
}
/// Marks about `count` of 16 * `count` values.
marks about(std::size_t count, std::uint64_t seed) {
  auto words = data::words(count / 4, {.seed = seed});
  for (std::uint64_t k = 1; k < 4; ++k) {
    auto const others = data::words(count / 4, {.seed = seed + 1000 * k});
    for (std::size_t w = 0; w < words.size(); ++w) words[w] &= others[w];
  }
  return words;
}
std::size_t number_of(marks const& words) {
  std::size_t count = 0;
  for (std::uint64_t const word : words)
    count += static_cast<std::size_t>(hcomp::detail::ones(word));
  return count;
}
template <class F> void for_each_mark(marks const& words, F const& f) {
  for (std::size_t i = 0; i < words.size() * 64; ++i)
    if (words[i / 64] >> i % 64 & 1) f(static_cast<std::uint32_t>(i));
}

// ---- Peeling ----

/// A layout with `per_value` cells per marked value.
cell_layout cells_for(marks const& words, double per_value, std::uint64_t seed) {
  double const cells = per_value * static_cast<double>(number_of(words));
  return {hcomp::mix(seed), static_cast<std::uint32_t>(std::max(1.0, std::round(cells / 96)))};
}

/// Memory for peeling, and its result.
struct peeling {
  std::vector<std::uint64_t> cells, open;
  std::vector<value_claim> claims;
  std::vector<std::uint32_t> rounds;
  std::size_t marked;
  peel_progress progress;

  template <class Layout>
  peeling(Layout const& layout, marks const& words)
      : cells(layout.size()),
        open((layout.size() + 63) / 64),
        claims(number_of(words)),
        rounds(most_rounds),
        marked(claims.size()) {
    begin_peeling(serial_group{}, layout, words.data(), words.size(), graph());
    progress = peel(serial_group{}, layout, graph());
  }
  peel_graph graph() { return {cells.data(), open.data(), claims.data(), rounds.data()}; }
  bool complete() const { return progress.claims == marked; }
  double left() const {
    return 1 - static_cast<double>(progress.claims) / static_cast<double>(marked);
  }
  double left_after(std::size_t rounds_done) const {
    return 1 - static_cast<double>(rounds[rounds_done - 1]) / static_cast<double>(marked);
  }
};

/// The layout of LHC's released code: rows of 1024 values that share a hash, without rotation, in
/// three tables that share their cells.
struct original_cells {
  static constexpr int hashes = 3;
  std::uint32_t seed, rows;
  static constexpr std::uint32_t width = 1024;

  std::size_t size() const { return std::size_t{rows} * width; }
  struct row {
    std::uint32_t first[3];
    std::uint32_t cell(int table, std::uint32_t value) const {
      return first[table] + value % width;
    }
    bool negative(int) const { return false; }
  };
  row row_of(std::uint32_t value) const {
    row at{};
    for (std::uint32_t t = 0; t < 3; ++t)
      at.first[t] = static_cast<std::uint32_t>(
                        hcomp::mix((std::uint64_t{seed} * 3 + t + 1) * 0x9e3779b97f4a7c15u ^
                                   hcomp::mix(value / width)) %
                        rows) *
                    width;
    return at;
  }
};

/// Hashes every value separately: into separate tables or, with segments, into `Hashes`
/// neighbouring segments.
template <int Hashes> struct free_cells {
  static constexpr int hashes = Hashes;
  std::uint64_t seed;
  std::uint32_t size_of_part, segments = 1;

  /// A layout with `per_value` cells per marked value.
  static free_cells of(marks const& words, double per_value, std::uint64_t seed,
                       std::uint32_t segments = 1) {
    double const cells = per_value * static_cast<double>(number_of(words));
    return {seed, static_cast<std::uint32_t>(cells / (segments + Hashes - 1)), segments};
  }
  std::size_t size() const { return std::size_t{segments + Hashes - 1} * size_of_part; }
  struct row {
    free_cells const* layout;
    std::uint32_t cell(int table, std::uint32_t value) const {
      auto const part_of = [&](std::uint64_t draw, std::uint32_t parts) {
        return static_cast<std::uint32_t>((draw >> 32) * parts >> 32);
      };
      std::uint64_t const own = hcomp::mix(hcomp::mix(layout->seed) + value * 0x9e3779b97f4a7c15u);
      auto const t = static_cast<std::uint32_t>(table);
      return (part_of(own, layout->segments) + t) * layout->size_of_part +
             part_of(hcomp::mix(own + t + 1), layout->size_of_part);
    }
    bool negative(int) const { return false; }
  };
  row row_of(std::uint32_t) const { return {this}; }
};

/// Textbook peeling, round by round over the remaining values: their number after each round.
template <class Layout>
std::vector<std::size_t> left_by_the_book(Layout const& layout, marks const& words) {
  std::vector<std::uint32_t> alive;
  for_each_mark(words, [&](std::uint32_t value) { alive.push_back(value); });
  std::vector<int> degree(layout.size());
  for (auto const value : alive)
    for (int t = 0; t < 3; ++t) ++degree[layout.row_of(value).cell(t, value)];
  std::vector<std::size_t> left;
  for (;;) {
    std::vector<std::uint32_t> peeled, kept;
    for (auto const value : alive) {
      bool alone = false;
      for (int t = 0; t < 3; ++t) alone |= degree[layout.row_of(value).cell(t, value)] == 1;
      (alone ? peeled : kept).push_back(value);
    }
    if (peeled.empty()) return left;
    for (auto const value : peeled)
      for (int t = 0; t < 3; ++t) --degree[layout.row_of(value).cell(t, value)];
    alive = kept;
    left.push_back(alive.size());
  }
}

std::uint64_t bytes_of(std::vector<value_claim> const& claims, std::size_t count) {
  return hcomp::fingerprint(serial_group{}, reinterpret_cast<std::byte const*>(claims.data()),
                            count * sizeof(value_claim));
}

}  // namespace

// ---- Cells ----

TEST_CASE("lhc cells: each table holds a row once, in one cell per value") {
  for (std::uint32_t const rows : {1u, 2u, 7u, 1000u}) {
    cell_layout const layout{hcomp::mix(rows), rows};
    for (std::uint32_t start = 0; start < 320; start += 32) {
      auto const row = layout.row_of(start);
      for (int t = 0; t < 3; ++t) {
        std::vector<int> hits(32);
        for (std::uint32_t value = start; value < start + 32; ++value) {
          std::uint32_t const cell = row.cell(t, value);
          REQUIRE(cell / (rows * 32) == static_cast<std::uint32_t>(t));
          REQUIRE(cell / 32 == row.first[t] / 32);
          ++hits[cell % 32];
          REQUIRE(layout.row_of(value).cell(t, value) == cell);
        }
        REQUIRE(hits == std::vector<int>(32, 1));
      }
    }
  }
}

TEST_CASE("lhc cells: rows, rotations and signs are spread evenly") {
  // 2^15 rows; every count is binomial, so within six standard deviations of its mean
  cell_layout const layout{5, 16};
  constexpr int rows = 1 << 15;
  std::vector<int> at(3 * 16), turn(3 * 32), negative(3), same_turn(3);
  for (std::uint32_t r = 0; r < rows; ++r) {
    auto const row = layout.row_of(r * 32);
    for (int t = 0; t < 3; ++t) {
      ++at[row.first[t] / 32];
      ++turn[static_cast<std::size_t>(t) * 32 + row.cell(t, 0) % 32];
      negative[static_cast<std::size_t>(t)] += row.negative(t);
      same_turn[static_cast<std::size_t>(t)] +=
          row.cell(t, 0) % 32 == row.cell((t + 1) % 3, 0) % 32;
    }
  }
  auto const near = [](std::vector<int> const& counts, double share) {
    double const deviation = std::sqrt(rows * share * (1 - share));
    return std::all_of(counts.begin(), counts.end(),
                       [&](int count) { return std::fabs(count - rows * share) < 6 * deviation; });
  };
  CHECK(near(at, 1.0 / 16));
  CHECK(near(turn, 1.0 / 32));
  CHECK(near(negative, 0.5));
  CHECK(near(same_turn, 1.0 / 32));
}

TEST_CASE("lhc cells: golden indices") {
  // Part of the wire format: raise wire_version when it changes.
  cell_layout const layout{123456789, 1000};
  std::vector<std::uint32_t> places;
  for (std::uint32_t value = 0; value < 3200; value += 7)
    for (int t = 0; t < 3; ++t) {
      places.push_back(layout.row_of(value).cell(t, value));
      places.push_back(layout.row_of(value).negative(t));
    }
  CHECK(hcomp::fingerprint(serial_group{}, reinterpret_cast<std::byte const*>(places.data()),
                           places.size() * 4) == 5856809066908368938u);
}

// ---- The threshold ----

TEST_CASE(
    "lhc peeling: 1.25 cells per value always suffice, 1.18 never, and then half remains") {  // C1
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    auto const words = about(100'000, seed);
    CHECK(peeling(cells_for(words, 1.25, seed), words).complete());
    peeling const short_of(cells_for(words, 1.18, seed), words);
    CHECK(short_of.left() > 0.52);
    CHECK(short_of.left() < 0.56);
  }
}

TEST_CASE(
    "lhc peeling: the threshold is 1.2218, and the remainder below it is the theoretical one") {
  // C1: 1.20: 0.4921 (theory); 1.10: 0.676. 1.23 is 1 % above the threshold and always suffices at
  // this size.
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    auto const words = about(200'000, 50 + seed);
    CHECK(peeling(cells_for(words, 1.234, seed), words).complete());
    CHECK(peeling(cells_for(words, 1.20, seed), words).left() ==
          doctest::Approx(0.492).epsilon(0.03));
    CHECK(peeling(cells_for(words, 1.10, seed), words).left() ==
          doctest::Approx(0.676).epsilon(0.02));
    CHECK(!peeling(cells_for(words, 1.21, seed), words).complete());
  }
}

TEST_CASE("lhc peeling: rounds are few, and fewer with more cells") {  // C2
  struct {
    double cells;
    std::size_t least, most;
  } const cases[] = {{1.25, 30, 36}, {1.30, 19, 21}, {1.35, 14, 16}, {1.50, 9, 11}, {2.0, 5, 7}};
  for (auto const& one : cases)
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(one.cells);
      auto const words = about(100'000, 80 + seed);
      peeling const all(cells_for(words, one.cells, seed), words);
      REQUIRE(all.complete());
      CHECK(all.progress.rounds >= one.least);
      CHECK(all.progress.rounds <= one.most);
    }
}

TEST_CASE("lhc peeling: the remainder after every round follows density evolution") {  // C3
  // b = 1, then b = 1 - exp(-(3 / c) b^2): b^3 remains
  auto const words = about(1'000'000, 7);
  for (double const per_value : {1.3, 2.0}) {
    cell_layout const layout = cells_for(words, per_value, 3);
    peeling const all(layout, words);
    REQUIRE(all.complete());
    double const c = static_cast<double>(layout.size()) / static_cast<double>(all.marked);
    double b = 1;
    for (std::size_t t = 1; t <= (per_value < 2 ? 5 : 3); ++t) {
      b = 1 - std::exp(-3 / c * b * b);
      CAPTURE(t);
      CHECK(all.left_after(t) == doctest::Approx(b * b * b).epsilon(0.01));
    }
  }
}

// ---- Layouts ----

TEST_CASE("lhc peeling: rotated rows peel like independent values, in every run") {  // C4
  struct {
    std::size_t rows;
    double density;
  } const supports[] = {{16384, 0.05}, {65536, 0.05}, {131072, 0.005}, {65536, 0.005}};
  struct {
    double cells;
    std::size_t rounds;
  } const cases[] = {{1.25, 39}, {1.30, 22}};
  for (auto const& support : supports)
    for (auto const& one : cases)
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        CAPTURE(support.rows);
        CAPTURE(support.density);
        CAPTURE(one.cells);
        CAPTURE(seed);
        auto const words = random_marks(support.rows * 32, support.density, seed);
        peeling const all(cells_for(words, one.cells, seed), words);
        CHECK(all.complete());
        CHECK(all.progress.rounds <= one.rounds);
      }
}

TEST_CASE("lhc peeling: the original layout fails on values that this one recovers") {  // C4
  // One and four million values in rows of 1024: each column is a separate sketch.
  struct {
    std::size_t rows;
    double cells, least, most;
  } const cases[] = {{1024, 2.0, 0.0005, 0.008},
                     {1024, 1.5, 0.07, 0.13},
                     {1024, 1.25, 0.34, 0.44},
                     {4096, 1.25, 0.24, 0.34}};
  for (auto const& one : cases) {
    double lost = 0;
    std::uint32_t const runs = one.rows == 1024 ? 6 : 2;
    for (std::uint32_t seed = 1; seed <= runs; ++seed) {
      auto const words = random_marks(one.rows * 1024, 0.05, seed);
      auto const rows =
          static_cast<std::uint32_t>(std::lround(one.cells * 0.05 * static_cast<double>(one.rows)));
      lost += peeling(original_cells{seed, rows}, words).left() / runs;
      CHECK(peeling(cell_layout{seed, rows * 1024 / 96}, words).complete());
    }
    CAPTURE(one.rows);
    CAPTURE(one.cells);
    CHECK(lost > one.least);
    CHECK(lost < one.most);
  }
}

TEST_CASE("lhc peeling: three hashes need the fewest cells, and few rounds") {  // C9
  auto const words = about(100'000, 4);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    CAPTURE(seed);
    CHECK(peeling(free_cells<3>::of(words, 1.25, seed), words).complete());
    CHECK(!peeling(free_cells<4>::of(words, 1.25, seed), words).complete());
    // 0.4 % above the threshold of 1.2949, where rounds vary: 53 to 106 with eight seeds
    peeling const barely(free_cells<4>::of(words, 1.3, seed), words);
    CHECK(barely.complete());
    CHECK(barely.progress.rounds > 40);
    CHECK(barely.progress.rounds < 160);
    peeling const four(free_cells<4>::of(words, 1.35, seed), words);
    CHECK(four.complete());
    CHECK(four.progress.rounds == doctest::Approx(19).epsilon(0.11));
    CHECK(!peeling(free_cells<5>::of(words, 1.4, seed), words).complete());
    peeling const five(free_cells<5>::of(words, 1.45, seed), words);
    CHECK(five.complete());
    CHECK(five.progress.rounds == doctest::Approx(26).epsilon(0.12));
  }
  // Two hashes make a graph, which has a cycle in most cases: 60 % at 2.5 cells.
  int complete = 0;
  auto const fewer = about(20'000, 4);
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    complete += peeling(free_cells<2>::of(fewer, 2.5, seed), fewer).complete();
  CHECK(complete > 1);
  CHECK(complete < 15);
}

TEST_CASE("lhc peeling: tables that overlap in a chain need fewer cells, but hundreds of rounds") {
  // C9: 200,000 values in 100 segments take 200-270 rounds at 1.18 cells, 70-80 at 1.25.
  auto const words = about(200'000, 5);
  peeling const tight(free_cells<3>::of(words, 1.18, 1, 100), words);
  CHECK(tight.complete());
  CHECK(tight.progress.rounds > 150);
  CHECK(tight.progress.rounds < 350);
  peeling const roomy(free_cells<3>::of(words, 1.25, 1, 100), words);
  CHECK(roomy.complete());
  CHECK(roomy.progress.rounds > 60);
  CHECK(roomy.progress.rounds < 90);
}

// ---- One definition, any group ----

TEST_CASE("lhc peeling: every round leaves the number of values that textbook peeling leaves") {
  for (std::size_t const values : {0, 1, 31, 64, 100, 1000, 20000})
    for (double const density : {0.01, 0.2, 1.0})
      for (double const per_value : {0.6, 1.1, 1.25, 2.0}) {
        CAPTURE(values);
        CAPTURE(density);
        CAPTURE(per_value);
        auto const words = random_marks(values, density, values);
        auto const layout = cells_for(words, per_value, values + 1);
        auto const check = [&](auto const& cells) {
          peeling const found(cells, words);
          auto const expected = left_by_the_book(cells, words);
          REQUIRE(found.progress.rounds == expected.size());
          for (std::size_t r = 0; r < expected.size(); ++r)
            REQUIRE(found.marked - found.rounds[r] == expected[r]);
          REQUIRE(found.progress.claims ==
                  found.marked - (expected.empty() ? found.marked : expected.back()));
        };
        check(layout);
        check(original_cells{3, 3});
      }
}

TEST_CASE("lhc peeling: any number of workers claims the same values from the same cells") {
  for (double const per_value : {1.1, 1.3}) {
    auto const words = random_marks(40'000, 0.05, 5);
    auto const layout = cells_for(words, per_value, 9);
    peeling const one(layout, words);
    auto const check = [&](auto lanes_of) {
      constexpr int count = decltype(lanes_of)::value;
      peeling some = one;
      std::fill(some.claims.begin(), some.claims.end(), value_claim{});
      std::fill(some.rounds.begin(), some.rounds.end(), 0);
      workers::run<count>([&](auto group) {
        begin_peeling(group, layout, words.data(), words.size(), some.graph());
        auto const progress = peel(group, layout, some.graph());
        if (group.worker() == 0) some.progress = progress;
      });
      CHECK(some.progress.rounds == one.progress.rounds);
      CHECK(some.progress.claims == one.progress.claims);
      CHECK(bytes_of(some.claims, one.progress.claims) ==
            bytes_of(one.claims, one.progress.claims));
      CHECK(some.rounds == one.rounds);
    };
    check(std::integral_constant<int, 2>());
    check(std::integral_constant<int, 3>());
    check(std::integral_constant<int, 8>());
  }
}

namespace {

/// Adds complete vectors through sketches. Returns the recovered values, and zero for the rest.
template <class Lane, class Group, class Layout>
void sum_in_lanes(Group group, Layout const& layout, marks const& words, peeling& plan,
                  std::vector<std::vector<Lane>> const& x, std::vector<std::vector<Lane>>& sketches,
                  std::vector<Lane>& sum) {
  for (std::size_t w = 0; w < x.size(); ++w)
    sketch_marked(group, layout, words.data(), words.size(), sketches[w].data(),
                  [&](std::uint32_t value) { return x[w][value]; });
  if (group.worker() == 0)
    for (std::size_t w = 1; w < x.size(); ++w)
      for (std::size_t c = 0; c < layout.size(); ++c) sketches[0][c] += sketches[w][c];
  group.sync();
  recover(group, layout, plan.claims.data(), plan.rounds.data(), plan.progress.rounds,
          sketches[0].data(), [&](std::size_t k, Lane lane) { sum[plan.claims[k].value] = lane; });
}

template <class Lane> std::vector<Lane> random_lanes(std::size_t n, std::uint64_t seed) {
  std::vector<Lane> x(n);
  if constexpr (std::is_integral_v<Lane>) {
    auto const words = data::words(n, {.seed = seed});
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<Lane>(words[i]);
  } else {
    x = data::uniform(n, -1, 1, {.seed = seed});
  }
  return x;
}

template <class Lane> void check_lanes() {
  std::size_t const n = 20'000;
  auto const words = random_marks(n, 0.05, 5);
  auto const layout = cells_for(words, 1.3, 9);
  peeling plan(layout, words);
  std::vector<std::vector<Lane>> x;
  for (std::uint64_t w = 0; w < 3; ++w) x.push_back(random_lanes<Lane>(n, w));
  std::vector<std::vector<Lane>> const empty(3, std::vector<Lane>(layout.size(), 77));
  auto sketches = empty;
  std::vector<Lane> sum(n);
  sum_in_lanes<Lane>(serial_group{}, layout, words, plan, x, sketches, sum);
  auto const check = [&](auto lanes_of) {
    constexpr int count = decltype(lanes_of)::value;
    auto others = empty;
    std::vector<Lane> found(n);
    workers::run<count>(
        [&](auto group) { sum_in_lanes<Lane>(group, layout, words, plan, x, others, found); });
    CHECK(std::memcmp(found.data(), sum.data(), n * sizeof(Lane)) == 0);
    for (std::size_t w = 0; w < x.size(); ++w)
      CHECK(std::memcmp(others[w].data(), sketches[w].data(), layout.size() * sizeof(Lane)) == 0);
  };
  check(std::integral_constant<int, 2>());
  check(std::integral_constant<int, 5>());
}

}  // namespace

TEST_CASE("lhc sketch: any number of workers gives the bits of one, in floats and in integers") {
  check_lanes<float>();
  check_lanes<std::uint32_t>();
  check_lanes<std::uint64_t>();
}

// ---- Sums ----

TEST_CASE("lhc sketch: integer results are exact, also where cells wrap around") {  // C5, C12
  auto const words = about(50'000, 1);
  std::size_t const n = words.size() * 64;
  for (double const per_value : {1.24, 1.3, 2.0}) {
    auto const layout = cells_for(words, per_value, 2);
    peeling plan(layout, words);
    REQUIRE(plan.complete());
    std::vector<std::uint32_t> exact(n), sum(n), cells(layout.size()), mine(layout.size());
    for (std::uint64_t worker = 0; worker < 8; ++worker) {
      auto const x = random_lanes<std::uint32_t>(n, worker);
      for_each_mark(words, [&](std::uint32_t value) { exact[value] += x[value]; });
      sketch_marked(serial_group{}, layout, words.data(), words.size(), mine.data(),
                    [&](std::uint32_t value) { return x[value]; });
      for (std::size_t c = 0; c < cells.size(); ++c) cells[c] += mine[c];
    }
    recover(serial_group{}, layout, plan.claims.data(), plan.rounds.data(), plan.progress.rounds,
            cells.data(),
            [&](std::size_t k, std::uint32_t lane) { sum[plan.claims[k].value] = lane; });
    CHECK(sum == exact);
  }
}

TEST_CASE(
    "lhc sketch: float results have the rounding errors of their neighbours in the cells") {  // C6
  // 8 workers, normal-like values; independent measurement: 6.1e-7 at 1.30, 1.2e-7 at 2.0
  auto const words = about(200'000, 3);
  std::size_t const n = words.size() * 64;
  std::vector<std::vector<float>> x;
  for (std::uint64_t worker = 0; worker < 8; ++worker) {
    x.push_back(data::uniform(n, -1, 1, {.seed = 10 + worker}));
    auto const more = data::uniform(n, -1, 1, {.seed = 20 + worker});
    for (std::size_t i = 0; i < n; ++i) x.back()[i] += more[i];
  }
  for (auto const& [per_value, bound] : {std::pair{1.3, 2e-6}, {2.0, 5e-7}}) {
    auto const layout = cells_for(words, per_value, 4);
    peeling plan(layout, words);
    REQUIRE(plan.complete());
    std::vector<float> sum(n), cells(layout.size()), mine(layout.size());
    for (auto const& values : x) {
      sketch_marked(serial_group{}, layout, words.data(), words.size(), mine.data(),
                    [&](std::uint32_t value) { return values[value]; });
      for (std::size_t c = 0; c < cells.size(); ++c) cells[c] += mine[c];
    }
    recover(serial_group{}, layout, plan.claims.data(), plan.rounds.data(), plan.progress.rounds,
            cells.data(), [&](std::size_t k, float lane) { sum[plan.claims[k].value] = lane; });
    double error = 0, energy = 0;
    for_each_mark(words, [&](std::uint32_t value) {
      double exact = 0;
      for (auto const& values : x) exact += static_cast<double>(values[value]);
      error += (sum[value] - exact) * (sum[value] - exact);
      energy += exact * exact;
    });
    double const cells_per_value = per_value;  // clang 14 captures no bindings
    CAPTURE(cells_per_value);
    CHECK(std::sqrt(error / energy) < bound);
    CHECK(std::sqrt(error / energy) > 1e-8);  // not exact: fp32 is not fixed point
  }
}

TEST_CASE(
    "lhc sketch: in a much too small sketch, the medians of cells are worse than zeros") {  // C10
  // Squared error relative to the energy if an unpeeled value becomes the median of its cells, as
  // in the original, or 0: 0.39 and 0.49 at 1.20 cells, then 0.87/0.78, 1.49/0.94, 2.49/0.99.
  // Normal-like values. hcomp sends them beside the sketch.
  auto const words = about(100'000, 12);
  std::size_t const n = words.size() * 64;
  std::vector<double> exact(n);
  for (std::uint64_t term = 0; term < 6; ++term) {
    auto const more = data::uniform<double>(n, -1, 1, {.seed = 70 + term});
    for (std::size_t i = 0; i < n; ++i) exact[i] += more[i];
  }
  struct {
    double cells, median, nothing;
  } const cases[] = {
      {1.20, 0.386, 0.486}, {1.0, 0.867, 0.784}, {0.75, 1.49, 0.94}, {0.5, 2.49, 0.99}};
  for (auto const& one : cases) {
    CAPTURE(one.cells);
    auto const layout = cells_for(words, one.cells, 3);
    peeling const plan(layout, words);
    std::vector<bool> read(n);
    for (std::size_t k = 0; k < plan.progress.claims; ++k) read[plan.claims[k].value] = true;
    std::vector<double> cells(layout.size());  // the cells after removal of all peeled values
    for_each_mark(words, [&](std::uint32_t value) {
      auto const row = layout.row_of(value);
      if (!read[value])
        for (int t = 0; t < 3; ++t)
          cells[row.cell(t, value)] += row.negative(t) ? -exact[value] : exact[value];
    });
    double median = 0, nothing = 0, energy = 0;
    for_each_mark(words, [&](std::uint32_t value) {
      energy += exact[value] * exact[value];
      if (read[value]) return;
      auto const row = layout.row_of(value);
      double guess[3];
      for (int t = 0; t < 3; ++t)
        guess[t] = row.negative(t) ? -cells[row.cell(t, value)] : cells[row.cell(t, value)];
      std::sort(guess, guess + 3);
      median += (guess[1] - exact[value]) * (guess[1] - exact[value]);
      nothing += exact[value] * exact[value];
    });
    CHECK(median / energy == doctest::Approx(one.median).epsilon(0.06));
    CHECK(nothing / energy == doctest::Approx(one.nothing).epsilon(0.03));
    CHECK((median > nothing) == (one.cells < 1.05));
  }
}
