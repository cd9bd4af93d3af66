#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/core/simd.hpp>
#include <limits>
#include <stdexcept>
#include <support/data.hpp>
#include <support/worker_group.hpp>
#include <vector>

namespace detail = hcomp::detail;
using hcomp::sparse_index;

namespace {

using word_vector = std::vector<std::uint64_t>;

/// A share of `density` of the values is not zero; zeros have both signs.
std::vector<float> sparse(std::size_t n, double density, std::uint64_t seed) {
  auto x = data::uniform(n, -1, 1, {.seed = seed});
  auto const chance = data::uniform<double>(n, 0, 1, {.seed = seed + 1000});
  for (std::size_t i = 0; i < n; ++i)
    if (chance[i] >= density) x[i] = chance[i] < 0.7 ? 0.0f : -0.0f;
  return x;
}

/// Marks and exponents by definition.
word_vector expected_words(std::vector<float> const& x) {
  word_vector words(sparse_index::words(x.size()));
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] == 0)) words[i / 64] |= std::uint64_t{1} << i % 64;
    largest = std::max(largest, hcomp::same_bits<std::uint32_t>(x[i]) >> 23 & 0xff);
  }
  words[words.size() - 4 + largest / 64] |= std::uint64_t{1} << largest % 64;
  return words;
}

std::vector<std::size_t> const sizes{0, 1, 63, 64, 65, 127, 128, 1000, 4096, 5003};

sparse_index united(std::vector<float> const& x) {
  sparse_index index;
  index.mark(x);
  index.unite();
  return index;
}

}  // namespace

TEST_CASE("sparse index: a bit for every value that is not zero, and the largest exponent") {
  for (std::size_t const n : sizes)
    for (double const density : {0.0, 0.01, 0.5, 1.0}) {
      CAPTURE(n);
      CAPTURE(density);
      auto const x = sparse(n, density, n + 1);
      auto const expected = expected_words(x);
      sparse_index index;
      auto const words = index.mark(x);
      CHECK(std::equal(words.begin(), words.end(), expected.begin(), expected.end()));
      index.unite();
      CHECK(index.marked() == static_cast<std::size_t>(std::count_if(
                                  x.begin(), x.end(), [](float v) { return v != 0; })));
    }
}

TEST_CASE("sparse index: SIMD and several workers give the words of one worker") {
  auto specials = data::finite_specials<float>();
  for (float const v : data::nonfinite_specials<float>()) specials.push_back(v);
  for (std::size_t const n : sizes)
    for (std::size_t k = 0; k <= specials.size(); ++k) {
      auto x = sparse(n, 0.1, n + k);
      for (float& v : x) v *= 0x1p-100f;
      if (n > 0 && k < specials.size()) x[k * 7 % n] = specials[k];
      auto const expected = expected_words(x);
      CAPTURE(n);
      CAPTURE(k);
      word_vector words(expected.size(), ~std::uint64_t{0});
      detail::sparse::mark_nonzeros(hcomp::serial_group{}, x.data(), n, words.data());
      REQUIRE(words == expected);
      for (auto const level :
           {hcomp::simd_level::baseline, hcomp::simd_level::avx2, hcomp::simd_level::avx512}) {
        if (level > hcomp::best_simd_level()) continue;
        CAPTURE(static_cast<int>(level));
        std::fill(words.begin(), words.end(), ~std::uint64_t{0});
        std::vector<float> kept(n + detail::sparse::marking_slack);
        auto const found =
            detail::sparse::mark_and_keep(x.data(), n, words.data(), kept.data(), level);
        kept.resize(found.kept);
        REQUIRE(found.negative_zeros ==
                std::any_of(x.begin(), x.end(), [](float v) { return v == 0 && std::signbit(v); }));
        REQUIRE(words == expected);
        std::vector<float> values;
        for (float const v : x)
          if (v != 0) values.push_back(v);  // NaN among them
        REQUIRE(kept.size() == values.size());
        REQUIRE((values.empty() ||
                 std::memcmp(kept.data(), values.data(), kept.size() * sizeof(float)) == 0));
      }
      if (k % 8 == 0 && n <= 1000) {
        std::fill(words.begin(), words.end(), ~std::uint64_t{0});
        workers::run<3>(
            [&](auto group) { detail::sparse::mark_nonzeros(group, x.data(), n, words.data()); });
        REQUIRE(words == expected);
      }
    }
}

TEST_CASE("sparse index: the union of ranks has the marks of all and the largest exponent") {
  for (std::size_t const n : sizes) {
    sparse_index index;
    word_vector all(sparse_index::words(n));
    std::vector<float> sum_of_magnitudes(n);
    float largest = 0;
    for (std::uint64_t rank = 0; rank < 5; ++rank) {
      auto x = sparse(n, 0.05, rank);
      for (float& v : x) v *= static_cast<float>(rank * rank);
      auto const words = index.mark(x);
      for (std::size_t w = 0; w < all.size(); ++w) all[w] |= words[w];
      for (std::size_t i = 0; i < n; ++i) {
        sum_of_magnitudes[i] += std::abs(x[i]);
        largest = std::max(largest, std::abs(x[i]));
      }
    }
    std::copy(all.begin(), all.end(), index.mark(std::vector<float>(n)).begin());
    index.unite();
    CAPTURE(n);
    CHECK(index.exponent() == hcomp::same_bits<std::uint32_t>(largest) >> 23);
    std::size_t marked = 0;
    for (std::size_t i = 0; i < n; ++i) {
      bool const is_marked = index.marks()[i / 64] >> i % 64 & 1;
      REQUIRE(is_marked == (sum_of_magnitudes[i] > 0));
      if (i % 64 == 0) REQUIRE(index.marks_before()[i / 64] == marked);
      marked += is_marked;
    }
    CHECK(index.marked() == marked);
    CHECK(!index.nonfinite());
  }
}

TEST_CASE("sparse index: NaN and infinity are detected by all ranks") {
  for (float const special : data::nonfinite_specials<float>()) {
    auto x = sparse(1000, 0.1, 3);
    x[777] = special;
    CHECK(united(x).nonfinite());
    CHECK(united(std::vector<float>(7, special)).nonfinite());
  }
  CHECK(!united({std::numeric_limits<float>::max()}).nonfinite());
}

TEST_CASE("sparse index: counting by SIMD and by several workers gives the counts of one") {
  auto const words = data::words(1003, {.seed = 1});
  for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, words.size()}) {
    std::vector<std::uint32_t> expected(count), ranks(count);
    std::uint64_t none = 0, shared[5];
    auto const all = detail::sparse::count_marks(hcomp::serial_group{}, words.data(), count,
                                                 expected.data(), &none);
    CHECK(detail::sparse::count_marks(hcomp::simd_group{}, words.data(), count, ranks.data(),
                                      &none) == all);
    CHECK(ranks == expected);
    std::fill(ranks.begin(), ranks.end(), 0);
    workers::run<5>([&](auto group) {
      auto const found =
          detail::sparse::count_marks(group, words.data(), count, ranks.data(), shared);
      if (found != all) throw std::logic_error("lanes count otherwise");
    });
    CHECK(ranks == expected);
  }
}

TEST_CASE("sparse index: a rank's values get their positions among those of all ranks") {
  for (std::size_t const n : sizes)
    for (double const density : {0.0, 0.02, 0.5, 1.0})
      for (double const others : {0.0, 0.05, 1.0}) {
        auto const x = sparse(n, density, n), y = sparse(n, others, n + 1);
        CAPTURE(n);
        CAPTURE(density);
        CAPTURE(others);
        std::vector<float> expected;
        for (std::size_t i = 0; i < n; ++i)
          if (x[i] != 0 || y[i] != 0) expected.push_back(x[i] == 0 ? 0.0f : x[i]);
        sparse_index index;
        auto const words = index.mark(x);
        auto const theirs = expected_words(y);
        for (std::size_t w = 0; w < words.size(); ++w) words[w] |= theirs[w];
        index.unite();
        REQUIRE(index.marked() == expected.size());
        detail::sparse::own_values own;
        word_vector mine(words.size());
        own.mark(x, mine.data());
        std::vector<float> kept(own.values().begin(), own.values().end());
        kept.resize(kept.size() + detail::sparse::marking_slack);
        for (auto const level :
             {hcomp::simd_level::baseline, hcomp::simd_level::avx2, hcomp::simd_level::avx512}) {
          if (level > hcomp::best_simd_level()) continue;
          std::vector<float> out(expected.size() + 1, 77);
          detail::sparse::spread({index.marks().data(), index.marks_before().data(), mine.data(),
                                  kept.data(), index.marks().size()},
                                 expected.size(), reinterpret_cast<std::byte*>(out.data()), level);
          REQUIRE(out.back() == 77);
          out.pop_back();
          REQUIRE(out == expected);
        }
        auto const check_lanes = [&]<class Lane>(Lane) {
          std::vector<Lane> out(expected.size(), 77);
          own.spread(index.marks(), index.marks_before(), std::span(out),
                     [](float v) { return static_cast<Lane>(v * 1000 + 5000); });
          for (std::size_t k = 0; k < out.size(); ++k)
            REQUIRE(out[k] == static_cast<Lane>(expected[k] * 1000 + 5000));
        };
        check_lanes(std::uint32_t());
        check_lanes(std::uint64_t());
      }
}

TEST_CASE("sparse index: words that are no union are refused") {
  sparse_index index;
  auto const words = index.mark(std::vector<float>(100, 1.0f));
  words[1] |= std::uint64_t{1} << 36;
  CHECK_THROWS_WITH_AS(
      index.unite(),
      "sparse_index: marks beyond its 100 values; were words of another vector mixed in?",
      hcomp::wire_error);
  auto const lacking = index.mark(std::vector<float>(100, 1.0f));
  lacking[1] &= ~std::uint64_t{2};
  CHECK_THROWS_WITH_AS(
      index.unite(),
      "sparse_index: of values 64 to 99 some that this rank has marked are not; is "
      "this a result of a bitwise OR?",
      hcomp::wire_error);
  auto const zeroed = index.mark(std::vector<float>(100, 0.0f));
  std::fill(zeroed.begin(), zeroed.end(), 0);
  CHECK_THROWS_WITH_AS(
      index.unite(),
      "sparse_index: no exponent of its 100 values; is this a result of a bitwise OR?",
      hcomp::wire_error);
}
