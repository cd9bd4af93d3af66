/// @file
/// Proof without random draws that Marsit's merge is exactly unbiased. A group records the mask of
/// each merge of codec `sign`, and the test computes with rational numbers.
/// core/bernoulli_test.cpp tests that masks have exactly their probability.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bernoulli.hpp>
#include <hcomp/core/group.hpp>
#include <vector>

namespace {

/// The mask that a merge requested.
struct asked_mask {
  bool acc_is_lower;
  hcomp::mask_key key;
};
struct noting_group : hcomp::serial_group {
  std::vector<asked_mask>* notes;
};

}  // namespace

namespace hcomp::detail::sign {

// sign::merge_block finds this overload because it is declared earlier.
inline void merge_signs(noting_group group, std::byte*, std::byte const*, int, std::uint64_t,
                        bool acc_is_lower, mask_key const& key) {
  group.notes->push_back({acc_is_lower, key});
}

}  // namespace hcomp::detail::sign

#include <algorithm>
#include <cmath>
#include <hcomp/codec/sign/sign.hpp>
#include <numeric>
#include <random>
#include <set>

namespace {

/// A non-negative fraction in lowest terms.
struct fraction {
  std::int64_t above = 0, below = 1;

  friend fraction operator*(fraction a, fraction b) {
    return reduced({a.above * b.above, a.below * b.below});
  }
  friend fraction operator+(fraction a, fraction b) {
    return reduced({a.above * b.below + b.above * a.below, a.below * b.below});
  }
  friend bool operator==(fraction const&, fraction const&) = default;
  double value() const { return static_cast<double>(above) / static_cast<double>(below); }

 private:
  static fraction reduced(fraction f) {
    std::int64_t const common = std::gcd(f.above, f.below);
    return {f.above / common, f.below / common};
  }
};

/// A partial result: its block, and each worker's probability that its bit survived so far.
struct partial {
  std::vector<std::byte> block;
  std::vector<fraction> survives;
  std::vector<std::uint32_t> tags;  ///< of all masks so far
};

partial of_worker(std::size_t m, std::vector<std::uint32_t> const& weights) {
  hcomp::sign<> const codec;
  partial result;
  result.block.resize(codec.block_bytes(1));
  float const x = 1;
  codec.encode_block(hcomp::serial_group{}, &x, 1, result.block.data(),
                     {.key = 1, .rank = static_cast<std::uint32_t>(m), .weight = weights[m]});
  result.survives.resize(weights.size());
  result.survives[m] = {1, 1};
  return result;
}

/// Replaces a requested mask; for negative controls.
using change = void (*)(hcomp::mask_key&);
void no_change(hcomp::mask_key&) {}
void one_half(hcomp::mask_key& key) {
  key.share = 1;
  key.whole = 2;
}

partial merged(partial acc, partial const& in, change tamper) {
  std::vector<asked_mask> notes;
  noting_group group;
  group.notes = &notes;
  std::uint32_t const acc_rank = hcomp::load<hcomp::block_header>(acc.block.data()).lowest_rank;
  std::uint32_t const in_rank = hcomp::load<hcomp::block_header>(in.block.data()).lowest_rank;
  hcomp::sign<>{}.merge_block(group, acc.block.data(), in.block.data());
  REQUIRE(notes.size() == 1);
  auto [acc_is_lower, key] = notes[0];
  REQUIRE(acc_is_lower == (acc_rank < in_rank));
  tamper(key);
  fraction const lower{key.share, key.whole}, upper{key.whole - key.share, key.whole};
  for (std::size_t m = 0; m < acc.survives.size(); ++m)
    acc.survives[m] = acc.survives[m] * (acc_is_lower ? lower : upper) +
                      in.survives[m] * (acc_is_lower ? upper : lower);
  acc.tags.insert(acc.tags.end(), in.tags.begin(), in.tags.end());
  acc.tags.push_back(key.number);
  return acc;
}

/// The ring: each worker in turn merges what it receives into its own block.
partial around_ring(std::vector<std::uint32_t> const& weights, std::size_t first,
                    change tamper = no_change) {
  partial sum = of_worker(first, weights);
  for (std::size_t hop = 1; hop < weights.size(); ++hop)
    sum = merged(of_worker((first + hop) % weights.size(), weights), sum, tamper);
  return sum;
}

partial along_random_tree(std::vector<std::uint32_t> const& weights, std::mt19937_64& random) {
  std::vector<partial> parts;
  for (std::size_t m = 0; m < weights.size(); ++m) parts.push_back(of_worker(m, weights));
  while (parts.size() > 1) {
    std::swap(parts[random() % parts.size()], parts.back());
    partial const in = parts.back();
    parts.pop_back();
    partial& acc = parts[random() % parts.size()];
    acc = merged(acc, in, no_change);
  }
  return parts[0];
}

/// For every input of the workers, compares P(result bit = 1) with the expected probability: number
/// of inputs, and largest deviation.
struct verdict {
  int inputs = 0, wrong = 0;
  double bias = 0;
};
verdict try_all_inputs(partial const& sum, std::vector<std::uint32_t> const& weights) {
  verdict result;
  for (std::uint32_t input = 0; input < 1u << weights.size(); ++input) {
    fraction one;
    std::int64_t wanted = 0, whole = 0;
    for (std::size_t m = 0; m < weights.size(); ++m) {
      whole += weights[m];
      if (!(input >> m & 1)) continue;
      one = one + sum.survives[m];
      wanted += weights[m];
    }
    ++result.inputs;
    result.wrong += !(one == fraction{wanted, whole} * fraction{1, 1});
    result.bias = std::max(result.bias, std::fabs(one.value() - static_cast<double>(wanted) /
                                                                    static_cast<double>(whole)));
  }
  return result;
}

std::vector<std::uint32_t> ones(std::size_t ranks) { return std::vector<std::uint32_t>(ranks, 1); }

}  // namespace

// Marsit test 1.
TEST_CASE("sign: the mean of merged bits is exact for the ring and 50 trees, for every input") {
  struct {
    std::size_t ranks;
    int inputs;
  } const cases[] = {{3, 408}, {5, 1632}, {8, 13056}};
  for (auto const& one : cases) {
    CAPTURE(one.ranks);
    auto const weights = ones(one.ranks);
    std::mt19937_64 random(one.ranks);
    int inputs = 0;
    for (int tree = 0; tree < 51; ++tree) {
      CAPTURE(tree);
      auto const sum = tree == 0 ? around_ring(weights, 0) : along_random_tree(weights, random);
      auto const result = try_all_inputs(sum, weights);
      REQUIRE(result.wrong == 0);
      inputs += result.inputs;
    }
    CHECK(inputs == one.inputs);
  }
}

TEST_CASE(
    "sign: the mean of merged bits is exact for any weights, for every first rank of the ring") {
  std::mt19937_64 random(1);
  for (std::vector<std::uint32_t> const& weights :
       {std::vector<std::uint32_t>{1, 2}, {5, 1, 3}, {7, 7, 1, 2, 100}, {3, 1, 4, 1, 5, 9, 2, 6}}) {
    for (std::size_t first = 0; first < weights.size(); ++first)
      REQUIRE(try_all_inputs(around_ring(weights, first), weights).wrong == 0);
    for (int tree = 0; tree < 50; ++tree)
      REQUIRE(try_all_inputs(along_random_tree(weights, random), weights).wrong == 0);
  }
}

// Marsit test 4: the control, which shows that the tests above can fail.
TEST_CASE("sign: taking either side with p = 1/2 on a ring would be biased by 1/6, 7/20 and 1/2") {
  struct {
    std::size_t ranks;
    double bias;
  } const cases[] = {{3, 0.5 - 1 / 3.0}, {5, 0.35}, {8, 0.5}};
  for (auto const& one : cases) {
    CAPTURE(one.ranks);
    auto const result = try_all_inputs(around_ring(ones(one.ranks), 0, one_half), ones(one.ranks));
    CHECK(result.wrong > 0);
    CHECK(std::fabs(result.bias - one.bias) < 1e-12);
  }
}

// Pitfall 11 of Marsit: masks of one tag compare the same uniforms, so no path may use one twice.
TEST_CASE("sign: no two merges of one result share a mask") {
  std::mt19937_64 random(2);
  for (std::size_t const ranks : {2u, 3u, 5u, 8u, 64u, 300u})
    for (int tree = 0; tree < 3; ++tree) {
      CAPTURE(ranks);
      // Fractions of 300 ranks overflow. This test needs only the tags.
      auto const weights = ones(ranks);
      std::vector<partial> parts;
      for (std::size_t m = 0; m < ranks; ++m) {
        parts.push_back(of_worker(m, weights));
        parts.back().survives.clear();
      }
      while (parts.size() > 1) {
        partial const in = parts.back();
        parts.pop_back();
        partial& acc = tree == 0 ? parts.back() : parts[random() % parts.size()];
        acc = merged(acc, in, no_change);
      }
      std::set<std::uint32_t> const tags(parts[0].tags.begin(), parts[0].tags.end());
      REQUIRE(parts[0].tags.size() == ranks - 1);
      REQUIRE(tags.size() == ranks - 1);
    }
}
