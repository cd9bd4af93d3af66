/// @file
/// Sums of fp16 and bf16 are rounded once where one rank receives all summands: with the algorithms
/// `direct` and `aggregator`.

#include <doctest/doctest.h>

#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

template <class V> using vectors = std::vector<std::vector<V>>;

/// In [1, 2): all partial sums grow. Every 97th value is NaN or infinity on one rank.
template <class V> vectors<V> inputs(int ranks, std::size_t values, bool has_special) {
  vectors<V> all;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& x = all.emplace_back();
    for (float const value : uniform_values(values, 4, rank))
      x.push_back(static_cast<V>(1.5f + value / 2));
    for (std::size_t i = 0; has_special && i < values; i += 97)
      if (static_cast<int>(i / 97) % ranks == rank)
        x[i] = static_cast<V>(i % 2 == 0 ? std::numeric_limits<float>::infinity()
                                         : std::numeric_limits<float>::quiet_NaN());
  }
  return all;
}

template <class C>
auto reduced(vectors<typename C::value_type> const& x, plan_options const& options) {
  return on_ranks(x, [&](in_process& transport, auto& mine) {
    host_executor executor;
    plan(mine.size(), C{}, transport, executor, options).all_reduce(std::span(mine));
  });
}

/// The mean error of values in units of 2^-bits of the exact sum.
template <class Wire> double mean_error(std::string const& algorithm, int ranks, int bits) {
  auto const x = inputs<float>(ranks, 20000, false);
  auto const sums = reduced<float_cast<Wire>>(x, {.algorithm = algorithm::from(algorithm)});
  double error = 0;
  for (std::size_t i = 0; i < x[0].size(); ++i) {
    double exact = 0;
    for (auto const& one : x) exact += static_cast<double>(one[i]);
    error += std::abs(static_cast<double>(sums[0][i]) - exact) / std::ldexp(exact, -bits);
  }
  return error / static_cast<double>(x[0].size());
}

}  // namespace

TEST_CASE_TEMPLATE("direct and aggregator round a sum once, whatever the segments and checksums", C,
                   float_cast<bfloat16>, float_cast<float16>, identity<bfloat16>,
                   float_cast<float, double>) {
  using value_type = typename C::value_type;
  using wire_type = typename C::wire_type;
  using sum_type = accumulator_t<value_type>;
  for (int const ranks : up_to_8_ranks())
    for (std::string const name : {"direct", "aggregator"})
      for (bool const flag : {false, true}) {
        CAPTURE(ranks);
        CAPTURE(name);
        CAPTURE(flag);
        auto const p = static_cast<std::size_t>(ranks);
        auto const x = inputs<value_type>(ranks, 9000, flag);
        plan_options const options{.algorithm = algorithm::from(name),
                                   .nonfinite = nonfinite_policy::propagate,
                                   .checksum = flag,
                                   .segment_bytes = flag ? std::size_t{1} : std::size_t{1} << 20};
        auto const sums = reduced<C>(x, options);
        auto const blocks = layout_of(C{}, x[0].size(), options.algorithm.sharers(ranks));
        for (std::size_t i = 0; i < x[0].size(); ++i) {
          std::size_t owner = 0;
          while (name == "direct" && blocks.blocks() * (owner + 1) / p <= i / blocks.block_values)
            ++owner;
          sum_type sum = 0;  // in the order in which the owner receives
          for (std::size_t h = 0; h < p; ++h) {
            std::size_t const from = name == "direct" ? (owner + p - h) % p : h;
            sum += static_cast<sum_type>(static_cast<wire_type>(static_cast<sum_type>(x[from][i])));
          }
          auto const wanted = static_cast<sum_type>(static_cast<wire_type>(sum));
          for (auto const& one : sums) {
            auto const got = static_cast<sum_type>(one[i]);
            if (!(got == wanted || (std::isnan(got) && std::isnan(wanted)))) {
              CAPTURE(i);
              REQUIRE(got == wanted);
            }
          }
        }
      }
}

TEST_CASE("the mean error of bf16 and fp16 with direct does not grow with the ranks") {
  for (int const ranks : {2, 4, 16}) {
    std::printf("mean error on %2d ranks, of 2^-8 (bf16) and 2^-11 (fp16) of the sum:", ranks);
    for (std::string const name : {"direct", "aggregator", "recursive_doubling", "ring"}) {
      double const b = mean_error<bfloat16>(name, ranks, 8),
                   h = mean_error<float16>(name, ranks, 11);
      std::printf(" %s %.2f %.2f", name.c_str(), b, h);
      if (name == "direct" || name == "aggregator") {
        // sums near 1.5 * 2^k: rounding them has a mean error of 1/3, and their summands add to it
        CHECK(b < 0.5);
        CHECK(h < 0.5);
      }
    }
    std::printf("\n");
  }
}
