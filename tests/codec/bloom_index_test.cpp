// optimise sanitized: -O1
/// @file
/// The Bloom filter index: it marks every nonzero value and few zeros. Results do not depend on it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/bloom_index.hpp>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse/union.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <stdexcept>
#include <support/data.hpp>
#include <support/sparse.hpp>
#include <type_traits>
#include <vector>

using hcomp::bloom_index;
using hcomp::sparse_index;

namespace {

sparse::vectors ranks_of(std::size_t ranks, std::size_t n, double density) {
  sparse::vectors x;
  for (std::size_t r = 0; r < ranks; ++r)
    x.push_back(sparse::values(n, r % 3 == 2 ? 0 : density, {.seed = n * 100 + r}));
  return x;
}

/// Forms the union of all ranks' indices. Returns the bytes that each rank sends.
template <class Index> std::size_t unite(Index& index, sparse::vectors const& x) {
  std::vector<std::uint64_t> all;
  for (auto const& mine : x) {
    auto const words = index.mark(mine);
    all.resize(words.size());
    for (std::size_t w = 0; w < all.size(); ++w) all[w] |= words[w];
  }
  std::copy(all.begin(), all.end(), index.mark(x[0]).begin());
  index.unite();
  return all.size() * sizeof(all[0]);
}
sparse_index exact_union(sparse::vectors const& x) {
  sparse_index index;
  unite(index, x);
  return index;
}

/// The share of marked values among those that are zero on all ranks.
double false_positives(bloom_index const& found, sparse_index const& exact) {
  return static_cast<double>(found.marked() - exact.marked()) /
         static_cast<double>(exact.values() - exact.marked());
}
bool has_all_of(bloom_index const& found, sparse_index const& exact) {
  bool all = found.marks().size() == exact.marks().size();
  for (std::size_t w = 0; w < exact.marks().size(); ++w)
    all = all && (exact.marks()[w] & ~found.marks()[w]) == 0;
  return all;
}

/// The result of one codec per rank. Checks that it is equal on all ranks.
template <class Codec>
std::vector<float> sum(sparse::vectors const& x, hcomp::bloom_options const& bloom = {}) {
  std::vector<Codec> codecs;
  std::vector<std::uint64_t> all;
  for (std::size_t r = 0; r < x.size(); ++r) {
    hcomp::sparse_options const options{.ranks = static_cast<std::uint32_t>(x.size())};
    if constexpr (std::is_constructible_v<Codec, hcomp::sparse_options, bloom_index>)
      codecs.emplace_back(options, bloom_index(bloom));
    else
      codecs.emplace_back(options, hcomp::lhc_options{}, bloom_index(bloom));
    auto const words = codecs[r].mark(x[r]);
    all.resize(words.size());
    for (std::size_t w = 0; w < all.size(); ++w) all[w] |= words[w];
  }
  std::vector<typename Codec::lane_type> lanes, total;
  for (std::size_t r = 0; r < x.size(); ++r) {
    std::copy(all.begin(), all.end(), codecs[r].mark(x[r]).begin());
    codecs[r].unite(1);
    lanes.resize(codecs[r].lanes(x[r].size()));
    total.resize(lanes.size());
    codecs[r].encode_lanes(x[r], lanes);
    for (std::size_t i = 0; i < lanes.size(); ++i) total[i] += lanes[i];
  }
  auto first = x[0], last = x.back();
  codecs[0].decode_lanes(total, first);
  codecs.back().decode_lanes(total, last);
  CHECK(first == last);
  return first;
}

}  // namespace

TEST_CASE(
    "bloom index: values that are nonzero on some rank are marked, however small the filter") {
  for (std::size_t const n : {0, 1, 63, 64, 65, 1000, 30'001})
    for (double const density : {0.0, 0.003, 0.1, 1.0})
      for (std::size_t const expected : {std::size_t{0}, std::size_t{1}, n / 100, n, 3 * n}) {
        CAPTURE(n);
        CAPTURE(density);
        CAPTURE(expected);
        auto const x = ranks_of(4, n, density);
        auto const exact = exact_union(x);
        bloom_index index({.expected = expected});
        CHECK(unite(index, x) == index.words(n) * 8);
        REQUIRE(has_all_of(index, exact));
        CHECK(index.values() == n);
        CHECK(index.marked() <= n);
        CHECK(index.exponent() == exact.exponent());
        std::size_t marked = 0;
        for (std::size_t i = 0; i < n; ++i) {
          if (i % 64 == 0) REQUIRE(index.marks_before()[i / 64] == marked);
          marked += index.marks()[i / 64] >> i % 64 & 1;
        }
        CHECK(index.marked() == marked);
      }
}

TEST_CASE("bloom index: filter and sketch take the theoretical number of bits, and all is exact") {
  // C8, measured with 2^22 values: bits per value of filter and sketch at 1.27 cells, share of
  // zeros marked; then the bits of a bitmap and a sketch, and of a bitmap and sparse_union.
  struct {
    double density, bits, false_positives, with_sketch, packed;
  } const cases[] = {{0.001, 0.064, 5.0e-5, 1.041, 1.032},
                     {0.01, 0.585, 5.2e-4, 1.406, 1.320},
                     {0.03, 1.69, 1.6e-3, 2.22, 1.96},
                     {0.05, 2.75, 2.8e-3, 3.03, 2.60},
                     {0.10, 5.35, 5.9e-3, 5.06, 4.20}};
  std::size_t const n = std::size_t{1} << 20;
  for (auto const& one : cases) {
    CAPTURE(one.density);
    sparse::vectors const x{sparse::values(n, one.density, {.seed = 7})};
    auto const exact = exact_union(x);
    hcomp::lhc<std::uint32_t, bloom_index> codec({}, {.cells_per_value = 1.27},
                                                 bloom_index({.expected = exact.marked()}));
    auto const bytes = codec.mark(x[0]).size_bytes();
    codec.unite(1);
    CHECK(has_all_of(codec.index(), exact));
    // a binomial number of zeros, within five standard deviations
    double const zeros = static_cast<double>(n - exact.marked());
    double const noise = 5 * std::sqrt(one.false_positives / zeros);
    CHECK(std::fabs(false_positives(codec.index(), exact) - one.false_positives) <
          noise + 0.1 * one.false_positives);
    double const bits =
        static_cast<double>(bytes * 8 + codec.lanes(n) * 32) / static_cast<double>(n);
    CHECK(bits == doctest::Approx(one.bits).epsilon(0.04));
    CHECK((bits < one.with_sketch) == (one.density < 0.075));
    CHECK((bits < one.packed) == (one.density < 0.045));
    std::vector<std::uint32_t> lanes(codec.lanes(n));
    codec.encode_lanes(x[0], lanes);
    std::vector<float> found(n, 7.0f);
    codec.decode_lanes(lanes, found);
    CHECK(found == sparse::fixed_sum<std::uint32_t>(x));
  }
}

TEST_CASE("bloom index: supports of all kinds have the requested rate of false positives") {
  std::size_t const n = 1 << 20;
  struct {
    char const* what;
    bool (*marks)(std::size_t);
  } const supports[] = {
      {"at random", [](std::size_t i) { return hcomp::mix(i) % 100 == 0; }},
      {"whole rows", [](std::size_t i) { return hcomp::mix(i / 64) % 100 == 0; }},
      {"one column", [](std::size_t i) { return i % 64 == 5; }},
      {"every hundredth", [](std::size_t i) { return i % 100 == 0; }},
      {"the first", [](std::size_t i) { return i < 10'000; }},
  };
  for (auto const& support : supports) {
    INFO(support.what);
    sparse::vectors x(1, std::vector<float>(n));
    for (std::size_t i = 0; i < n; ++i) x[0][i] = support.marks(i) ? 1.0f : 0.0f;
    auto const exact = exact_union(x);
    for (double const rate : {0.25, 0.01, 0.001}) {
      CAPTURE(rate);
      bloom_index index({.expected = exact.marked(), .false_positive_rate = rate});
      auto const bytes = unite(index, x);
      REQUIRE(has_all_of(index, exact));
      // In whole rows, 64 values are right or wrong together, 16 at 0.001: five deviations.
      double const noise = 5 * std::sqrt(64 * rate / static_cast<double>(n));
      CHECK(false_positives(index, exact) < 1.1 * rate + noise);
      CHECK(false_positives(index, exact) > 0.9 * rate - noise);
      double const bits = static_cast<double>(bytes * 8) / static_cast<double>(exact.marked());
      CHECK(bits < -std::log2(rate) / std::log(2.0) * 1.02 + 0.1);
    }
  }
}

TEST_CASE("bloom index: golden words") {
  // Part of the wire format: raise wire_version when it changes.
  bloom_index index({.expected = 100});
  auto const words = index.mark(sparse::values(10'000, 0.01, {.seed = 1}));
  CHECK(hcomp::fingerprint(hcomp::serial_group{}, reinterpret_cast<std::byte const*>(words.data()),
                           words.size_bytes()) == 15818655367635659016u);
}

TEST_CASE("bloom index: results equal those with a bitmap") {
  for (std::size_t const n : {0, 1, 64, 1000, 50'001})
    for (std::size_t const ranks : {1, 2, 5})
      for (double const density : {0.0, 0.01, 0.3}) {
        CAPTURE(n);
        CAPTURE(ranks);
        CAPTURE(density);
        auto const x = ranks_of(ranks, n, density);
        auto const expected = sparse::fixed_sum<std::uint32_t>(x);
        for (std::size_t const guess : {std::size_t{0}, std::size_t{1}, n}) {
          CAPTURE(guess);
          CHECK(sum<hcomp::sparse_union<float, bloom_index>>(x, {.expected = guess}) ==
                sparse::plain_sum(x));
          CHECK(sum<hcomp::sparse_union<std::uint32_t, bloom_index>>(x, {.expected = guess}) ==
                expected);
          CHECK(sum<hcomp::lhc<std::uint32_t, bloom_index>>(x, {.expected = guess}) == expected);
        }
        CHECK(sum<hcomp::lhc<std::uint64_t, bloom_index>>(x) ==
              sparse::fixed_sum<std::uint64_t>(x));
      }
}

TEST_CASE("bloom index: NaN, impossible settings and words that are no union are refused") {
  for (float const special : data::nonfinite_specials<float>()) {
    auto x = ranks_of(3, 500, 0.1);
    x[2][100] = special;
    using packed = hcomp::sparse_union<std::uint32_t, bloom_index>;
    CHECK_THROWS_WITH_AS(sum<packed>(x),
                         "sparse_union: NaN or infinity on some rank; x is unchanged",
                         hcomp::nonfinite_error);
  }
  CHECK_THROWS_WITH_AS(bloom_index({.false_positive_rate = 0.7}),
                       "bloom_index: a false positive rate of 0.7; there can be up to 0.5 "
                       "(0: default)",
                       std::invalid_argument);
  CHECK_THROWS_AS(bloom_index({.false_positive_rate = -0.1}), std::invalid_argument);
  CHECK_THROWS_AS(bloom_index({.false_positive_rate = std::nan("")}), std::invalid_argument);
  bloom_index index;
  auto const words = index.mark(std::vector<float>(100, 1.0f));
  std::fill(words.begin(), words.end(), 0);
  CHECK_THROWS_AS(index.unite(), hcomp::wire_error);
  CHECK(bloom_index({.expected = 5}).settings() != bloom_index({.expected = 6}).settings());
  CHECK(bloom_index({.false_positive_rate = 0.1}).settings() != bloom_index().settings());
  CHECK(sparse_index().settings() != bloom_index().settings());
}
