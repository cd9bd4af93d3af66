/// @file
/// Guarantees of the codec `reproducible`: the bits of a result depend only on its summands, and
/// follow the definition in detail/bins.hpp.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/reproducible/reproducible.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/op/encode.hpp>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <support/exact_sum.hpp>
#include <support/laws.hpp>
#include <type_traits>
#include <utility>
#include <vector>

using hcomp::reproducible;
using hcomp::testing::exact_sum;
using laws::encoded_block;
namespace binned = hcomp::detail::binned;

namespace {

template <class T> using bits_of = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T> bits_of<T> bits(T value) { return hcomp::same_bits<bits_of<T>>(value); }

/// The summands of one value.
template <class T> using summands = std::vector<T>;

/// Summands of `columns` values: over powers of two in [low, high), and with `cancel` nearly the
/// opposites of those before.
template <class T>
std::vector<summands<T>> numbers(std::size_t columns, std::size_t count, int low, int high,
                                 bool cancel, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<summands<T>> all(columns, summands<T>(count));
  for (auto& column : all)
    for (std::size_t i = 0; i < count; ++i) {
      double const fraction = 1 + static_cast<double>(random() >> 11) * 0x1p-53;
      int const power = low + static_cast<int>(random() % static_cast<unsigned>(high - low));
      column[i] = static_cast<T>(std::ldexp(random() % 2 ? fraction : -fraction, power));
      if (cancel && i % 2 == 1)
        column[i] = random() % 2 ? -column[i - 1] : -std::nextafter(column[i - 1], T{1});
      if (random() % 16 == 0) column[i] = 0;
    }
  return all;
}

/// Width of bins, and the exponent of the unit of bin 0.
template <class T> constexpr int width = sizeof(T) == 4 ? 13 : 27;
template <class T> constexpr int lowest = sizeof(T) == 4 ? -151 : -1075;

/// The result by definition: all summands are rounded to the unit of the largest summand's lowest
/// bin, added without error, and rounded once.
template <class T> T by_definition(summands<T> const& x) {
  int place = 0;
  for (T const value : x)
    if (value != 0)
      place =
          std::max(place, (std::max(std::ilogb(value), std::numeric_limits<T>::min_exponent - 1) -
                           std::numeric_limits<T>::min_exponent + 1) /
                              width<T>);
  int const unit = lowest<T> + place * width<T>;
  exact_sum sum;
  for (T const value : x)
    sum.add(std::ldexp(std::round(std::ldexp(static_cast<double>(value), -unit)), unit));
  return sum.nearest<T>();
}

template <class T> double bound(summands<T> const& x, T sum) {
  double largest = 0;
  for (T const value : x) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  return data::half_unit<T>(sum) +
         static_cast<double>(x.size() - 1) * largest * (sizeof(T) == 4 ? 0x1p-26 : 0x1p-54);
}

/// Blocks of one summand per column, of ranks in the order given. SIMD encodes half of them.
template <class T>
std::vector<encoded_block> blocks_of(std::vector<summands<T>> const& columns,
                                     std::vector<std::size_t> const& order) {
  std::vector<encoded_block> blocks;
  for (std::size_t const i : order) {
    std::vector<T> x;
    for (auto const& column : columns) x.push_back(column[i]);
    auto const rank = static_cast<std::uint32_t>(blocks.size());
    blocks.push_back(rank % 2
                         ? laws::encode(reproducible<T>{}, x, {.rank = rank})
                         : laws::encode(reproducible<T>{}, x, {.rank = rank}, hcomp::simd_group{}));
  }
  return blocks;
}
/// Merges along a random tree.
template <class T>
encoded_block sum_of(std::vector<encoded_block> blocks, std::mt19937_64& random) {
  while (blocks.size() > 1) {
    std::swap(blocks[random() % blocks.size()], blocks.back());
    auto const last = std::move(blocks.back());
    blocks.pop_back();
    auto& acc = blocks[random() % blocks.size()];
    acc = random() % 2 ? laws::merged(reproducible<T>{}, acc, last)
                       : laws::merged(reproducible<T>{}, last, acc, hcomp::simd_group{});
  }
  return blocks.front();
}

template <class T> std::vector<T> sum(std::vector<summands<T>> const& columns, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> order(columns.front().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  auto const total = sum_of<T>(blocks_of(columns, order), random);
  return laws::decoded<T>(reproducible<T>{}, total, static_cast<int>(columns.size()));
}

/// Calls f(columns) for numbers of all kinds.
template <class T, class F> void for_all_kinds(F const& f) {
  constexpr int least = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits,
                most = std::numeric_limits<T>::max_exponent - 7;
  struct {
    int low, high;
    bool cancel;
  } const kinds[] = {
      {0, 1, false},      {-3, 3, true},   {-13, 14, false},           {-27, 28, true},
      {-100, 100, false}, {-60, 60, true}, {least, least + 30, false}, {least, most, false},
      {least, most, true}};
  std::uint64_t seed = 1;
  for (auto const& kind : kinds)
    for (std::size_t const count : {1, 2, 3, 5, 8, 16, 33, 64}) {
      CAPTURE(kind.low);
      CAPTURE(kind.high);
      CAPTURE(kind.cancel);
      CAPTURE(count);
      f(numbers<T>(50, count, kind.low, kind.high, kind.cancel, seed++));
    }
}

}  // namespace

TEST_CASE_TEMPLATE("reproducible: place_of equals a division for every exponent", T, float,
                   double) {
  constexpr std::uint32_t heights = sizeof(T) == 4 ? 254 : 2046;
  for (std::uint32_t height = 0; height < heights; ++height)
    REQUIRE(binned::place_of<T>(height) == height / width<T>);
  CHECK(binned::place_of<T>(heights - 1) == binned::format<T>::highest);
  // nothing of a finite number is below
  CHECK(binned::format<T>::nonfinite >= binned::format<T>::highest + 3);
}

TEST_CASE_TEMPLATE("reproducible: one number comes back unchanged, but -0 as 0", T, float, double) {
  reproducible<T> const codec;
  std::mt19937_64 random(3);
  std::vector<T> x = data::finite_specials<T>();
  for (bits_of<T> i = 0; i < 300; ++i) x.push_back(hcomp::same_bits<T>(i));  // denormals
  while (x.size() < 4000)
    if (T const any = hcomp::same_bits<T>(static_cast<bits_of<T>>(random())); std::isfinite(any))
      x.push_back(any);
  auto const back = laws::decoded<T>(codec, laws::encode(codec, x, {}), static_cast<int>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(bits(back[i]) == bits(x[i] + T{0}));
}

TEST_CASE_TEMPLATE("reproducible: all orders and trees give the bits of the definition", T, float,
                   double) {
  for_all_kinds<T>([](std::vector<summands<T>> const& columns) {
    for (std::uint64_t const seed : {1, 2, 3}) {
      auto const found = sum(columns, seed);
      for (std::size_t i = 0; i < columns.size(); ++i)
        REQUIRE(bits(found[i]) == bits(by_definition(columns[i])));
    }
  });
}

TEST_CASE_TEMPLATE("reproducible: results are within the bound of the exact sum", T, float,
                   double) {
  for_all_kinds<T>([](std::vector<summands<T>> const& columns) {
    auto const found = sum(columns, 4);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      exact_sum exact;
      for (T const value : columns[i]) exact.add(value);
      REQUIRE(exact.distance(found[i]) <= bound(columns[i], found[i]) * (1 + 0x1p-40));
    }
  });
}

TEST_CASE_TEMPLATE("reproducible: zeros of more ranks change no bit", T, float, double) {
  for_all_kinds<T>([](std::vector<summands<T>> const& columns) {
    auto with_zeros = columns;
    for (auto& column : with_zeros) {
      column.insert(column.begin(), 3, T{0});
      column.insert(column.end(), 2, -T{0});
    }
    REQUIRE(laws::same_bytes(sum(columns, 5), sum(with_zeros, 6)));
  });
}

TEST_CASE_TEMPLATE("reproducible: a weight w counts like w ranks", T, float, double) {
  reproducible<T> const codec;
  auto const columns = numbers<T>(50, 2, -30, 30, false, 9);
  auto tripled = columns;
  for (auto& column : tripled) column.insert(column.end(), 2, column[0]);
  std::vector<T> x, y;
  for (auto const& column : columns) x.push_back(column[0]), y.push_back(column[1]);
  auto const both = laws::merged(codec, laws::encode(codec, x, {.rank = 1, .weight = 3}),
                                 laws::encode(codec, y, {.rank = 2}));
  CHECK(laws::same_bytes(laws::decoded<T>(codec, both, 50), sum(tripled, 7)));
  auto const mean = laws::decoded<T>(codec, both, 50, hcomp::reduce_op::mean);
  for (std::size_t i = 0; i < 50; ++i) REQUIRE(mean[i] == sum(tripled, 8)[i] / 4);
}

TEST_CASE_TEMPLATE("reproducible: max_summands summands lose no bit of their sum", T, float,
                   double) {
  reproducible<T> const codec;
  std::uint32_t const most = codec.max_summands();
  CHECK(most == (sizeof(T) == 4 ? 32767 : 8191));
  std::mt19937_64 random(10);
  // the largest value of every power, so that all digits of the result reach their maximum
  constexpr int digits = std::numeric_limits<T>::digits;
  for (int power = -60; power < 60; ++power) {
    T const value = static_cast<T>(std::ldexp(std::ldexp(1.0, digits) - 1, power));
    exact_sum exact;
    for (std::uint32_t i = 0; i < most; ++i) exact.add(value);
    for (T const x : {value, -value}) {
      auto const rest = laws::encode(codec, std::vector<T>{x}, {.rank = 0, .weight = most - 1});
      auto const all =
          laws::merged(codec, rest, laws::encode(codec, std::vector<T>{x}, {.rank = 1}));
      REQUIRE(laws::header_of(all).flags == 0);
      T const expected = x > 0 ? exact.nearest<T>() : -exact.nearest<T>();
      REQUIRE(laws::decoded<T>(codec, all, 1)[0] == expected);
      REQUIRE(laws::decoded<T>(codec, all, 1, hcomp::reduce_op::sum, hcomp::simd_group{})[0] ==
              expected);
    }
  }
}

TEST_CASE_TEMPLATE("reproducible: only a final result that is too large overflows", T, float,
                   double) {
  reproducible<T> const codec;
  T const largest = std::numeric_limits<T>::max();
  constexpr T infinity = std::numeric_limits<T>::infinity();
  auto const of = [&](std::vector<T> const& x) { return sum<T>({x}, 1)[0]; };
  CHECK(of({largest, largest, -largest}) == largest);
  CHECK(of({largest, 1, -largest}) == 0);  // the largest summand decides which bits are kept
  CHECK(of({largest, largest}) == infinity);
  CHECK(of({-largest, -largest, largest / 2}) == -infinity);

  auto const small = laws::encode(codec, std::vector<T>{1}, {.rank = 0}),
             large = laws::encode(codec, std::vector<T>{largest}, {.rank = 1});
  auto const both = laws::merged(codec, small, large);
  CHECK(laws::same_bytes(both, laws::merged(codec, large, small)));
  for (encoded_block const& block : {both, large}) {
    CHECK(!(codec.largest_decoded(block.data(), 1, hcomp::reduce_op::sum) < largest));
    CHECK(codec.stays_finite(hcomp::serial_group{}, block.data(), 1, hcomp::reduce_op::sum));
  }
  CHECK(codec.largest_decoded(small.data(), 1, hcomp::reduce_op::sum) < std::sqrt(largest));

  std::vector<T> const x{1, largest, 1};
  auto two = hcomp::encode(codec, std::span<T const>(x), {.rank = 0});
  std::vector<T> out(3);
  hcomp::decode(codec, two, std::span<T>(out));
  CHECK(out == x);
  codec.merge_block(hcomp::simd_group{}, two.data(),
                    hcomp::encode(codec, std::span<T const>(x), {.rank = 1}).data());
  CHECK_THROWS_AS(hcomp::decode(codec, two, std::span<T>(out)), hcomp::nonfinite_error);
  hcomp::decode(codec, two, std::span<T>(out), {.nonfinite = hcomp::nonfinite_policy::propagate});
  CHECK(out == std::vector<T>{2, infinity, 2});
}

TEST_CASE_TEMPLATE(
    "reproducible: NaN and infinity propagate in every order, as when floats are added", T, float,
    double) {
  constexpr T infinity = std::numeric_limits<T>::infinity(),
              nan = std::numeric_limits<T>::quiet_NaN(), largest = std::numeric_limits<T>::max();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto const found = sum<T>({{infinity, 1, largest, infinity},
                               {1, -infinity, -largest, 2},
                               {infinity, 1, -infinity, 2},
                               {nan, 1, largest, 2},
                               {-infinity, nan, 1, 1},
                               {1, 2, 3, 4}},
                              seed);
    REQUIRE(found[0] == infinity);
    REQUIRE(found[1] == -infinity);
    for (std::size_t const i : {2, 3, 4}) REQUIRE(bits(found[i]) == bits(nan));
    REQUIRE(found[5] == 10);
  }
}

TEST_CASE_TEMPLATE("reproducible: every instruction set gives the same bytes", T, float, double) {
  using hcomp::simd_level;
  for_all_kinds<T>([](std::vector<summands<T>> const& columns) {
    std::vector<T> x, y;
    for (auto const& column : columns) x.push_back(column.front()), y.push_back(column.back());
    int const n = static_cast<int>(x.size());
    reproducible<T> const codec;
    auto const mine = laws::encode(codec, x, {.rank = 0}),
               others = laws::encode(codec, y, {.rank = 1}),
               both = laws::merged(codec, mine, others);
    auto const result = laws::decoded<T>(codec, both, n);
    std::size_t const at = both.size() - binned::tiles_bytes<T>(n);
    for (auto const level : {simd_level::baseline, simd_level::avx2, simd_level::avx512}) {
      if (level > hcomp::best_simd_level()) continue;
      CAPTURE(static_cast<int>(level));
      encoded_block block(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(at));
      block.resize(mine.size());
      hcomp::run_at(level, hcomp::detail::encode_bins<T, T const*>{x.data(), n, block.data() + at});
      REQUIRE(laws::same_bytes(block, mine));
      hcomp::run_at(level, hcomp::detail::merge_bins<T>{block.data() + at, others.data() + at, n});
      REQUIRE(std::equal(block.begin() + static_cast<std::ptrdiff_t>(at), block.end(),
                         both.begin() + static_cast<std::ptrdiff_t>(at)));
      std::vector<T> out(x.size());
      hcomp::run_at(level, hcomp::detail::decode_bins<T>{block.data() + at, n, 1, out.data()});
      REQUIRE(laws::same_bytes(out, result));
    }
  });
}

TEST_CASE_TEMPLATE("reproducible: every instruction set takes all bit patterns and any length", T,
                   float, double) {
  using hcomp::simd_level;
  reproducible<T> const codec;
  std::mt19937_64 random(12);
  // any bits; sometimes runs of ones and zeros, which carry through all bins
  auto const any = [&] {
    constexpr int mantissa_bits = std::numeric_limits<T>::digits - 1;
    auto bits = static_cast<bits_of<T>>(random());
    for (int run = 0; run < 2; ++run)
      if (random() % 2) {
        bits_of<T> const ones = (bits_of<T>{1} << random() % (mantissa_bits + 1)) - 1;
        bits = random() % 2 ? bits | ones : bits & ~ones;
      }
    T const value = hcomp::same_bits<T>(bits);
    return std::isfinite(value) ? value : T{1};
  };
  std::vector<int> lengths{codec.block_values - 1, codec.block_values};
  for (int n = 1; n <= 50; ++n) lengths.push_back(n);
  for (int const n : lengths) {
    CAPTURE(n);
    std::vector<T> x = data::finite_specials<T>();
    while (x.size() < static_cast<std::size_t>(n)) x.push_back(any());
    x.resize(static_cast<std::size_t>(n));
    std::shuffle(x.begin(), x.end(), random);
    auto const mine = laws::encode(codec, x, {.rank = 0});
    std::size_t const at = mine.size() - binned::tiles_bytes<T>(n);
    // results of the maximal number of summands, with different and with equal exponents
    std::uint32_t const many = codec.max_summands() / 2 - 1;
    encoded_block both = laws::encode(codec, x, {.rank = 1, .weight = many});
    for (std::uint32_t rank = 2; rank < 4; ++rank) {
      std::vector<T> y;
      for (T const value : x)
        y.push_back(random() % 2 ? any() : static_cast<T>(value / (random() % 2 ? -T{3} : T{5})));
      both =
          laws::merged(codec, both, laws::encode(codec, y, {.rank = rank, .weight = many / rank}));
    }
    for (auto const level : {simd_level::baseline, simd_level::avx2, simd_level::avx512}) {
      if (level > hcomp::best_simd_level()) continue;
      CAPTURE(static_cast<int>(level));
      // from a pointer, and from a span
      encoded_block block(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(at));
      block.resize(mine.size());
      std::uint32_t const place = hcomp::load<std::uint32_t>(mine.data() + 32);
      REQUIRE(hcomp::run_at(level, hcomp::detail::encode_bins<T, T const*>{
                                       x.data(), n, block.data() + at}) == place);
      REQUIRE(laws::same_bytes(block, mine));
      std::fill(block.begin() + static_cast<std::ptrdiff_t>(at), block.end(), std::byte{0xa5});
      REQUIRE(hcomp::run_at(level, hcomp::detail::encode_bins<T, std::span<T const>>{
                                       x, n, block.data() + at}) == place);
      REQUIRE(laws::same_bytes(block, mine));
      for (auto const kind : {hcomp::reduce_op::sum, hcomp::reduce_op::mean}) {
        T const divisor = kind == hcomp::reduce_op::sum ? T{1} : T(laws::header_of(both).weight);
        std::vector<T> out(x.size() + 1, T{-7});
        REQUIRE(hcomp::run_at(
            level, hcomp::detail::decode_bins<T>{both.data() + at, n, divisor, out.data()}));
        REQUIRE(out.back() == -7);
        out.pop_back();
        REQUIRE(laws::same_bytes(out, laws::decoded<T>(codec, both, n, kind)));
      }
      // a value that is not finite is detected at any index; the reference encodes such blocks
      for (T const special : data::nonfinite_specials<T>()) {
        auto y = x;
        y[random() % y.size()] = special;
        REQUIRE(hcomp::run_at(level, hcomp::detail::encode_bins<T, T const*>{y.data(), n,
                                                                             block.data() + at}) >
                binned::format<T>::highest);
        auto const found = laws::encode(codec, y, {.rank = 0});
        REQUIRE(laws::same_bytes(found, laws::encode(codec, y, {.rank = 0}, hcomp::simd_group{})));
        std::vector<T> out(x.size());
        REQUIRE(!hcomp::run_at(level,
                               hcomp::detail::decode_bins<T>{found.data() + at, n, 1, out.data()}));
      }
    }
  }
}

TEST_CASE("reproducible: words have the documented layout") {
  auto const word = [](encoded_block const& block, std::size_t w) {
    return hcomp::load<std::uint32_t>(block.data() + 64, w);
  };
  // -3 * 2^-149 has the lowest place: 12 units of the lowest bin, four times that in its word
  auto const tiny = laws::encode(reproducible<float>{}, {-0x3p-149f}, {});
  REQUIRE(tiny.size() == 64 + 3 * 64);
  CHECK(hcomp::load<std::uint32_t>(tiny.data() + 32) == 0);
  CHECK(word(tiny, 0) == 0);
  CHECK(word(tiny, 16) == 0);
  CHECK(word(tiny, 32) == static_cast<std::uint32_t>(-12 * 4));
  // 1 is 126 above denormals: place 9 = 1 + 2 * 4, and 2^151 units are 2^34 of bin 9
  auto const one = laws::encode(reproducible<float>{}, {1.0f}, {});
  CHECK(hcomp::load<std::uint32_t>(one.data() + 32) == 9);
  CHECK(word(one, 0) == (1 << 8 << 2 | 1));
  CHECK(word(one, 16) == 2);
  CHECK(word(one, 32) == 0);
  // -1 of double: place 37, and 2^1075 units are 2^76 of bin 37, 2^22 of bin 39
  auto const minus = laws::encode(reproducible<double>{}, {-1.0}, {});
  REQUIRE(minus.size() == 64 + 4 * 64);
  CHECK(word(minus, 0) == static_cast<std::uint32_t>(-(1 << 22)));
  CHECK(word(minus, 16) == 0);
  CHECK(word(minus, 32) == 0);
  CHECK(word(minus, 48) == (37u << 24 | 0xff));
}
