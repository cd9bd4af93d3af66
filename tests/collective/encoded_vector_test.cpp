
#include <doctest/doctest.h>

#include <algorithm>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/plan/encoded_vector.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/encode.hpp>
#include <limits>
#include <span>
#include <string>
#include <support/data.hpp>
#include <support/guarded_executor.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Results of `encode` and `decode` of `x`, in host memory and on an executor.
struct round_trip {
  std::vector<std::uint32_t> statistics;
  std::vector<std::byte> encoded;
  std::vector<float> x;
  std::uint64_t weight = 0;

  friend bool operator==(round_trip const&, round_trip const&) = default;
};

encode_options options_of(std::span<std::uint32_t const> statistics) {
  return {.key = {.seed = 3, .step = 4}, .rank = 2, .checksum = true, .statistics = statistics};
}

/// The vector of another rank, which has larger values.
std::vector<float> larger(std::vector<float> x) {
  for (float& value : x) value *= 1.5f;
  return x;
}

template <class C> round_trip in_host_memory(C const& codec, std::vector<float> const& x) {
  round_trip it{
      measure(codec, std::span<float const>(larger(x))), {}, std::vector<float>(x.size())};
  it.encoded = encode(codec, std::span(x), options_of(it.statistics));
  it.weight = decode(codec, std::span<std::byte const>(it.encoded), std::span(it.x),
                     {.key = {.seed = 3, .step = 4}});
  return it;
}

/// Called twice on the same memory, so that leftovers of the first call would show.
template <class C>
round_trip in_guarded_memory(C const& codec, std::vector<float> const& x,
                             guarded_executor& executor) {
  device_vector<float> const from(x, executor), to(std::vector<float>(x.size()), executor);
  device_vector<float> const other(std::vector<float>(x.size(), 0.5f), executor);
  device_vector<float> const measured(larger(x), executor);
  encoded_vector vector(x.size(), codec, executor);
  vector.encode(other.span(), options_of(vector.measure(other.span())));
  vector.decode(to.span(), {.key = {.seed = 3, .step = 4}});
  round_trip it{vector.measure(measured.span()), std::vector<std::byte>(vector.size()), {}};
  vector.encode(from.span(), options_of(it.statistics));
  it.weight = vector.decode(to.span(), {.key = {.seed = 3, .step = 4}});
  executor.wait(executor.read(it.encoded.data(), vector.data(), vector.size()));
  it.x = to.host();
  return it;
}

template <class C> round_trip by_threads(C const& codec, std::vector<float> const& x) {
  host_executor executor(2);
  encoded_vector vector(x.size(), codec, executor);
  round_trip it{vector.measure(larger(x)), {}, std::vector<float>(x.size())};
  vector.encode(x, options_of(it.statistics));
  it.weight = vector.decode(it.x, {.key = {.seed = 3, .step = 4}});
  it.encoded.assign(vector.data(), vector.data() + vector.size());
  return it;
}

}  // namespace

TEST_CASE("encoded vector: the bytes and values of encode and decode, on any executor") {
  builtin_codecs<float>::for_each([]<class C>() {
    constexpr std::size_t block = C::block_values;
    for (std::size_t const values :
         {std::size_t{0}, std::size_t{1}, block - 1, block, 2 * block + 7}) {
      CAPTURE(std::string(C::name));
      CAPTURE(values);
      auto const codec = fit(C{}, 4);
      auto const x = data::uniform<float>(values, -8, 8, {.seed = 1});
      auto const expected = in_host_memory(codec, x);
      guarded_executor executor;
      CHECK(in_guarded_memory(codec, x, executor) == expected);
      if constexpr (Calibrated<C>) CHECK(by_threads(codec, x) == expected);
    }
  });
}

TEST_CASE(
    "encoded vector: damage, NaN and another weight are reported as by decode; x is unchanged") {
  constexpr std::size_t values = 2 * std::size_t{sign<>::block_values} + 9;
  sign<> const codec;
  auto x = data::uniform<float>(values, -8, 8, {.seed = 2});
  std::vector<float> const before(values, 42.0f);
  guarded_executor executor;
  device_vector<float> const to(before, executor);
  encoded_vector vector(values, codec, executor);

  auto const both = [&](encode_options const& how, decode_options const& wanted, std::size_t flip) {
    device_vector<float> const from(x, executor);
    vector.encode(from.span(), how);
    auto encoded = encode(codec, std::span<float const>(x), how);
    encoded[flip] ^= std::byte{1};
    executor.wait(executor.write(vector.data() + flip, encoded.data() + flip, 1));
    auto unused = before;
    auto const on_device = outcome_of([&] { vector.decode(to.span(), wanted); });
    auto const on_host = outcome_of(
        [&] { decode(codec, std::span<std::byte const>(encoded), std::span(unused), wanted); });
    CHECK(on_device == on_host);
    CHECK(first_difference(to.host(), before) == nowhere);
    return on_device.what;
  };
  std::size_t const padding = encoded_bytes(codec, values) - 1, second = codec.block_bytes() + 99;
  CHECK(both({.checksum = true}, {}, second) == "wire_error");
  CHECK(both({}, {.weight = 3}, padding) == "wire_error");
  CHECK(both({}, {.key = {.step = 1}}, padding) == "wire_error");
  x[values - 1] = std::numeric_limits<float>::quiet_NaN();
  CHECK(both({}, {}, padding) == "nonfinite_error");
}

TEST_CASE("encoded vector: sums that overflow are reported as by decode; x is unchanged") {
  constexpr std::size_t values = 2 * std::size_t{16384} + 9;
  auto const codec = fit(thc<>(), 3);
  guarded_executor executor;
  encoded_vector vector(values, codec, executor);
  for (float const large : {3e38f, 1e38f}) {
    std::vector<float> x(values, 0.5f);
    x[20000] = large;
    std::vector<float> const before(values, 42.0f);
    device_vector<float> const from(x, executor), to(before, executor);
    auto const statistics = measure(codec, std::span<float const>(x));
    encode_options const how{.weight = 3, .statistics = statistics};
    vector.encode(from.span(), how);
    auto const encoded = encode(codec, std::span<float const>(x), how);
    for (auto const result : {reduce_op::sum, reduce_op::mean}) {
      CAPTURE(large);
      auto unused = before;
      auto const on_device = outcome_of([&] { vector.decode(to.span(), {.op = result}); });
      auto const on_host = outcome_of([&] {
        decode(codec, std::span<std::byte const>(encoded), std::span(unused), {.op = result});
      });
      CHECK(on_device == on_host);
      bool const overflows = large > 2e38f && result == reduce_op::sum;
      CHECK(on_host.what == (overflows ? "nonfinite_error" : "returned"));
      if (overflows) CHECK(first_difference(to.host(), before) == nowhere);
    }
  }
}

TEST_CASE("encoded vector: what does not fit is refused with the numbers") {
  guarded_executor executor;
  thc<> const codec;
  encoded_vector vector(7, codec, executor);
  device_vector<float> const x(std::vector<float>(6), executor);
  CHECK_THROWS_WITH_AS(vector.encode(x.span()),
                       "encode: 6 values, the encoded_vector was made for 7",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(vector.decode(x.span()),
                       "decode: 6 values, the encoded_vector was made for 7",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(vector.measure(x.span()),
                       "measure: 6 values, the encoded_vector was made for 7",
                       std::invalid_argument);
  device_vector<float> const y(std::vector<float>(7), executor);
  std::vector<float> on_host(7);
  auto const elsewhere = ": the 7 values are not in memory that the executor can work on";
  for (auto const& [call, who] :
       {std::pair<std::function<void()>, std::string>{[&] { vector.encode(on_host); }, "encode"},
        {[&] { vector.measure(on_host); }, "measure"},
        {[&] { vector.decode(on_host); }, "decode"}})
    CHECK_THROWS_WITH_AS(call(), (who + elsewhere).c_str(), memory_error);
  std::vector<std::uint32_t> const words(5);
  CHECK_THROWS_AS(vector.encode(y.span(), {.statistics = words}), std::invalid_argument);
  CHECK_THROWS_AS(vector.encode(y.span(), {.weight = 0}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      vector.encode(y.span()),
      "encode: codec 'thc' encodes in units that all ranks agree on first; give "
      "encode the 1 words of mpi::measure(codec, x, comm) as .statistics, or those "
      "of measure(codec, x) if no other rank takes part",
      std::invalid_argument);
}
