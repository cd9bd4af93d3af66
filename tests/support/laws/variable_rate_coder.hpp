#pragma once
/// @file
/// With every executor variable_rate_coder gives the bytes, values and errors that the codec gives
/// in the calling thread.
///
/// A law is a function of the codec: `laws::variable_rate_coder::damage<C>()`. Settings and vectors
/// are those of `stated<C>` in laws/variable_rate.hpp.

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <support/encoded_vectors.hpp>
#include <support/few_cases.hpp>
#include <support/guarded_executor.hpp>
#include <support/laws/variable_rate.hpp>
#include <support/worker_executor.hpp>
#include <vector>

namespace laws::variable_rate_coder {

using hcomp::testing::encoded;
using hcomp::testing::encoded_bytes;
using hcomp::testing::few_cases;
using hcomp::testing::guarded_executor;
using hcomp::testing::same_values;
using variable_rate::for_each_kind;
using variable_rate::for_each_setting;
using variable_rate::stated;
using variable_rate::vector_of;

inline bool begins(encoded_bytes const& bytes, encoded_bytes const& expected) {
  return bytes.size() >= expected.size() &&
         std::equal(expected.begin(), expected.end(), bytes.begin());
}
/// The text of the wire_error that f() throws, or none.
template <class F> std::string error_of(F const& f) {
  try {
    f();
  } catch (hcomp::wire_error const& error) {
    return error.what();
  }
  return "";
}

/// All functions of a coder, with the vectors of two ranks.
template <class E, hcomp::VariableRate C>
void agree(E& executor, C const& codec, vector_of<C> const& x, vector_of<C> const& second) {
  using T = typename C::value_type;
  std::size_t const n = x.size();
  CAPTURE(n);
  auto const expected = encoded(codec, x), other = encoded(codec, second);
  hcomp::variable_rate_coder<C, E> coder(n, executor);
  workers::array<T, E> const on_device(executor, x, n % 3),
      y(executor, vector_of<C>(n, T{7}), n % 2);
  workers::array<std::byte, E> const out(executor, encoded_bytes(C::capacity(n), std::byte{0xee}));

  for (int turn = 0; turn < 2; ++turn) {  // the second call begins with the state of the first
    coder.encode(codec, on_device.span(), out.span());
    REQUIRE(coder.bytes(codec) == expected.size());
    REQUIRE(begins(out.host(), expected));
  }
  auto const in = out.span().first(expected.size());
  CHECK_NOTHROW(coder.check(codec, in, n));
  vector_of<C> decoded(n);
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
  coder.decode_add_encode(codec, added.span(), on_device.span(), out.span());
  REQUIRE(coder.bytes(codec) == sum.size());
  CHECK(begins(out.host(), sum));
  if constexpr (hcomp::MergingVariableRate<C>) {  // of two ranks and one, so that headers add
    workers::array<std::byte, E> const two(executor, sum);
    encoded_bytes three(C::capacity(n));
    three.resize(codec.merge(sum, other, three));
    coder.merge(codec, two.span(), added.span(), n, out.span());
    REQUIRE(coder.bytes(codec) == three.size());
    CHECK(begins(out.host(), three));
    sum = three;
  }
  CHECK_NOTHROW(coder.check(codec, out.span(), n));

  int const parts = std::floating_point<T> ? 3 : 0;
  coder.decode(codec, out.span(), y.span(), parts);  // bytes after the encoded vector do not matter
  hcomp::host_executor by_host;
  hcomp::variable_rate_coder<C, hcomp::host_executor>(n, by_host)
      .decode(codec, sum, decoded, parts);
  CHECK(same_values(y.host(), decoded));

  if constexpr (hcomp::FittedVariableRate<C>)
    CHECK(coder.measure(on_device.span()) == C::measure(x));
  codec.decode(sum, decoded);
  constexpr std::size_t chunk = C::chunk_values;
  std::vector<std::uint64_t> nonfinite((n + chunk - 1) / chunk);
  for (std::size_t i = 0; i < n; ++i)
    if (!hcomp::is_finite(decoded[i])) nonfinite[i / chunk] |= std::uint64_t{1} << i % chunk / 64;
  CHECK(std::ranges::equal(coder.find_nonfinite(codec, out.span(), n), nonfinite));
}
template <class E, hcomp::VariableRate C>
void agree(E& executor, C const& codec, int kind, std::size_t n) {
  agree(executor, codec, stated<C>::vector(codec, kind, n, n + 1),
        stated<C>::vector(codec, kind, n, n + 2));
}

/// About blocks of 32 and 64 values, and chunks of 1024 and 4096.
constexpr std::size_t sizes[] = {0,    1,    4,    31,   32,   33,   63,  65,
                                 1023, 1024, 1025, 4095, 4096, 4097, 9000};

// ---- The laws

/// With any setting and kind of vector; the host reads and writes no device memory.
template <class C> void on_device() {
  for_each_setting<C>([](C const& codec, std::size_t setting) {
    for_each_kind<C>(setting, [&](int kind) {
      guarded_executor executor;
      for (std::size_t const n : sizes) agree(executor, codec, kind, n);
    });
  });
}

/// By 5, 32 and 128 workers per block; inceptionn's share a chunk of 256 times 4 values equally.
template <class C> void by_workers() {
  C const codec = stated<C>::settings()[0];
  workers::sharing_executor<std::same_as<C, hcomp::inceptionn> ? 8 : 5> few;
  workers::sharing_executor<32> warp;
  workers::sharing_executor<128> four_warps;
  auto const check = [&](auto& executor, std::initializer_list<std::size_t> counts) {
    for (std::size_t const n : counts) agree(executor, codec, stated<C>::mixed, n);
  };
  check(few, {0, 1, 33, 1025, 4097});
  check(warp, {1, 33, 1025});
  if (few_cases) return check(four_warps, {1025});
  check(few, {2 * C::chunk_values + 9});
  check(warp, {C::chunk_values + 1});
  check(four_warps, {C::chunk_values + 1});
}

/// By one thread and by three. A thread takes runs of 4 or 16 chunks; some sizes end with a short
/// run, some with a run of one chunk. Encoded vectors of the largest size too.
template <class C> void by_threads() {
  C const codec = stated<C>::settings()[0];
  hcomp::host_executor one, three(3);
  hcomp::reference_executor reference(3);
  auto const check = [&](auto& executor) {
    for (std::size_t const n : {0, 1, 33, 63, 65, 1025, 4097, 9000, 16384, 16385, 50'007})
      agree(executor, codec, stated<C>::mixed, n);
    for (std::size_t const n : {16384, 16385, 50'007}) {
      auto const longest = stated<C>::longest(codec, n);
      agree(executor, codec, longest, longest);
    }
  };
  check(one);
  check(three);
  check(reference);
}

/// More chunks than one block of a scan handles.
template <class C> void many_chunks() {
  C const codec = stated<C>::settings()[0];
  guarded_executor device;
  hcomp::reference_executor threads(2);
  std::size_t const n = (few_cases ? 70 : 600) * C::chunk_values + 5;
  agree(device, codec, stated<C>::mixed, n);
  agree(threads, codec, stated<C>::mixed, n);
}

/// The errors of the codec about encoded vectors of x with changed bits and of other lengths.
/// Nothing behind them is read: sanitizers see it.
template <class E, hcomp::VariableRate C>
void damage(E& executor, C const& codec, vector_of<C> const& x) {
  std::size_t const n = x.size();
  CAPTURE(n);
  auto const whole = encoded(codec, x);
  int errors = 0;
  auto const compare = [&](encoded_bytes const& in, std::size_t values) {
    auto const expected = error_of([&] { codec.check(in, values); });
    errors += !expected.empty();
    hcomp::variable_rate_coder<C, E> coder(values, executor);
    workers::array<std::byte, E> const on_device(executor, in);
    CHECK(error_of([&] { coder.check(codec, on_device.span(), values); }) == expected);
  };
  compare(whole, n);
  CHECK(errors == 0);
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
  CHECK(errors > (n == 0 ? 60 : 100));
}
template <class C> void damage() {
  C const codec = stated<C>::settings()[0];
  hcomp::reference_executor host;
  hcomp::host_executor threads(2);
  guarded_executor device;
  for (std::size_t const n : {0, 6, 33, 3000, 9000}) {
    auto const x = stated<C>::vector(codec, stated<C>::mixed, n, 3);
    damage(host, codec, x);
    damage(threads, codec, x);
    damage(device, codec, x);
  }
}

/// More values than the coder was made for, buffers that are too small, and unaligned ones are
/// refused.
template <class C> void refusals() {
  C const codec = stated<C>::settings()[0];
  guarded_executor executor;
  hcomp::variable_rate_coder<C, guarded_executor> coder(100, executor);
  workers::array<typename C::value_type, guarded_executor> const x(executor, vector_of<C>(101));
  workers::array<std::byte, guarded_executor> const out(executor, encoded_bytes(1000));
  CHECK_THROWS_WITH_AS(coder.encode(codec, x.span(), out.span()),
                       "variable_rate_coder::encode: 101 values, made for 100",
                       std::invalid_argument);
  std::size_t const least = C::capacity(100);
  auto const text = "variable_rate_coder::encode: " + std::to_string(least - 1) +
                    " bytes for 100 values; it takes " + std::to_string(least);
  CHECK_THROWS_WITH_AS(coder.encode(codec, x.span().first(100), out.span().first(least - 1)),
                       text.c_str(), std::invalid_argument);
  CHECK_THROWS_AS(coder.encode(codec, x.span().first(10), out.span().subspan(2)),
                  std::invalid_argument);
  CHECK_THROWS_AS(coder.decode(codec, out.span().subspan(1), x.span()), std::invalid_argument);
  CHECK_THROWS_AS(coder.check(codec, out.span(), 101), std::invalid_argument);
  CHECK_THROWS_AS(coder.find_nonfinite(codec, out.span(), 101), std::invalid_argument);
}

}  // namespace laws::variable_rate_coder
