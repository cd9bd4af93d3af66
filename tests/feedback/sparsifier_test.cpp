
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <feedback/saved_states.hpp>
#include <hcomp/feedback/sparsifier.hpp>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <support/data.hpp>
#include <vector>

using hcomp::sparsifier;
using hcomp::threshold;
using hcomp::top_k;
using hcomp::top_share;

namespace {

using values = std::vector<float>;

bool same_bits(std::span<float const> a, std::span<float const> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Magnitudes over 80 powers of two, with many ties: three bits of mantissa.
values spread_values(std::size_t n, std::uint64_t seed) {
  values x(n);
  std::size_t i = 0;
  for (auto const word : data::words(n, {.seed = seed}))
    x[i++] = std::ldexp((word & 1 ? 1.0f : -1.0f) * static_cast<float>(8 + (word >> 1 & 7)),
                        static_cast<int>(word >> 8 & 63) % 80 - 40);
  return x;
}

/// Top-k by sorting: by magnitude, then by index.
values largest(values const& x, std::size_t k) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(x[a]) > std::abs(x[b]); });
  values kept(x.size());
  for (std::size_t i = 0; i < k; ++i) kept[order[i]] = x[order[i]];
  return kept;
}

values plus(std::span<float const> a, std::span<float const> b) {
  values sum(a.begin(), a.end());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  return sum;
}

double energy(std::span<float const> x) {
  double sum = 0;
  for (double const v : x) sum += v * v;
  return sum;
}

}  // namespace

TEST_CASE("sparsifier: keeps the k largest, the first of equal ones, as sorting does") {
  for (std::size_t const n : {1, 2, 7, 64, 1000})
    for (std::uint64_t const seed : {1, 2, 3})
      for (std::size_t const k : {std::size_t{0}, std::size_t{1}, n / 100, n / 3, n - 1, n}) {
        CAPTURE(n);
        CAPTURE(seed);
        CAPTURE(k);
        auto x = spread_values(n, seed);
        auto const expected = largest(x, k);
        sparsifier keep(n, top_k{k});
        CHECK(keep(x) == k);
        CHECK(same_bits(x, expected));
      }
  values ties{1, -2, 2, -2, 1, 2};
  CHECK(sparsifier(6, top_k{3})(ties) == 3);
  CHECK(ties == values{0, -2, 2, -2, 0, 0});
}

TEST_CASE("sparsifier: distinguishes magnitudes that differ only in their last bit") {
  // each digit of the selection is decisive once
  for (int bit = 0; bit < 31; ++bit) {
    CAPTURE(bit);
    float const less = hcomp::same_bits<float>(std::uint32_t{0});
    float const more = hcomp::same_bits<float>(std::uint32_t{1} << bit);
    values x{less, -less, more, less};
    CHECK(sparsifier(4, top_k{1})(x) == 1);
    CHECK(same_bits(x, values{0, 0, more, 0}));
  }
  float const one = 1, next = std::nextafter(1.0f, 2.0f);
  values x{one, next, -one, -next, one};
  CHECK(sparsifier(5, top_k{2})(x) == 2);
  CHECK(x == values{0, next, 0, -next, 0});
}

TEST_CASE("sparsifier: kept values plus residual are x plus the residual before, bit for bit") {
  for (auto const& kept : {hcomp::sparsity{top_k{37}}, hcomp::sparsity{top_share{0.05}},
                           hcomp::sparsity{threshold{0.9f}}}) {
    CAPTURE(kept.index());
    sparsifier keep(1001, kept);
    for (std::uint64_t step = 0; step < 20; ++step) {
      auto x = data::uniform(1001, -1, 1, {.seed = step});
      auto const wanted = plus(x, keep.residual());
      keep(x);
      keep.commit();
      REQUIRE(same_bits(plus(x, keep.residual()), wanted));
      for (std::size_t i = 0; i < x.size(); ++i)  // no value is in both
        REQUIRE((x[i] == 0 || keep.residual()[i] == 0));
    }
  }
}

TEST_CASE("sparsifier: keeping k of n values leaves at most a share of 1 - k / n of the energy") {
  for (std::size_t const k : {1, 10, 100, 900}) {
    CAPTURE(k);
    values equal(1000, -0.25f);
    for (auto x : {equal, data::uniform(1000, -1, 1, {.seed = 5}), spread_values(1000, 6)}) {
      double const before = energy(x);
      sparsifier keep(1000, top_k{k});
      keep(x);
      keep.commit();
      double const share = 1 - static_cast<double>(k) / 1000;
      CHECK(energy(keep.residual()) <= share * before * (1 + 1e-12));  // rounding of 1000 additions
    }
    // equal magnitudes reach this bound
    sparsifier keep(1000, top_k{k});
    keep(equal);
    keep.commit();
    CHECK(energy(keep.residual()) == static_cast<double>(1000 - k) / 16);
  }
}

TEST_CASE("sparsifier: small values are kept later, after they have accumulated") {
  sparsifier keep(3, top_k{1});
  double sent = 0;
  for (int step = 0; step < 100; ++step) {
    values x{1, 0.25f, 0};
    keep(x);
    keep.commit();
    sent += x[1];
  }
  // the value is kept as soon as it exceeds 1; the other one then waits for one step
  CHECK(sent == doctest::Approx(25).epsilon(0.06));
  CHECK(sent + keep.residual()[1] == 25);
}

TEST_CASE("sparsifier: a share is rounded to an integer number of values, at least one") {
  auto const kept = [](std::size_t n, double share) {
    values x(n, 1.0f);
    return sparsifier(n, top_share{share})(x);
  };
  CHECK(kept(1000, 0.01) == 10);
  CHECK(kept(1000, 0.0126) == 13);
  CHECK(kept(1000, 1e-9) == 1);
  CHECK(kept(1000, 0) == 0);
  CHECK(kept(1000, 1) == 1000);
  CHECK(kept(0, 0.5) == 0);
}

TEST_CASE("sparsifier: a threshold keeps values that reach it, -0 counts as 0") {
  values x{1, -1, std::nextafter(1.0f, 0.0f), -0.0f, 0, 3};
  sparsifier keep(6, threshold{1});
  CHECK(keep(x) == 3);
  CHECK(x == values{1, -1, 0, 0, 0, 3});
  values zeros{-0.0f, 0, -0.0f};
  sparsifier two(3, top_k{2});
  CHECK(two(zeros) == 2);
  CHECK(zeros == values{0, 0, 0});
}

TEST_CASE(
    "sparsifier: NaN and infinity are kept, for any number of them, and get into no residual") {
  float const infinity = std::numeric_limits<float>::infinity();
  values const x{1, std::nanf(""), 5, -infinity, 7, infinity};
  auto const nonfinite = [](std::span<float const> v) {
    return std::ranges::count_if(v, [](float one) { return !hcomp::is_finite(one); });
  };
  struct expectation {
    hcomp::sparsity kept;
    std::size_t count;
  };
  for (auto const& expected :
       {expectation{top_k{0}, 3}, expectation{top_k{2}, 3}, expectation{top_k{3}, 3},
        expectation{top_k{4}, 4}, expectation{threshold{6}, 4}}) {
    auto const count = expected.count;
    CAPTURE(count);
    auto y = x;
    sparsifier keep(6, expected.kept);
    CHECK(keep(y) == count);
    CHECK(nonfinite(y) == 3);
    CHECK(y[4] == (count == 4 ? 7 : 0));
    keep.commit();
    CHECK(nonfinite(keep.residual()) == 0);
  }
}

TEST_CASE("sparsifier: without commit the residual is unchanged") {
  sparsifier keep(3, top_k{1});
  values x{1, 2, 3};
  keep(x);
  CHECK(same_bits(keep.residual(), values{0, 0, 0}));
  x = {4, 2, 3};
  keep(x);
  keep.commit();
  keep.commit();  // commits nothing
  CHECK(x == values{4, 0, 0});
  CHECK(same_bits(keep.residual(), values{0, 2, 3}));
  keep(x);
  keep.reset();
  keep.commit();
  CHECK(same_bits(keep.residual(), values{0, 0, 0}));
}

TEST_CASE("sparsifier: a saved state continues bit for bit, and any other state is refused") {
  sparsifier keep(100, top_k{5}), copy(100, top_k{5});
  auto const step = [](sparsifier& one, std::uint64_t seed) {
    auto x = data::uniform(100, -1, 1, {.seed = seed});
    one(x);
    one.commit();
    return x;
  };
  for (std::uint64_t i = 0; i < 5; ++i) step(keep, i);
  auto const saved = keep.save();
  copy.restore(saved);
  for (std::uint64_t i = 5; i < 9; ++i) CHECK(same_bits(step(copy, i), step(keep, i)));
  hcomp::testing::check_refusals(keep, saved, "sparsifier: cannot restore: ", 1, 4, 100);
}

TEST_CASE("sparsifier: impossible arguments are refused with their values, and change nothing") {
  auto const refused = [](hcomp::sparsity const& kept, char const* text) {
    CHECK_THROWS_WITH_AS(sparsifier(10, kept), text, std::invalid_argument);
  };
  refused(top_k{11}, "sparsifier: the largest 11 values of 10 cannot be kept");
  refused(top_share{1.5}, "sparsifier: 1.5 is no share from 0 to 1");
  refused(top_share{-0.5}, "sparsifier: -0.5 is no share from 0 to 1");
  refused(top_share{std::nan("")}, "sparsifier: nan is no share from 0 to 1");
  refused(threshold{0}, "sparsifier: a threshold of 0; it has to be finite and above 0");
  refused(threshold{-1}, "sparsifier: a threshold of -1; it has to be finite and above 0");
  refused(threshold{std::numeric_limits<float>::infinity()},
          "sparsifier: a threshold of inf; it has to be finite and above 0");
  sparsifier keep(3, top_k{1});
  values x{1, 2};
  CHECK_THROWS_WITH_AS(keep(x), "sparsifier: 2 values, it is for 3", std::invalid_argument);
  CHECK(x == values{1, 2});
}
