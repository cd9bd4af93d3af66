#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/op/encode.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <vector>

namespace {

using bytes = std::vector<std::byte>;

template <class C> std::vector<std::size_t> vector_sizes() {
  auto const block = static_cast<std::size_t>(C::block_values);
  return {0, 1, block - 1, block, block + 1, 2 * block + 63};
}

/// The statistics of one rank without other ranks.
template <class C>
std::vector<std::uint32_t> own_statistics(C const& codec,
                                          std::vector<typename C::value_type> const& x) {
  return hcomp::measure(codec, std::span<typename C::value_type const>(x));
}

/// The text of the exception E that `f` throws.
template <class E, class F> std::string text_of(F const& f) {
  try {
    f();
  } catch (E const& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("encode and decode: every codec's values come back within its bound, block by block") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    using T = typename C::value_type;
    auto const codec = laws::with_headroom<C>();
    for (std::size_t const n : vector_sizes<C>())
      for (bool const checksum : {false, true}) {
        CAPTURE(n);
        CAPTURE(checksum);
        auto const x = data::uniform<T>(n, -8, 8, {.seed = 1});
        hcomp::draw_key const key{.seed = 3, .step = 4};
        bytes const encoded = hcomp::encode(
            codec, std::span<T const>(x),
            {.key = key, .rank = 2, .checksum = checksum, .statistics = own_statistics(codec, x)});
        REQUIRE(encoded.size() == hcomp::block_count(codec, n) * codec.block_bytes());
        std::vector<T> result(n);
        REQUIRE(hcomp::decode(codec, std::span<std::byte const>(encoded), std::span<T>(result),
                              {.key = key, .weight = n == 0 ? 0u : 1u}) == (n == 0 ? 0 : 1));
        bool within = true;
        for (std::size_t i = 0; i < n; ++i) {
          double const ideal = laws::stated<C>::value(codec, static_cast<double>(x[i]));
          double bound =
              laws::stated<C>::rounding(ideal) * (1 + 0x1p-12) + data::half_unit<T>(ideal);
          if constexpr (laws::stated<C>::rotated) bound += 6 * laws::stated<C>::deviation(codec);
          within &= std::fabs(static_cast<double>(result[i]) - ideal) <= bound;
        }
        REQUIRE(within);
        for (std::size_t b = 0; b < hcomp::block_count(codec, n); ++b) {
          auto const header =
              hcomp::load<hcomp::block_header>(encoded.data() + b * codec.block_bytes());
          REQUIRE(header.index == b);
          REQUIRE(header.lowest_rank == 2);
          REQUIRE(header.weight == 1);
          REQUIRE(header.key == hcomp::philox_key(key));
          REQUIRE(((header.flags & hcomp::block_has_checksum) != 0) == checksum);
          REQUIRE((header.checksum != 0) == checksum);
        }
      }
  });
}

TEST_CASE("encode: writes only the encoded vector, pads with 0, at any address") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    using T = typename C::value_type;
    auto const codec = laws::with_headroom<C>();
    for (std::size_t const n : vector_sizes<C>()) {
      CAPTURE(n);
      auto const x = data::uniform<T>(n, -8, 8, {.seed = 2});
      auto const own = own_statistics(codec, x);
      bytes const expected = hcomp::encode(codec, std::span<T const>(x), {.statistics = own});
      for (std::size_t const shift : {0, 1, 5}) {
        laws::guarded encoded(hcomp::encoded_bytes(codec, n), shift);
        hcomp::encode(codec, std::span<T const>(x), std::span(encoded.data(), expected.size()),
                      {.statistics = own});
        REQUIRE(encoded.bytes() == expected);
        REQUIRE(encoded.untouched_outside());
        std::vector<T> decoded_at_once(n), decoded_apart(n);
        hcomp::decode(codec, std::span<std::byte const>(encoded.data(), expected.size()),
                      std::span<T>(decoded_at_once));
        hcomp::decode(codec, std::span<std::byte const>(expected), std::span<T>(decoded_apart));
        REQUIRE(laws::same_bytes(decoded_at_once, decoded_apart));
      }
      bool zero = true;
      for (std::size_t i = hcomp::layout_of(codec, n).bytes(); i < expected.size(); ++i)
        zero &= expected[i] == std::byte{0};
      REQUIRE(zero);
    }
  });
}

TEST_CASE("encode and decode: encoded vectors merge block by block, with and without checksums") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    using T = typename C::value_type;
    auto const codec = laws::with_headroom<C>();
    std::size_t const n = static_cast<std::size_t>(C::block_values) + 65;
    auto const x = data::signs<T>(n, {.seed = 3});
    bytes plain;
    for (bool const checksum : {false, true}) {
      bytes sum;
      auto const statistics = hcomp::measure(codec, std::span<T const>(x));
      for (int rank = 0; rank < 3; ++rank) {
        bytes encoded = hcomp::encode(
            codec, std::span<T const>(x),
            {.rank = rank, .weight = 2, .checksum = checksum, .statistics = statistics});
        if (rank == 0) {
          sum = encoded;
          continue;
        }
        hcomp::merge_blocks<C> const work{codec, sum.data(), encoded.data()};
        for (std::size_t b = 0; b < 2; ++b) work(hcomp::simd_group{}, b);
      }
      std::vector<T> mean(n);
      REQUIRE(hcomp::decode(codec, std::span<std::byte const>(sum), std::span<T>(mean),
                            {.op = hcomp::reduce_op::mean, .weight = 6}) == 6);
      if constexpr (laws::stated<C>::rotated)
        for (std::size_t i = 0; i < n; ++i)
          REQUIRE(std::fabs(static_cast<double>(mean[i]) - static_cast<double>(x[i])) <
                  6 * laws::stated<C>::deviation(codec) / 8);  // for values of size 1, not 8
      else
        REQUIRE(laws::same_bytes(mean, x));
      for (std::size_t b = 0; b < 2; ++b) {  // the blocks differ only in the checksum
        std::byte* const block = sum.data() + b * codec.block_bytes();
        auto header = hcomp::load<hcomp::block_header>(block);
        REQUIRE(((header.flags & hcomp::block_has_checksum) != 0) == checksum);
        header.flags = 0;
        header.checksum = 0;
        hcomp::store(block, 0, header);
      }
      if (!checksum) plain = sum;
      REQUIRE(sum == plain);
    }
  });
}

TEST_CASE("decode: with a checksum, any flipped bit is a wire_error and leaves x unchanged") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    using T = typename C::value_type;
    auto const codec = laws::with_headroom<C>();
    std::size_t const n = static_cast<std::size_t>(C::block_values) + 70;
    auto const x = data::signs<T>(n, {.seed = 4});
    bytes const encoded = hcomp::encode(codec, std::span<T const>(x),
                                        {.checksum = true, .statistics = own_statistics(codec, x)});
    std::size_t const second = codec.block_bytes();
    std::size_t const payload = codec.block_bytes(70) - hcomp::block_header_bytes;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < hcomp::block_header_bytes; ++i) places.push_back(second + i);
    for (std::size_t i = 0; i < 8; ++i)
      places.push_back(second + hcomp::block_header_bytes + i * (payload - 1) / 7);
    for (std::size_t i = 0; i < 4; ++i) places.push_back(i * second / 4);
    for (std::size_t const place : places)
      for (int bit = 0; bit < 8; ++bit) {
        CAPTURE(place);
        CAPTURE(bit);
        bytes bad = encoded;
        bad[place] ^= static_cast<std::byte>(1 << bit);
        std::vector<T> result(n, data::as<T>(42));
        auto const text = text_of<hcomp::wire_error>(
            [&] { hcomp::decode(codec, std::span<std::byte const>(bad), std::span<T>(result)); });
        REQUIRE(text.find("decode: codec '" + std::string(C::name) + "', block " +
                          (place < second ? "0" : "1")) == 0);
        bool alone = true;
        for (T const value : result) alone &= static_cast<double>(value) == 42;
        REQUIRE(alone);
      }
  });
}

TEST_CASE("decode: refuses another key, and a weight that differs from the total weight") {
  hcomp::sign<float> const codec;
  std::vector<float> const x(100, 1.0f);
  std::vector<float> result(100, 42.0f);
  hcomp::draw_key const key{.seed = 1, .step = 2, .tensor = 3};
  bytes const encoded = hcomp::encode(codec, std::span<float const>(x), {.key = key, .weight = 3});
  std::span<std::byte const> const view(encoded);
  for (hcomp::draw_key const& other : {hcomp::draw_key{.seed = 2, .step = 2, .tensor = 3},
                                       {.seed = 1, .step = 3, .tensor = 3},
                                       {.seed = 1, .step = 2, .tensor = 4}})
    CHECK_THROWS_WITH_AS(hcomp::decode(codec, view, std::span(result), {.key = other}),
                         "decode: codec 'sign', block 0 (values 0 to 99): blocks of different "
                         "seeds, steps or tensors met",
                         hcomp::wire_error);
  CHECK_THROWS_AS(hcomp::decode(codec, view, std::span(result), {.key = key, .weight = 4}),
                  hcomp::wire_error);
  CHECK(result == std::vector<float>(100, 42.0f));
  CHECK(hcomp::decode(codec, view, std::span(result), {.key = key, .weight = 3}) == 3);
  CHECK(hcomp::decode(codec, view, std::span(result), {.key = key}) == 3);
}

TEST_CASE("decode: the caller chooses the policy for NaN and infinity") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    using T = typename C::value_type;
    auto const codec = laws::with_headroom<C>();
    auto const block = static_cast<std::size_t>(C::block_values);
    std::size_t const n = 2 * block + 5;
    auto x = data::signs<T>(n, {.seed = 5});
    x[block + 2] = data::as<T>(std::nan(""));
    bytes const encoded =
        hcomp::encode(codec, std::span<T const>(x), {.statistics = own_statistics(codec, x)});
    auto const decode = [&](hcomp::nonfinite_policy policy) {
      std::vector<T> result(n, data::as<T>(42));
      std::string const text = text_of<hcomp::nonfinite_error>([&] {
        hcomp::decode(codec, std::span<std::byte const>(encoded), std::span<T>(result),
                      {.nonfinite = policy});
      });
      bool const strict = policy == hcomp::nonfinite_policy::throw_error;
      REQUIRE((text != "nothing was thrown") == strict);
      if (strict)
        REQUIRE(text ==
                "decode: NaN or infinity on some rank, or overflow, first in block 1 (values " +
                    std::to_string(block) + " to " + std::to_string(2 * block - 1) + ") of " +
                    std::to_string(n) + " values, 1 blocks concerned; x is unchanged");
      return result;
    };
    bool right = true;
    for (T const value : decode(hcomp::nonfinite_policy::throw_error))
      right &= static_cast<double>(value) == 42;
    auto const spread = decode(hcomp::nonfinite_policy::propagate);
    auto const ignored = decode(hcomp::nonfinite_policy::ignore);
    for (std::size_t i = 0; i < n; ++i) {
      bool const the_one = i == block + 2, its_block = i / block == 1;
      right &=
          std::isnan(static_cast<double>(spread[i])) == (C::passes_nonfinite ? the_one : its_block);
      right &= std::isnan(static_cast<double>(ignored[i])) == (C::passes_nonfinite && the_one);
    }
    REQUIRE(right);
  });
}

TEST_CASE("encode and decode: refuse wrong sizes and overlap, and name the required size") {
  hcomp::sign<float> const codec;
  std::vector<float> x(70);
  bytes encoded(codec.block_bytes() - 1), good(codec.block_bytes());
  std::span<float const> const values(x);
  std::string const text = "codec 'sign', a code of 4127 bytes, 4128 are needed for 70 values";
  CHECK(text_of<std::invalid_argument>([&] { hcomp::encode(codec, values, std::span(encoded)); }) ==
        "encode: " + text);
  CHECK(text_of<std::invalid_argument>([&] {
          hcomp::decode(codec, std::span<std::byte const>(encoded), std::span(x));
        }) == "decode: " + text);
  CHECK(text_of<std::invalid_argument>([&] {
          hcomp::encode(codec, values.first(0), std::span(good));
        }) == "encode: codec 'sign', a code of 4128 bytes, 0 are needed for 0 values");

  std::vector<float> both(2000);
  auto* const memory = reinterpret_cast<std::byte*>(both.data());
  std::string const overlap = "codec 'sign', the code of 4128 bytes overlaps the 70 values";
  for (std::size_t const at : {std::size_t{0}, std::size_t{500}, std::size_t{4128 / 4 - 1}}) {
    std::span<float> const inside(both.data() + at, 70);
    CHECK(text_of<std::invalid_argument>([&] {
            hcomp::encode(codec, std::span<float const>(inside), std::span(memory, 4128));
          }) == "encode: " + overlap);
    CHECK(text_of<std::invalid_argument>([&] {
            hcomp::decode(codec, std::span<std::byte const>(memory, 4128), inside);
          }) == "decode: " + overlap);
  }
  CHECK_NOTHROW(hcomp::encode(codec, std::span<float const>(both.data() + 4128 / 4, 70),
                              std::span(memory, 4128)));
}

TEST_CASE("encode: refuses weight 0, a negative rank, and a weight above the codec's capacity") {
  std::vector<float> const x(70);
  std::span<float const> const values(x);
  hcomp::sign<float> const codec;
  CHECK(text_of<std::invalid_argument>([&] { hcomp::encode(codec, values, {.weight = 0}); }) ==
        "encode: rank 0, weight 0; the rank must be at least 0, the weight at least 1");
  CHECK(text_of<std::invalid_argument>([&] { hcomp::encode(codec, values, {.rank = -1}); }) ==
        "encode: rank -1, weight 1; the rank must be at least 0, the weight at least 1");
  // 300 does not fit into the eight planes of a counter for 255.
  CHECK(text_of<std::invalid_argument>(
            [&] { hcomp::encode(hcomp::sign_count<float>{}, values, {.weight = 300}); }) ==
        "encode: codec 'sign_count' holds 255 summands, this rank alone has weight 300; fit it "
        "with the total weight");
  CHECK_NOTHROW(hcomp::encode(hcomp::sign_count<float>{}, values, {.weight = 255}));
}

TEST_CASE("encode and decode: an empty vector has an empty encoding") {
  hcomp::sign<float> const codec;
  CHECK(hcomp::encode(codec, std::span<float const>()).empty());
  CHECK(hcomp::decode(codec, std::span<std::byte const>(), std::span<float>()) == 0);
}

TEST_CASE(
    "encode: encoded vectors of Calibrated codecs can be merged if ranks agreed on their units") {
  std::vector<float> const small(100, 1.0f), large(100, 1000.0f);
  hcomp::thc<float> const codec;
  auto const encoded_by = [&](std::vector<float> const& x, int rank,
                              std::span<std::uint32_t const> statistics) {
    return hcomp::encode(codec, std::span<float const>(x),
                         {.rank = rank, .statistics = statistics});
  };
  auto const sum_of = [&](std::span<std::uint32_t const> statistics) {
    auto sum = encoded_by(small, 0, statistics);
    auto const other = encoded_by(large, 1, statistics);
    hcomp::merge_blocks<hcomp::thc<float>>{codec, sum.data(), other.data()}(hcomp::simd_group{}, 0);
    std::vector<float> mean(100);
    hcomp::decode(codec, std::span<std::byte const>(sum), std::span<float>(mean),
                  {.op = hcomp::reduce_op::mean});
    return mean;
  };
  auto agreed = hcomp::measure(codec, std::span<float const>(small));
  auto const other = hcomp::measure(codec, std::span<float const>(large));
  REQUIRE(agreed.size() == 1);
  for (std::size_t w = 0; w < agreed.size(); ++w) agreed[w] = std::max(agreed[w], other[w]);
  double energy = 0;
  for (float const value : sum_of(agreed)) energy += std::pow(value - 500.5, 2) / 100;
  CHECK(energy < 0.2 * 1000 * 1000);  // ten times the average error of two ranks with that unit

  CHECK(
      text_of<std::invalid_argument>([&] { sum_of({}); }) ==
      "encode: codec 'thc' encodes in units that all ranks agree on first; give encode the 1 words "
      "of mpi::measure(codec, x, comm) as .statistics, or those of measure(codec, x) if no other "
      "rank takes part");
  CHECK(hcomp::encode(codec, std::span<float const>()).empty());  // no blocks, no units
  std::vector<std::uint32_t> const two(2);
  CHECK(text_of<std::invalid_argument>([&] { encoded_by(small, 0, two); }) ==
        "encode: codec 'thc' has 1 words of statistics for 100 values, 2 were given");
  CHECK(hcomp::measure(hcomp::sign<float>{}, std::span<float const>(small)).empty());
}
