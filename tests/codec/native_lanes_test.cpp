#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/native_lanes.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>
#include <limits>
#include <string>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <support/worker_group.hpp>
#include <type_traits>
#include <vector>

using hcomp::block_fault;
using hcomp::block_origin;
using hcomp::native_lanes;
using hcomp::native_operation;

namespace {

/// Calls f.template operator()<C>() for every type and operation.
template <class F> void for_each_kind(F const& f) {
  f.template operator()<native_lanes<std::uint32_t>>();
  f.template operator()<native_lanes<std::uint64_t>>();
  f.template operator()<native_lanes<std::uint32_t, native_operation::bit_or>>();
  f.template operator()<native_lanes<std::uint64_t, native_operation::bit_or>>();
}

template <class C> std::vector<typename C::value_type> random_lanes(int n, std::uint64_t seed) {
  auto const words = data::words(static_cast<std::size_t>(n), {.seed = seed});
  return {words.begin(), words.end()};  // of 32 bits: the lower halves
}
template <class C>
typename C::value_type merged_lane(typename C::value_type a, typename C::value_type b) {
  return C::is_sum ? a + b : a | b;
}

}  // namespace

TEST_CASE(
    "native lanes: encoding and merging write only their bytes, at any address, in any group") {
  for_each_kind([]<class C>() {
    using T = typename C::value_type;
    C const codec;
    for (int const n : {0, 1, 2, 15, 16, 17, 63, 64, 65, C::block_values - 1, C::block_values}) {
      CAPTURE(std::string(C::name));
      CAPTURE(n);
      std::size_t const bytes = codec.block_bytes(n);
      REQUIRE(bytes == 32 + static_cast<std::size_t>(n) * sizeof(T));
      auto const a = random_lanes<C>(n, 1), b = random_lanes<C>(n, 2);
      auto const first = laws::encode(codec, a, {.key = 5, .rank = 0, .weight = 3});
      auto const second = laws::encode(codec, b, {.key = 5, .rank = 1});
      auto const sum = laws::merged(codec, first, second);
      std::vector<T> expected(a.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        expected[i] = merged_lane<C>(C::is_sum ? static_cast<T>(3 * a[i]) : a[i], b[i]);
      REQUIRE(laws::decoded<T>(codec, sum, n) == expected);
      auto const header = laws::header_of(sum);
      REQUIRE(header.weight == 4);
      REQUIRE(header.values == n);
      REQUIRE(header.flags == 0);
      for (std::size_t const shift : {0, 1, 4}) {
        laws::guarded acc(bytes, shift), in(bytes, 8 - shift), out(a.size() * sizeof(T));
        auto const all_of_it = [&](auto const& share) {
          share([&](auto group) {
            codec.encode_block(group, a.data(), n, acc.data(), {.key = 5, .rank = 0, .weight = 3});
            codec.encode_block(group, b.data(), n, in.data(), {.key = 5, .rank = 1});
          });
          REQUIRE(laws::same_bytes(acc.bytes(), first));
          share([&](auto group) { codec.merge_block(group, acc.data(), in.data()); });
          REQUIRE(acc.untouched_outside());
          REQUIRE(in.untouched_outside());
          REQUIRE(laws::same_bytes(acc.bytes(), sum));
          REQUIRE(laws::same_bytes(in.bytes(), second));
        };
        all_of_it([](auto const& f) { f(hcomp::serial_group{}); });
        all_of_it([](auto const& f) { f(hcomp::simd_group{}); });
        if (n < 100 && shift < 2) all_of_it([](auto const& f) { workers::run<3>(f); });
        codec.decode_block(hcomp::simd_group{}, acc.data(), n, reinterpret_cast<T*>(out.data()),
                           hcomp::reduce_op::sum);
        REQUIRE(out.untouched_outside());
        REQUIRE((n == 0 || std::memcmp(out.data(), expected.data(), n * sizeof(T)) == 0));
      }
    }
  });
}

TEST_CASE("native lanes: every merge tree gives the same bytes, also where sums wrap") {
  for_each_kind([]<class C>() {
    CAPTURE(std::string(C::name));
    C const codec;
    std::vector<laws::encoded_block> blocks;
    std::vector<typename C::value_type> total(100);
    for (std::uint32_t r = 0; r < 4; ++r) {
      auto const x = random_lanes<C>(100, 10 + r);
      blocks.push_back(laws::encode(codec, x, {.key = 1, .rank = r}));
      for (std::size_t i = 0; i < 100; ++i) total[i] = merged_lane<C>(total[i], x[i]);
    }
    laws::encoded_block first;
    int trees = 0;
    laws::for_each_tree(codec, blocks,
                        [&](laws::encoded_block const& whole, std::string const& tree) {
                          CAPTURE(tree);
                          if (trees++ == 0) first = whole;
                          REQUIRE(laws::same_bytes(whole, first));
                        });
    CHECK(trees == 15);
    CHECK(laws::decoded<typename C::value_type>(codec, first, 100) == total);
  });
}

TEST_CASE("native lanes: means are rounded down, and the mean of an OR is the OR") {
  using sum = native_lanes<std::uint32_t>;
  using bits = native_lanes<std::uint32_t, native_operation::bit_or>;
  std::vector<std::uint32_t> const a{0, 5, 7, 1}, b{0, 6, 1, 8};
  auto const mean_of = [&](auto const& codec) {
    auto const both = laws::merged(codec, laws::encode(codec, a, {.rank = 0}),
                                   laws::encode(codec, b, {.rank = 1, .weight = 2}));
    return laws::decoded<double>(codec, both, 4, hcomp::reduce_op::mean);
  };
  CHECK(mean_of(sum{}) == std::vector<double>{0, 5, 3, 5});
  CHECK(mean_of(bits{}) == std::vector<double>{0, 7, 7, 9});
}

TEST_CASE("native lanes: merging blocks that do not match marks the result") {
  for_each_kind([]<class C>() {
    CAPTURE(std::string(C::name));
    C const codec;
    auto const x = random_lanes<C>(10, 1);
    block_origin const mine{.key = 1, .rank = 0, .weight = 1, .index = 4};
    struct {
      block_origin other;
      int values;
      block_fault fault;
    } const cases[] = {
        {{.key = 2, .rank = 1, .index = 4}, 10, block_fault::key},
        {{.key = 1, .rank = 0, .index = 4}, 10, block_fault::ranks},
        {{.key = 1, .rank = 1, .index = 5}, 10, block_fault::place},
        {{.key = 1, .rank = 1, .index = 4}, 9, block_fault::length},
        {{.key = 1, .rank = 1, .weight = ~0u, .index = 4}, 10, block_fault::weight},
    };
    for (auto const& one : cases) {
      auto const before = laws::encode(codec, x, mine);
      auto const sum = laws::merged(codec, before,
                                    laws::encode(codec, random_lanes<C>(one.values, 2), one.other));
      CHECK(laws::header_of(sum).flags == hcomp::block_is_damaged);
      CHECK(laws::header_of(sum).fault == one.fault);
      CHECK(laws::decoded<typename C::value_type>(codec, sum, 10) == x);
    }
    using other_operation =
        native_lanes<typename C::value_type,
                     C::is_sum ? native_operation::bit_or : native_operation::sum>;
    auto const strange =
        laws::encode(other_operation{}, x, {.key = 1, .rank = 1, .weight = 1, .index = 4});
    CHECK(laws::header_of(laws::merged(codec, laws::encode(codec, x, mine), strange)).fault ==
          block_fault::codec);
  });
}

TEST_CASE("native lanes: a block has these golden bytes") {
  native_lanes<std::uint32_t> const codec;
  auto const block =
      laws::encode(codec, {1, 0x80000002u}, {.key = 7, .rank = 3, .weight = 2, .index = 9});
  std::vector<unsigned char> const expected{
      0x68, 0x43, static_cast<unsigned char>(hcomp::wire_version),
      5,    2,    0,
      0,    0,  //
      2,    0,    0,
      0,    3,    0,
      0,    0,  //
      9,    0,    0,
      0,    0,    0,
      0,    0,  //
      7,    0,    0,
      0,    0,    0,
      0,    0,  //
      2,    0,    0,
      0,    4,    0,
      0,    0};
  REQUIRE(block.size() == expected.size());
  CHECK(std::memcmp(block.data(), expected.data(), block.size()) == 0);
  CHECK(native_lanes<std::uint64_t>::codec_id == 6);
  CHECK(native_lanes<std::uint32_t, native_operation::bit_or>::codec_id == 7);
  CHECK(native_lanes<std::uint64_t, native_operation::bit_or>::codec_id == 8);
}

TEST_CASE("native lanes: floats are added by identity") {
  CHECK(std::is_same_v<hcomp::lane_sum<float>, hcomp::identity<float>>);
  CHECK(std::is_same_v<hcomp::lane_sum<std::uint64_t>, native_lanes<std::uint64_t>>);
}
