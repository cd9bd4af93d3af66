// optimise: -O1
/// @file
/// THC with a fixed number of bits per hop: the effect of a hop on a block.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/op/block_work.hpp>
#include <map>
#include <stdexcept>
#include <string>
#include <support/worker_group.hpp>
#include <vector>

using hcomp::block_header;
using hcomp::serial_group;
using hcomp::simd_group;
using hcomp::thc;
using hcomp::uniform_thc;

static_assert(hcomp::HopRounding<thc<>> && hcomp::HopRounding<uniform_thc<double>>);

namespace {

using byte_vector = std::vector<std::byte>;
constexpr int full = thc<>::block_values;

/// b = 4 and g = 15 with `hop_bits` bits per hop; every number of bits has room for 4,096 ranks.
thc<> codec_of(int hop_bits, std::uint32_t weight, int transform = 4096) {
  return thc<>({.granularity = 15, .transform = transform, .hop_bits = hop_bits}).fitted(weight);
}
int shift_of(thc<> const& codec, std::uint32_t weight) {
  double const variance = codec.hop_variance(weight);
  return variance == 0 ? 0 : static_cast<int>(std::lround(std::log2(12 * variance - 2) / 2));
}

std::size_t lanes_at(thc<> const& codec, int n) {
  return codec.block_bytes(n) - 2 * static_cast<std::size_t>(codec.coordinates(n));
}
int lane(thc<> const& codec, byte_vector const& block, int n, std::size_t i) {
  return hcomp::load<std::int16_t>(block.data() + lanes_at(codec, n), i);
}
/// A block with the lanes sum_of(i).
template <class F>
byte_vector block_of(thc<> const& codec, int n, block_header header, F const& sum_of) {
  REQUIRE(codec.lane_bytes() == 2);
  header.codec = thc<>::codec_id;
  header.values = static_cast<std::uint16_t>(n);
  byte_vector block(codec.block_bytes(n));
  hcomp::store(block.data(), 0, header);
  for (std::size_t i = 0; i < static_cast<std::size_t>(codec.coordinates(n)); ++i)
    hcomp::store(block.data() + lanes_at(codec, n), i, static_cast<std::int16_t>(sum_of(i)));
  return block;
}
/// Random sums of the weight. A few are below 0 or above the largest, as rounding can make them.
byte_vector any_block(thc<> const& codec, int n, block_header const& header) {
  int const largest = static_cast<int>(header.weight) * 15;
  return block_of(codec, n, header, [&](std::size_t i) {
    auto const drawn = static_cast<int>(hcomp::mix(i + 77) % static_cast<unsigned>(largest + 9));
    return i % 50 == 1 ? largest : i % 50 == 2 ? 0 : drawn - 4;
  });
}

template <class Group>
byte_vector narrowed(thc<> const& codec, byte_vector const& block, Group group) {
  byte_vector narrow(codec.narrow_bytes(hcomp::load<block_header>(block.data())));
  codec.narrow_block(group, block.data(), narrow.data());
  return narrow;
}
template <class Group>
byte_vector widened(thc<> const& codec, byte_vector const& narrow, int n, Group group) {
  byte_vector block(codec.block_bytes(n), std::byte{0xa5});
  codec.widen_block(group, narrow.data(), block.data());
  return block;
}
template <class Group> byte_vector rounded(thc<> const& codec, byte_vector block, Group group) {
  codec.round_block(group, block.data());
  return block;
}

/// Mean, variance and count of numbers.
struct moments {
  double sum = 0, squares = 0, count = 0;
  void add(double x) { sum += x, squares += x * x, ++count; }
  double mean() const { return sum / count; }
  double variance() const { return squares / count - mean() * mean(); }
};

}  // namespace

TEST_CASE("thc hops: a sum has at most hop_bits bits, and is rounded only where it needs more") {
  for (int const bits : {4, 5, 6, 8, 10, 12, 14}) {
    std::uint32_t const most = codec_of(bits, 100).max_summands();
    CAPTURE(bits);
    CHECK(most >= 1920);
    auto const codec = codec_of(bits, most);
    int before = 0;
    for (std::uint32_t weight = 1; weight <= most; ++weight) {
      auto const needed = std::bit_width(15 * weight);
      int const shift = shift_of(codec, weight);
      bool const fallback =
          weight == 1 ? codec.narrow_bits(1) == 4 && shift == 0
                      : codec.narrow_bits(weight) == std::min(bits, static_cast<int>(needed)) &&
                            (shift > 0) == (static_cast<int>(needed) > bits);
      REQUIRE(fallback);
      REQUIRE(shift >= before);
      REQUIRE(shift <= std::max(0, static_cast<int>(needed) - bits) + 1);
      before = shift;
    }
  }
}

TEST_CASE("thc hops: every draw has its documented index, and every lane its documented value") {
  for (auto const& one : {std::tuple{8, 256u, 5000},
                          {8, 64u, 300},
                          {6, 1000u, 5000},
                          {4, 1920u, 70},
                          {10, 2000u, 4096},
                          {12, 300u, 129},
                          {5, 1500u, 5000}}) {
    int const bits = std::get<0>(one), n = std::get<2>(one);
    std::uint32_t const weight = std::get<1>(one);
    CAPTURE(bits);
    CAPTURE(weight);
    CAPTURE(n);
    auto const codec = codec_of(bits, weight);
    block_header const header{
        .weight = weight, .lowest_rank = 3, .index = 11, .key = 0x123456789abcdef0};
    auto const block = any_block(codec, n, header);
    auto const after = rounded(codec, block, serial_group{});
    int const s = shift_of(codec, weight);
    REQUIRE(s > 0);
    int const spare = bits > 5 ? (1 << bits) / 32 - 1 : 0, margin = spare << s;
    int const largest = static_cast<int>(weight) * 15;
    auto const lanes = static_cast<std::size_t>(codec.coordinates(n)), row = lanes / 8;
    int wrong = 0;
    for (std::size_t i = 0; i < lanes; ++i) {
      std::size_t const r = 2 * i / row, word = 2 * i % row / 8, in_word = i % 4;
      unsigned const combination = static_cast<unsigned>((r + 1) ^ (r + 1) >> 1);
      std::uint32_t draw = 0;
      for (int k = 0; k < 5; ++k) {
        if (!(combination >> k & 1)) continue;
        int const in_lane = 16 / (s + 1), number = k / in_lane;
        auto const words = hcomp::philox4x32(
            {static_cast<std::uint32_t>(word << 2 | static_cast<unsigned>(number / 2)), 11, 3,
             weight << 2 | 3},
            header.key);
        auto const half = static_cast<std::size_t>(number % 2 * 2);
        std::uint64_t const both = std::uint64_t{words[half + 1]} << 32 | words[half];
        draw ^=
            static_cast<std::uint32_t>(both >> (16 * in_word) & 0xffff) >> (k % in_lane * (s + 1));
      }
      draw &= (2u << s) - 1;
      int const down = static_cast<int>(draw / 2), up = static_cast<int>((draw + 1) / 2);
      int const sum = std::clamp(lane(codec, block, n, i), -margin, largest + margin);
      int const q = (sum + margin + down) >> s;
      wrong += q < 0 || q >= 1 << bits;
      wrong += lane(codec, after, n, i) != (q << s) + (1 << (s - 1)) - up - margin;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("thc hops: every group gives the same bytes, and a second pass changes nothing") {
  for (int const bits : {4, 5, 6, 7, 8, 10, 11, 13})
    for (int const n : {1, 64, 65, 1000, 5000, full})
      for (std::uint32_t const weight : {1u, 2u, 17u, 18u, 40u, 256u, 600u, 1900u}) {
        if (n == full && bits % 3 != 0) continue;
        CAPTURE(bits);
        CAPTURE(n);
        CAPTURE(weight);
        auto const codec = codec_of(bits, std::max(weight, 300u));
        block_header const header{.weight = weight, .lowest_rank = 9, .index = 2, .key = 5};
        auto const block =
            weight == 1
                ? block_of(codec, n, header,
                           [](std::size_t i) { return static_cast<int>(hcomp::mix(i) % 16); })
                : any_block(codec, n, header);
        // exact sums are tested elsewhere
        if (shift_of(codec, weight) == 0 && weight > 1) continue;
        auto const narrow = narrowed(codec, block, serial_group{});
        auto const wide = widened(codec, narrow, n, serial_group{});
        auto const round = rounded(codec, block, serial_group{});
        auto const lanes = static_cast<std::size_t>(codec.coordinates(n));
        CHECK(narrow.size() ==
              lanes_at(codec, n) + lanes / 8 * static_cast<std::size_t>(codec.narrow_bits(weight)));
        CHECK(wide == round);
        CHECK((wide == block) == (weight == 1));
        CHECK(narrowed(codec, wide, serial_group{}) == narrow);
        CHECK(rounded(codec, round, serial_group{}) == round);

        CHECK(narrowed(codec, block, simd_group{}) == narrow);
        CHECK(widened(codec, narrow, n, simd_group{}) == wide);
        CHECK(rounded(codec, block, simd_group{}) == wide);
        if (n > 1000 || bits % 2 == 0) continue;
        auto const by_many = [&](auto const& share) {
          byte_vector a(narrow.size()), b(block.size()), c = block;
          share([&](auto group) { codec.narrow_block(group, block.data(), a.data()); });
          share([&](auto group) { codec.widen_block(group, narrow.data(), b.data()); });
          share([&](auto group) { codec.round_block(group, c.data()); });
          CHECK(a == narrow);
          CHECK(b == wide);
          CHECK(c == wide);
        };
        by_many([](auto const& f) { workers::run<3>(f); });
        if (n == 65)
          by_many([&](auto const& f) { workers::run_in_warps<32>(codec.scratch_bytes(), f); });
      }
}

TEST_CASE("thc hops: unbiased, with the documented variance, at the ends as in the middle") {
  for (auto const& one : {std::pair{8, 256u}, {8, 64u}, {6, 60u}, {12, 300u}}) {
    int const bits = one.first;
    std::uint32_t const weight = one.second;
    auto const codec = codec_of(bits, weight);
    int const largest = static_cast<int>(weight) * 15;
    double const variance = codec.hop_variance(weight);
    REQUIRE(variance > 0);
    for (int const sum : {0, 1, 7, largest / 2, largest - 1, largest}) {
      CAPTURE(bits);
      CAPTURE(weight);
      CAPTURE(sum);
      moments errors;
      for (std::uint64_t key = 0; key < 20; ++key) {
        auto const block = rounded(
            codec, block_of(codec, full, {.weight = weight, .key = key}, [&](auto) { return sum; }),
            simd_group{});
        for (std::size_t i = 0; i < full; ++i) errors.add(lane(codec, block, full, i) - sum);
      }
      CHECK(std::fabs(errors.mean()) <= 5 * std::sqrt(variance / errors.count));
      // kurtosis: 1.8 for a uniform number, 2 for one of three values with equal variance
      CHECK(std::fabs(errors.variance() / variance - 1) <= 5 * std::sqrt(1.0 / errors.count));
    }
  }
}

TEST_CASE("thc hops: sums of rounded sums are unbiased, also at the ends") {
  for (auto const& one : {std::pair{8, 128u}, {6, 60u}, {10, 500u}}) {
    int const bits = one.first;
    std::uint32_t const half = one.second;
    auto const codec = codec_of(bits, 2 * half);
    double const variance = 2 * codec.hop_variance(half) + codec.hop_variance(2 * half);
    REQUIRE(codec.hop_variance(half) > 0);
    for (int const sum : {0, static_cast<int>(half) * 15}) {
      CAPTURE(bits);
      CAPTURE(sum);
      moments errors;
      for (std::uint64_t key = 0; key < 20; ++key) {
        auto const of_half = [&](std::uint32_t lowest) {
          block_header const header{.weight = half, .lowest_rank = lowest, .key = key};
          return rounded(codec, block_of(codec, full, header, [&](auto) { return sum; }),
                         simd_group{});
        };
        auto both = of_half(0);
        codec.merge_block(simd_group{}, both.data(), of_half(half).data());
        both = rounded(codec, both, simd_group{});
        for (std::size_t i = 0; i < full; ++i) errors.add(lane(codec, both, full, i) - 2 * sum);
      }
      CHECK(std::fabs(errors.mean()) <= 5 * std::sqrt(variance / errors.count));
      CHECK(std::fabs(errors.variance() / variance - 1) <= 5 * std::sqrt(2 / errors.count));
    }
  }
}

TEST_CASE(
    "thc hops: errors of different coordinates, blocks, ranks, weights and keys are independent") {
  auto const codec = codec_of(8, 256);
  auto const errors_of = [&](block_header const& header) {
    int const sum = static_cast<int>(header.weight) * 7;
    auto const block =
        rounded(codec, block_of(codec, full, header, [&](auto) { return sum; }), simd_group{});
    std::vector<double> errors;
    for (std::size_t i = 0; i < full; ++i)
      errors.push_back((lane(codec, block, full, i) - sum) /
                       std::sqrt(codec.hop_variance(header.weight)));
    return errors;
  };
  auto const correlation = [](auto const& a, auto const& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum / static_cast<double>(a.size());
  };
  double const five = 5 / std::sqrt(full);
  auto const one = errors_of({.weight = 128, .lowest_rank = 0, .index = 1, .key = 9});
  CHECK(std::fabs(correlation(one, one) - 1) < five);
  for (block_header const& other :
       {block_header{.weight = 128, .lowest_rank = 128, .index = 1, .key = 9},
        {.weight = 128, .lowest_rank = 1, .index = 1, .key = 9},
        {.weight = 129, .lowest_rank = 0, .index = 1, .key = 9},
        {.weight = 256, .lowest_rank = 0, .index = 1, .key = 9},
        {.weight = 128, .lowest_rank = 0, .index = 2, .key = 9},
        {.weight = 128, .lowest_rank = 0, .index = 1, .key = 10}})
    CHECK(std::fabs(correlation(one, errors_of(other))) < five);

  // the 16 rows that share draws, two by two; they are adjacent by column and lane
  std::vector<std::vector<double>> rows(16);
  for (std::uint64_t key = 0; key < 40; ++key) {
    auto const errors = errors_of({.weight = 256, .key = key});
    for (std::size_t i = 0; i < full; ++i) rows[i / (full / 16)].push_back(errors[i]);
  }
  double largest = 0, beside = 0;
  for (std::size_t a = 0; a < 16; ++a) {
    for (std::size_t b = 0; b < a; ++b)
      largest = std::max(largest, std::fabs(correlation(rows[a], rows[b])));
    auto shifted = rows[a];
    std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
    beside = std::max(beside, std::fabs(correlation(rows[a], shifted)));
  }
  CHECK(largest < 5 / std::sqrt(rows[0].size()));
  CHECK(beside < 5 / std::sqrt(rows[0].size()));
}

TEST_CASE("thc hops: decoding accepts sums that rounding has moved beyond the ends") {
  auto const codec = codec_of(8, 256, 64);
  // only the first coordinate: 64 values of equal magnitude
  auto const value_of = [&](int sum) {
    auto const block = block_of(codec, 64, {.weight = 256, .key = 1},
                                [&](std::size_t i) { return i == 0 ? sum : 256 * 15 / 2; });
    auto with_norm = block;
    hcomp::store(with_norm.data() + hcomp::block_header_bytes, 0, 1.0f);
    std::vector<float> x(64);
    codec.decode_block(simd_group{}, with_norm.data(), 64, x.data(), hcomp::reduce_op::sum);
    std::vector<float> same(64);
    codec.decode_block(serial_group{}, with_norm.data(), 64, same.data(), hcomp::reduce_op::sum);
    CHECK(x == same);
    for (float const v : x) {
      REQUIRE(std::fabs(v) == std::fabs(x[0]));
      REQUIRE(std::fabs(v) <= codec.largest_decoded(with_norm.data(), 64, hcomp::reduce_op::sum));
    }
    CHECK(codec.stays_finite(simd_group{}, with_norm.data(), 64, hcomp::reduce_op::sum));
    return std::fabs(x[0]);
  };
  // 1920 steps from the middle to an end
  CHECK(value_of(-64) == doctest::Approx(value_of(0) * 1984 / 1920));
  CHECK(value_of(3840 + 64) == doctest::Approx(value_of(0) * 1984 / 1920));
  CHECK(value_of(3840) == value_of(0));
}

TEST_CASE(
    "thc hops: rounding updates the checksum of a sealed block, and a damaged one is marked") {
  auto const codec = codec_of(8, 256);
  auto const block = any_block(codec, 500, {.weight = 256, .key = 5});
  auto sealed = block;
  hcomp::detail::seal(serial_group{}, sealed.data(), sealed.size());
  auto broken = sealed;
  broken.back() ^= std::byte{1};
  auto const round = [&](byte_vector b) {
    hcomp::round_blocks<thc<>>{codec, b.data(), b.size()}(simd_group{}, 0);
    return b;
  };
  auto const is_intact = [](byte_vector const& b) {
    return hcomp::detail::is_intact(serial_group{}, b.data(), b.size());
  };
  auto const header = [](byte_vector const& b) { return hcomp::load<block_header>(b.data()); };
  CHECK(round(block) == rounded(codec, block, serial_group{}));
  CHECK(is_intact(round(sealed)));
  CHECK((header(round(sealed)).flags & hcomp::block_is_damaged) == 0);
  CHECK(std::equal(sealed.begin() + 32, sealed.end(), block.begin() + 32));
  CHECK(round(round(sealed)) == round(sealed));
  CHECK((header(round(broken)).flags & hcomp::block_is_damaged) != 0);
  CHECK(header(round(broken)).fault == hcomp::block_fault::checksum);
  auto const travelled =
      widened(codec, narrowed(codec, round(sealed), simd_group{}), 500, simd_group{});
  CHECK(travelled == round(sealed));
}

TEST_CASE("thc hops: impossible settings are refused, and the rest is fitted to the ranks") {
  auto const text = [](hcomp::thc_options const& options, std::uint32_t weight = 1) {
    try {
      thc<>(options).fitted(weight);
      return std::string();
    } catch (std::invalid_argument const& error) {
      return std::string(error.what());
    }
  };
  CHECK(text({.bits = 2, .hop_bits = 3}) ==
        "thc: sums in 3 bits asked for; with 2 bits of one rank 4 to 14 are possible, and 0: as "
        "many as they need");
  CHECK(text({.bits = 6, .hop_bits = 5}).starts_with("thc: sums in 5 bits asked for; with 6 bits"));
  CHECK(text({.hop_bits = 15}).starts_with("thc: sums in 15 bits asked for"));
  CHECK(text({.hop_bits = -4}).starts_with("thc: sums in -4 bits asked for"));
  CHECK(text({.bits = 8, .hop_bits = 8}).empty());
  // 241 steps of 2^7 have room for 2056 times 15
  CHECK(codec_of(8, 2056).max_summands() == 2056);
  CHECK(text({.hop_bits = 8}, 2057) ==
        "thc: 4 bits of granularity 15 leave room for a total weight of 2056 in lanes of 16 bits, "
        "2057 was asked for");

  CHECK(thc<>({.hop_bits = 8}).fitted(17).lane_bytes() == 1);
  CHECK(thc<>({.hop_bits = 8}).fitted(18).lane_bytes() == 2);
  CHECK(thc<>({.hop_bits = 6}).fitted(4).lane_bytes() == 1);
  CHECK(thc<>({.hop_bits = 6}).fitted(5).lane_bytes() == 2);  // 75 has 7 bits
  // a finer grid would double the steps of the hops
  CHECK(thc<>().fitted(256).granularity() == 17);
  CHECK(thc<>({.hop_bits = 8}).fitted(256).granularity() == 15);
  CHECK(thc<>({.hop_bits = 8}).fitted(100).fitted(256).granularity() == 15);
  // other settings give other parameters; without hop_bits they are unchanged
  CHECK(thc<>().parameters()[3] == 4096 * 8 + 1);
  CHECK(thc<>({.hop_bits = 8}).parameters() != thc<>({.hop_bits = 9}).parameters());
  CHECK(thc<>({.hop_bits = 8}).parameters() != thc<>().parameters());
}

TEST_CASE("thc hops: golden bytes") {
  // Changes with the wire format only: raise wire_version with it.
  auto const golden = [](int bits, std::uint32_t weight) {
    auto const codec = codec_of(bits, weight);
    block_header const header{.weight = weight, .lowest_rank = 5, .index = 11, .key = 99};
    auto const narrow = narrowed(codec, any_block(codec, 5000, header), serial_group{});
    return hcomp::fingerprint(serial_group{}, narrow.data(), narrow.size());
  };
  CHECK(golden(8, 256) == 11448462236535987601u);
  CHECK(golden(6, 1000) == 12081125161959695408u);
  CHECK(golden(11, 1900) == 12729629077343601676u);
}
