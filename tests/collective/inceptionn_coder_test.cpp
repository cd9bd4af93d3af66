// optimise: -O1
/// @file
/// INCEPTIONN's codes by executors: the host's bytes, values and complaints.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/collective/variable_rate_coder.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <support/few_cases.hpp>
#include <support/guarded_executor.hpp>
#include <support/inceptionn.hpp>
#include <support/worker_executor.hpp>
#include <support/worker_group.hpp>
#include <vector>

using hcomp::variable_rate_coder;
using hcomp::testing::few_cases;
using hcomp::testing::guarded_executor;
using inceptionn::begins_with;
using inceptionn::bytes;
using inceptionn::encoded;
using inceptionn::floats;
using inceptionn::same;
using workers::array;

namespace {

/// Several workers for every block, as on a device.
struct lanes_executor {
  static constexpr hcomp::memory_space space = hcomp::memory_space::host;
  using buffer = hcomp::host_buffer;

  template <class F> void for_each_block(std::size_t blocks, F const& f) {
    workers::run<5>([&](auto group) {
      for (std::size_t i = 0; i < blocks; ++i) {
        f(group, i);
        group.sync();
      }
    });
  }
  void synchronize() {}
};

/// All that an executor does with one vector, against the host.
template <class E>
void check_vector(E& executor, hcomp::inceptionn const& codec, floats const& x,
                  std::size_t most_bytes = std::size_t{256} << 20) {
  std::size_t const n = x.size();
  auto const other = encoded(codec, inceptionn::normal(n, 0.05, {.seed = 5}));
  variable_rate_coder<hcomp::inceptionn, E> coder(n, executor, most_bytes);
  array<float, E> const there(executor, x, n % 3), y(executor, floats(n, 7.0f), n % 2);
  array<std::byte, E> const code(executor, bytes(codec.capacity(n), std::byte{0xee}));
  auto const expected = encoded(codec, x);

  for (int turn = 0; turn < 2; ++turn) {  // the second finds what the first has left
    coder.encode(codec, there.span(), code.span());
    REQUIRE(coder.bytes(codec) == expected.size());
    CHECK(begins_with(code.host(), expected));
  }
  auto const in = code.span().first(expected.size());
  CHECK_NOTHROW(coder.check(codec, in, n));
  floats decoded(n);
  codec.decode(expected, decoded);
  coder.decode(codec, in, y.span());
  CHECK(same(y.host(), decoded));
  codec.decode_add(other, decoded);
  array<std::byte, E> const added(executor, other);
  coder.decode_add(codec, added.span(), y.span(), y.span());
  CHECK(same(y.host(), decoded));

  decoded = x;
  codec.decode_add(other, decoded);
  coder.decode_add(codec, added.span(), there.span(), y.span());
  CHECK(same(y.host(), decoded));

  bytes sum(codec.capacity(n));
  sum.resize(codec.decode_add_encode(other, x, sum));
  coder.decode_add_encode(codec, added.span(), there.span(), code.span());
  REQUIRE(coder.bytes(codec) == sum.size());
  CHECK(begins_with(code.host(), sum));
  coder.decode(codec, code.span(), y.span(), 3);  // the whole room: what follows does not matter
  codec.decode(sum, decoded);
  for (float& value : decoded) value /= 3;
  CHECK(same(y.host(), decoded));

  CHECK(coder.measure(there.span()) == hcomp::inceptionn::measure(x));
  std::vector<std::uint32_t> nonfinite((n + 1023) / 1024);
  for (std::size_t i = 0; i < n; ++i)
    if (!hcomp::is_finite(decoded[i])) nonfinite[i / 1024] |= 1u << i % 1024 / 64;
  CHECK(std::ranges::equal(coder.find_nonfinite(codec, code.span(), n), nonfinite));
}

template <class E> std::string complaint(E& executor, bytes const& in, std::size_t values) {
  variable_rate_coder<hcomp::inceptionn, E> coder(values, executor);
  array<std::byte, E> const there(executor, in);
  try {
    coder.check(hcomp::inceptionn(), there.span(), values);
  } catch (hcomp::wire_error const& error) {
    return error.what();
  }
  return "";
}
std::string complaint(bytes const& in, std::size_t values) {
  try {
    hcomp::inceptionn().check(in, values);
  } catch (hcomp::wire_error const& error) {
    return error.what();
  }
  return "";
}

/// The same complaints as on the host about codes that are damaged in many ways; and reading
/// nothing behind them, as far as sanitizers see.
template <class E> void check_damage(E& executor) {
  for (std::size_t const n : {std::size_t{0}, std::size_t{6}, std::size_t{2500}}) {
    CAPTURE(n);
    auto const whole = encoded(hcomp::inceptionn(), inceptionn::mixed(n, {.seed = 3}));
    int complaints = 0;
    auto const compare = [&](bytes const& in, std::size_t values) {
      auto const expected = complaint(in, values);
      complaints += !expected.empty();
      CHECK(complaint(executor, in, values) == expected);
    };
    compare(whole, n);
    CHECK(complaints == 0);
    compare(whole, n + 1);
    for (std::size_t byte = 0; byte < whole.size(); byte += byte < 60 ? 1 : 97)
      for (int const bit : {0, 3, 7}) {
        CAPTURE(byte);
        CAPTURE(bit);
        auto damaged = whole;
        damaged[byte] ^= static_cast<std::byte>(1 << bit);
        compare(damaged, n);
      }
    for (std::size_t left = 0; left < whole.size(); left += left < 60 ? 1 : 997)
      compare({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(left)}, n);
    CHECK(complaints > 100);
  }
}

}  // namespace

TEST_CASE(
    "variable_rate_coder of inceptionn: the host's bytes and values; the host touches no memory") {
  for (auto const& options : inceptionn::all_settings({10}))
    for (std::size_t const n : {0, 1, 4, 1023, 1024, 1025, 5000}) {
      CAPTURE(hcomp::detail::inceptionn::text_of(options));
      CAPTURE(n);
      guarded_executor executor;
      check_vector(executor, hcomp::inceptionn(options), inceptionn::mixed(n, {.seed = n}));
    }
  for (double const sigma : {1e-3, 1e-2, 1e5})  // the last is stored as floats
    for (int const prescale : {-5, 0}) {
      CAPTURE(sigma);
      guarded_executor executor;
      check_vector(executor, hcomp::inceptionn({.prescale = prescale}),
                   inceptionn::normal(20'000, sigma, {.seed = 1}));
    }
}

TEST_CASE("variable_rate_coder of inceptionn: more chunks than are added up at once") {
  // 256 chunks for one sum: 2 sums exactly, and 3 of which the last is short
  for (std::size_t const n : {512 * 1024, 700 * 1024 + 5}) {
    auto const x = inceptionn::normal(n, 0.02, {.seed = 2});
    guarded_executor executor;
    check_vector(executor, hcomp::inceptionn(), x);
    for (std::size_t const mebibytes :
         few_cases ? std::vector{2} : std::vector{0, 2, 3})  // in parts
      check_vector(executor, hcomp::inceptionn(), x, mebibytes << 20);
  }
  // and more than blocks that measure
  guarded_executor executor;
  variable_rate_coder<hcomp::inceptionn, guarded_executor> coder(0, executor);
  for (std::size_t const place : {0, 1023 * 1024, 1024 * 1024, 1'500'000 - 1}) {
    floats x(1'500'000, 1e-3f);
    x[place] = -7;
    CHECK(coder.measure(array(executor, x).span()) == hcomp::inceptionn::measure(x));
  }
}

TEST_CASE("variable_rate_coder of inceptionn: by several workers, and by threads") {
  lanes_executor many;
  workers::sharing_executor<8> sharing;
  hcomp::reference_executor threads(3);
  hcomp::host_executor one, three(3);
  for (std::size_t const n : {1, 1025, 5000}) {
    CAPTURE(n);
    auto const x = inceptionn::mixed(n, {.seed = n});
    check_vector(many, hcomp::inceptionn(), x);
    check_vector(sharing, hcomp::inceptionn(), x);
    check_vector(threads, hcomp::inceptionn(), x);
    check_vector(one, hcomp::inceptionn(), x);
    check_vector(three, hcomp::inceptionn(), x);
  }
  auto const longer = inceptionn::normal(300'000, 0.02, {.seed = 2});
  check_vector(sharing, hcomp::inceptionn(), longer);
  check_vector(threads, hcomp::inceptionn(), longer);
  // runs of 16 chunks, of which the last is short or one chunk alone; and codes as long as can be
  for (std::size_t const n : {16 * 1024, 16 * 1024 + 1, 50 * 1024 + 7})
    for (double const sigma : {0.02, 1e5}) {
      CAPTURE(n);
      auto const x = inceptionn::normal(n, sigma, {.seed = n});
      check_vector(threads, hcomp::inceptionn(), x);
      check_vector(one, hcomp::inceptionn(), x);
      check_vector(three, hcomp::inceptionn(), x);
    }
}

TEST_CASE("variable_rate_coder of inceptionn: damage is told as on the host") {
  hcomp::reference_executor host;
  check_damage(host);
  hcomp::host_executor threads(2);
  check_damage(threads);
  guarded_executor device;
  check_damage(device);
}

TEST_CASE("variable_rate_coder of inceptionn: what there is no room for is refused") {
  guarded_executor executor;
  hcomp::inceptionn const codec;
  variable_rate_coder<hcomp::inceptionn, guarded_executor> coder(100, executor);
  array<float, guarded_executor> const x(executor, floats(101));
  array<std::byte, guarded_executor> const code(executor, bytes(1000));
  CHECK_THROWS_WITH_AS(coder.encode(codec, x.span(), code.span()),
                       "variable_rate_coder::encode: 101 values, made for 100",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      coder.encode(codec, x.span().first(100), code.span().first(435)),
      "variable_rate_coder::encode: 435 bytes for 100 values; it takes 436, for at most 1024000000",
      std::invalid_argument);
  CHECK_THROWS_AS(coder.encode(codec, x.span().first(10), code.span().subspan(2)),
                  std::invalid_argument);
  CHECK_THROWS_AS(coder.decode(codec, code.span().subspan(1), x.span()), std::invalid_argument);
  CHECK_THROWS_AS(coder.check(codec, code.span(), 101), std::invalid_argument);
}
