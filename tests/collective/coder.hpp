#pragma once
/// @file
/// What variable_rate_coder must do with any codec and executor: the bytes, values and complaints of
/// the codec itself on the host.

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <support/encoded_vectors.hpp>
#include <support/guarded_executor.hpp>
#include <support/worker_executor.hpp>
#include <support/worker_group.hpp>
#include <vector>

namespace hcomp::testing {

template <class C> using values_of = std::vector<typename C::value_type>;

/// Several workers for every block, as on a device.
struct workers_executor {
  static constexpr memory_space space = memory_space::host;
  using buffer = host_buffer;

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

inline bool begins(encoded_bytes const& code, encoded_bytes const& expected) {
  return code.size() >= expected.size() &&
         std::equal(expected.begin(), expected.end(), code.begin());
}
/// The text of a wire_error, or none.
template <class F> std::string complaint_of(F const& f) {
  try {
    f();
  } catch (wire_error const& error) {
    return error.what();
  }
  return "";
}

/// All that a coder does with the vectors of two ranks.
template <class E, VariableRate C>
void check_coder(E& executor, C const& codec, values_of<C> const& x, values_of<C> const& second) {
  using vector = values_of<C>;
  using T = typename C::value_type;
  std::size_t const n = x.size();
  auto const expected = encoded(codec, x), other = encoded(codec, second);
  variable_rate_coder<C, E> coder(n, executor);
  workers::array<T, E> const on_device(executor, x, n % 3), y(executor, vector(n, T{7}), n % 2);
  workers::array<std::byte, E> const code(executor, encoded_bytes(C::capacity(n), std::byte{0xee}));

  for (int turn = 0; turn < 2; ++turn) {  // the second finds what the first has left
    coder.encode(codec, on_device.span(), code.span());
    REQUIRE(coder.bytes(codec) == expected.size());
    REQUIRE(begins(code.host(), expected));
  }
  auto const in = code.span().first(expected.size());
  CHECK_NOTHROW(coder.check(codec, in, n));
  vector decoded(n);
  codec.decode(expected, decoded);
  coder.decode(codec, in, y.span());
  CHECK(same_values(y.host(), decoded));

  workers::array<std::byte, E> const added(executor, other);
  codec.decode_add(other, decoded);
  coder.decode_add(codec, added.span(), y.span(), y.span());
  CHECK(same_values(y.host(), decoded));
  decoded = x;
  codec.decode_add(other, decoded);
  coder.decode_add(codec, added.span(), on_device.span(), y.span());
  CHECK(same_values(y.host(), decoded));

  encoded_bytes sum(C::capacity(n));
  sum.resize(codec.decode_add_encode(other, x, sum));
  coder.decode_add_encode(codec, added.span(), on_device.span(), code.span());
  REQUIRE(coder.bytes(codec) == sum.size());
  CHECK(begins(code.host(), sum));
  if constexpr (MergingVariableRate<C>) {  // of two ranks and of one, so that headers are added
    workers::array<std::byte, E> const two(executor, sum);
    encoded_bytes three(C::capacity(n));
    three.resize(codec.merge(sum, other, three));
    coder.merge(codec, two.span(), added.span(), n, code.span());
    REQUIRE(coder.bytes(codec) == three.size());
    CHECK(begins(code.host(), three));
    sum = three;
  }
  CHECK_NOTHROW(coder.check(codec, code.span(), n));

  int const parts = std::floating_point<T> ? 3 : 0;
  coder.decode(codec, code.span(), y.span(),
               parts);  // the whole room: what follows does not matter
  codec.decode(sum, decoded);
  if (parts > 0)
    for (T& value : decoded) value /= static_cast<T>(parts);
  CHECK(same_values(y.host(), decoded));

  if constexpr (FittedVariableRate<C>) CHECK(coder.measure(on_device.span()) == C::measure(x));
  constexpr std::size_t chunk = C::chunk_values;
  std::vector<std::uint64_t> nonfinite((n + chunk - 1) / chunk);
  for (std::size_t i = 0; i < n; ++i)
    if (!is_finite(decoded[i])) nonfinite[i / chunk] |= std::uint64_t{1} << i % chunk / 64;
  CHECK(std::ranges::equal(coder.find_nonfinite(codec, code.span(), n), nonfinite));
}

/// The same by any executor, of vectors of all sizes about blocks of 64 and chunks of 1024.
/// @param make  make(n, seed) has n values
template <VariableRate C, class Make> void check_coders(C const& codec, Make const& make) {
  workers::sharing_executor<5> five;
  workers::sharing_executor<32> warp;
  workers::sharing_executor<128> block;
  host_executor one, three(3);
  for (std::size_t const n : {0, 1, 63, 65, 1024, 1025, 5000}) {
    CAPTURE(n);
    auto const check = [&](auto& executor) {
      check_coder(executor, codec, make(n, 1), make(n, 2));
    };
    guarded_executor device;  // whose memory the host does not touch
    check(device);
    check(one);
    check(three);
    check(five);
    check(warp);
    if (n == 1 || n == 1025) check(block);
  }
}

/// The same complaints as on the host about codes of x that are damaged in many ways; and nothing is
/// read behind them, as far as sanitizers see.
template <class E, VariableRate C>
void check_damage(E& executor, C const& codec, values_of<C> const& x) {
  std::size_t const n = x.size();
  CAPTURE(n);
  auto const whole = encoded(codec, x);
  int complaints = 0;
  auto const compare = [&](encoded_bytes const& in, std::size_t values) {
    auto const expected = complaint_of([&] { codec.check(in, values); });
    complaints += !expected.empty();
    variable_rate_coder<C, E> coder(values, executor);
    workers::array<std::byte, E> const on_device(executor, in);
    CHECK(complaint_of([&] { coder.check(codec, on_device.span(), values); }) == expected);
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
/// By threads, and on what is like a device.
template <VariableRate C> void check_damage(C const& codec, values_of<C> const& x) {
  reference_executor host;
  check_damage(host, codec, x);
  host_executor threads(2);
  check_damage(threads, codec, x);
  guarded_executor device;
  check_damage(device, codec, x);
}

/// What there is no room for, and what is not aligned, is refused.
template <VariableRate C> void check_refusals(C const& codec) {
  guarded_executor executor;
  variable_rate_coder<C, guarded_executor> coder(100, executor);
  workers::array<typename C::value_type, guarded_executor> const x(executor, values_of<C>(101));
  workers::array<std::byte, guarded_executor> const code(executor, encoded_bytes(1000));
  CHECK_THROWS_WITH_AS(coder.encode(codec, x.span(), code.span()),
                       "variable_rate_coder::encode: 101 values, made for 100",
                       std::invalid_argument);
  std::size_t const expected_bytes = C::capacity(100);
  auto const text = "variable_rate_coder::encode: " + std::to_string(expected_bytes - 1) +
                    " bytes for 100 values; it takes " + std::to_string(expected_bytes) +
                    ", for at most 1024000000";
  CHECK_THROWS_WITH_AS(
      coder.encode(codec, x.span().first(100), code.span().first(expected_bytes - 1)), text.c_str(),
      std::invalid_argument);
  CHECK_THROWS_AS(coder.encode(codec, x.span().first(10), code.span().subspan(2)),
                  std::invalid_argument);
  CHECK_THROWS_AS(coder.decode(codec, code.span().subspan(1), x.span()), std::invalid_argument);
  CHECK_THROWS_AS(coder.check(codec, code.span(), 101), std::invalid_argument);
  CHECK_THROWS_AS(coder.find_nonfinite(codec, code.span(), 101), std::invalid_argument);
}

}  // namespace hcomp::testing
