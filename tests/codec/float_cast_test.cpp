#include <doctest/doctest.h>

#include <cmath>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <vector>

using hcomp::bfloat16;
using hcomp::float16;
using hcomp::float_cast;

TEST_CASE_TEMPLATE("identity: one rank's values come back bit for bit", T, float, double, float16,
                   bfloat16) {
  hcomp::identity<T> const codec;
  auto x = data::uniform<T>(500, -8, 8, {.seed = 1});
  for (T const special : data::finite_specials<T>()) x.push_back(special);
  auto const block = laws::encode(codec, x, {});
  CHECK(laws::same_bytes(laws::decoded<T>(codec, block, static_cast<int>(x.size())), x));
}

TEST_CASE(
    "float_cast: fp16 that overflows in a value or in a sum becomes infinite and sets the flag") {
  float_cast<float16> const codec;
  auto const encoded = [&](std::vector<float> const& x, std::uint32_t rank,
                           std::uint32_t weight = 1) {
    return laws::encode(codec, x, {.rank = rank, .weight = weight});
  };
  CHECK(laws::header_of(encoded({1, 65504}, 0)).flags == 0);
  CHECK(laws::header_of(encoded({1, 65520}, 0)).flags == hcomp::block_has_nonfinite);
  CHECK(laws::header_of(encoded({1, 40000}, 0, 2)).flags == hcomp::block_has_nonfinite);

  auto const fits = laws::merged(codec, encoded({1, 32752}, 0), encoded({1, 32752}, 1));
  CHECK(laws::header_of(fits).flags == 0);
  CHECK(laws::decoded(codec, fits, 2) == std::vector{2.0, 65504.0});
  auto const sum = laws::merged(codec, encoded({1, 40000}, 0), encoded({1, 40000}, 1));
  CHECK(laws::header_of(sum).flags == hcomp::block_has_nonfinite);
  CHECK(laws::decoded(codec, sum, 2) == std::vector{2.0, static_cast<double>(INFINITY)});
  // The flag is sticky: a later summand cannot clear it.
  auto const later = laws::merged(codec, sum, encoded({1, -65504}, 2));
  CHECK(laws::header_of(later).flags == hcomp::block_has_nonfinite);
}

TEST_CASE(
    "float_cast: a value counts with its rank's weight, and the mean divides by the total weight") {
  hcomp::identity<float> const codec;
  auto const sum = laws::merged(codec, laws::encode(codec, {1, -2}, {.rank = 0, .weight = 3}),
                                laws::encode(codec, {5, 0.5}, {.rank = 1, .weight = 1}));
  CHECK(laws::decoded(codec, sum, 2) == std::vector{8.0, -5.5});
  CHECK(laws::decoded(codec, sum, 2, hcomp::reduce_op::mean) == std::vector{2.0, -1.375});
}

TEST_CASE("float_cast: bf16 keeps the range of float, fp16 its eleven digits") {
  std::vector<float> const x{3e38f, 1e-38f, 1 + 0x1p-10f, 1 + 0x1p-7f};
  auto const wide =
      laws::decoded(float_cast<bfloat16>{}, laws::encode(float_cast<bfloat16>{}, x, {}), 4);
  auto const fallback =
      laws::decoded(float_cast<float16>{}, laws::encode(float_cast<float16>{}, x, {}), 4);
  CHECK(std::fabs(wide[0] / 3e38 - 1) < 0x1p-8);
  CHECK(std::fabs(wide[1] / 1e-38 - 1) < 0x1p-8);
  CHECK(wide[2] == 1);
  CHECK(wide[3] == 1 + 0x1p-7);
  CHECK(std::isinf(fallback[0]));
  CHECK(fallback[1] == 0);
  CHECK(fallback[2] == 1 + 0x1p-10);
  CHECK(fallback[3] == 1 + 0x1p-7);
}

TEST_CASE("float_cast: doubles are added as doubles") {
  hcomp::identity<double> const codec;
  double const tiny = 0x1p-50;
  auto const sum = laws::merged(codec, laws::encode(codec, {1.0}, {.rank = 0}),
                                laws::encode(codec, {tiny}, {.rank = 1}));
  CHECK(laws::decoded<double>(codec, sum, 1)[0] == 1 + tiny);
}
