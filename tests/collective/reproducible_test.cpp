
/// @file
/// Plans of the codec `reproducible`: for every distribution over ranks and every algorithm, the
/// bits are those of blocks merged by hand.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/reproducible/reproducible.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <numeric>
#include <random>
#include <string>
#include <support/laws.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

template <class T> using vectors = std::vector<std::vector<T>>;

/// `count` vectors of numbers over 40 powers of two, with opposites and zeros among them.
template <class T> vectors<T> summands(std::size_t count, std::size_t values) {
  vectors<T> x;
  for (std::size_t k = 0; k < count; ++k) {
    std::mt19937_64 random(100 + k);
    x.push_back(data::uniform<T>(values, -1, 1, {.seed = 200 + k}));
    for (std::size_t i = 0; i < values; ++i) {
      x[k][i] = std::ldexp(x[k][i], static_cast<int>(random() % 40));
      if (random() % 8 == 0) x[k][i] = 0;
      if (k > 0 && random() % 8 == 0) x[k][i] = -x[k - 1][i];
    }
  }
  return x;
}

/// Their sum, block by block in order.
template <class T> std::vector<T> by_hand(vectors<T> const& x) {
  reproducible<T> const codec;
  std::vector<std::byte> sum;
  for (std::size_t k = 0; k < x.size(); ++k) {
    auto const encoded = encode(codec, std::span<T const>(x[k]), {.rank = static_cast<int>(k)});
    if (k == 0)
      sum = encoded;
    else
      for (std::size_t b = 0; b < block_count(codec, x[k].size()); ++b)
        codec.merge_block(serial_group{}, sum.data() + b * codec.block_bytes(),
                          encoded.data() + b * codec.block_bytes());
  }
  std::vector<T> result(x[0].size());
  decode(codec, sum, std::span<T>(result));
  return result;
}

/// The result of all ranks, which must be equal on each.
template <class C>
std::vector<typename C::value_type> by_plan(C const& codec,
                                            vectors<typename C::value_type> const& of_ranks,
                                            std::string const& how) {
  using T = typename C::value_type;
  auto const results = on_ranks(of_ranks, [&](in_process& transport, std::vector<T>& mine) {
    host_executor executor;
    plan(mine.size(), codec, transport, executor, {.algorithm = algorithm::from(how)})
        .all_reduce(mine);
  });
  for (auto const& one : results) REQUIRE(laws::same_bytes(one, results[0]));
  return results[0];
}

char const* const algorithms[] = {"ring", "torus", "direct", "recursive_doubling", "aggregator"};

}  // namespace

TEST_CASE_TEMPLATE("reproducible plans: 1 to 8 ranks, in any order, give the same sum", T, float,
                   double) {
  for (std::size_t const values : {1, 1000, 20'000})
    for (int const ranks : up_to_8_ranks()) {
      auto x = summands<T>(static_cast<std::size_t>(ranks), values);
      auto const expected = by_hand(x);
      for (std::string const how : algorithms) {
        CAPTURE(values);
        CAPTURE(ranks);
        CAPTURE(how);
        std::mt19937_64 random(static_cast<unsigned>(ranks));
        std::shuffle(x.begin(), x.end(), random);
        REQUIRE(laws::same_bytes(by_plan(reproducible<T>{}, x, how), expected));
      }
    }
}

TEST_CASE_TEMPLATE("reproducible plans: ranks that have only zeros change no bit", T, float,
                   double) {
  constexpr std::size_t values = 20'000;
  auto x = summands<T>(3, values);
  auto const expected = by_hand(x);
  for (int const more : {1, 2, 5}) {
    x.insert(x.begin() + more % 3, std::vector<T>(values));
    x.resize(3 + static_cast<std::size_t>(more), std::vector<T>(values));
    for (std::string const how : algorithms) {
      CAPTURE(more);
      CAPTURE(how);
      REQUIRE(laws::same_bytes(by_plan(reproducible<T>{}, x, how), expected));
    }
    std::erase_if(x, [](auto const& one) { return one == std::vector<T>(values); });
  }
}

TEST_CASE("reproducible plans: reversing these inputs' ranks changes bits of a plain sum") {
  auto x = summands<double>(6, 1000);
  auto const first = by_plan(identity<double>{}, x, "ring");
  std::reverse(x.begin(), x.end());
  CHECK(!laws::same_bytes(first, by_plan(identity<double>{}, x, "ring")));
}
