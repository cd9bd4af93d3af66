/// @file
/// Codecs inceptionn, error_bounded, error_bounded_fallback and lossless on a GPU: the host's
/// bytes, values and errors.

#include <doctest/doctest.h>

#include <algorithm>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/error_bounded/fallback.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/collective/engine/variable_rate_coder.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/simd.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <span>
#include <string>
#include <support/all_or_few.hpp>
#include <support/inceptionn.hpp>
#include <support/lossless.hpp>
#include <vector>

using inceptionn::begins_with;
using inceptionn::bytes;
using inceptionn::encoded;
using inceptionn::floats;
using inceptionn::same;

namespace {

using namespace hcomp;
using namespace hcomp::testing;

/// An array on the device.
template <class T> class array {
 public:
  explicit array(std::vector<T> const& values)
      : count_(values.size()), memory_(count_ * sizeof(T)) {
    HCOMP_CUDA_TRY(
        cudaMemcpy(memory_.data(), values.data(), memory_.size(), cudaMemcpyHostToDevice));
  }
  std::span<T> span() const { return {reinterpret_cast<T*>(memory_.data()), count_}; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
    HCOMP_CUDA_TRY(
        cudaMemcpy(values.data(), memory_.data(), memory_.size(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t count_;
  gpu::device_buffer memory_;
};

hcomp::inceptionn codec_of(inceptionn_options const& options) {
  return hcomp::inceptionn(options, simd_level::baseline);
}

std::string complaint(std::function<void()> const& f) {
  try {
    f();
  } catch (wire_error const& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("gpu: INCEPTIONN's codes have the CPU's bytes and values") {
  auto cases = inceptionn::all_settings(all_or_few<std::vector<int>>({1, 10, 14}, {10}));
  cases.push_back({.bound_exponent = 8, .prescale = 5});
  for (auto const& options : cases)
    for (std::size_t const n : all_or_few<std::vector<std::size_t>>(
             {0, 1, 1023, 1025, 70'001, 700 * 1024 + 5}, {0, 1, 1025, 5'001}))
      for (bool const large : {false, true}) {
        CAPTURE(hcomp::detail::inceptionn::text_of(options));
        CAPTURE(n);
        CAPTURE(large);
        auto const codec = codec_of(options);
        auto x = inceptionn::mixed(n, {.seed = n});
        if (large)
          for (float& value : x) value *= 1024;  // chunks stored as floats
        auto const expected = encoded(codec, x);
        auto const other = encoded(codec, inceptionn::normal(n, 0.05, {.seed = 5}));
        bytes sum(codec.capacity(n));
        sum.resize(codec.decode_add_encode(other, x, sum));
        floats decoded(n);
        codec.decode(expected, decoded);
        for (float& value : decoded) value /= 3;

        gpu::stream_executor executor;
        variable_rate_coder<hcomp::inceptionn, gpu::stream_executor> coder(n, executor);
        array<float> const on_device(x), y(floats(n, 7.0f));
        array<std::byte> const code(bytes(codec.capacity(n))), added(other);
        coder.encode(codec, on_device.span(), code.span());
        REQUIRE(coder.bytes(codec) == expected.size());
        CHECK(begins_with(code.host(), expected));
        CHECK_NOTHROW(coder.check(codec, code.span().first(expected.size()), n));
        coder.decode(codec, code.span(), y.span(), 3);
        CHECK(same(y.host(), decoded));
        codec.decode_add(other, decoded);
        coder.decode_add(codec, added.span(), y.span(), y.span());
        CHECK(same(y.host(), decoded));
        coder.decode_add_encode(codec, added.span(), on_device.span(), code.span());
        REQUIRE(coder.bytes(codec) == sum.size());
        CHECK(begins_with(code.host(), sum));
        CHECK(coder.measure(on_device.span()) == hcomp::inceptionn::measure(x));
      }
}

TEST_CASE("gpu: damage to INCEPTIONN's encoded data is reported as on the host") {
  constexpr std::size_t n = 5000;
  auto const codec = codec_of({});
  auto const whole = encoded(codec, inceptionn::mixed(n, {.seed = 3}));
  gpu::stream_executor executor;
  variable_rate_coder<hcomp::inceptionn, gpu::stream_executor> coder(n, executor);
  for (std::size_t byte = 0; byte < whole.size(); byte += byte < 60 ? 1 : 497) {
    CAPTURE(byte);
    auto damaged = whole;
    damaged[byte] ^= std::byte{8};
    array<std::byte> const on_device(damaged);
    CHECK(complaint([&] { coder.check(codec, on_device.span(), n); }) ==
          complaint([&] { codec.check(damaged, n); }));
  }
}

TEST_CASE("gpu: INCEPTIONN's encoding and decoding can be captured in a CUDA graph") {
  std::size_t const n = all_or_few(300'000, 20'000);
  auto const codec = codec_of({});
  cudaStream_t stream = nullptr;
  HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    gpu::stream_executor executor(stream);
    variable_rate_coder<hcomp::inceptionn, gpu::stream_executor> coder(n, executor);
    array<float> const x(floats(n, 0.0f)), y(floats(n, 7.0f));
    array<std::byte> const code(bytes(codec.capacity(n)));
    auto const give = [&] {
      coder.encode(codec, x.span(), code.span());
      coder.decode(codec, code.span(), y.span());
    };
    give();  // the first run loads the kernels, which must not happen during the capture
    executor.synchronize();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    HCOMP_CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    give();
    HCOMP_CUDA_TRY(cudaStreamEndCapture(stream, &graph));
    HCOMP_CUDA_TRY(cudaGraphInstantiateWithFlags(&replay, graph, 0));
    for (std::uint64_t round = 0; round < 3; ++round) {  // lengths differ
      auto const values =
          inceptionn::normal(n, 0.001 * (1 + 10.0 * static_cast<double>(round)), {.seed = round});
      executor.wait(executor.write(x.span().data(), values.data(), n * sizeof(float)));
      HCOMP_CUDA_TRY(cudaGraphLaunch(replay, stream));
      executor.synchronize();
      auto const expected = encoded(codec, values);
      CHECK(coder.bytes(codec) == expected.size());
      CHECK(begins_with(code.host(), expected));
      floats decoded(n);
      codec.decode(expected, decoded);
      CHECK(same(y.host(), decoded));
    }
    HCOMP_CUDA_TRY(cudaGraphExecDestroy(replay));
    HCOMP_CUDA_TRY(cudaGraphDestroy(graph));
  }
  HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
}

namespace {

using hcomp::detail::error_bounded::block_kind;
using hcomp::detail::error_bounded::block_values;

/// Two blocks of every kind, in turn: small numbers, numbers with small differences, few numbers,
/// and numbers beyond the integers' limit.
floats of_all_kinds(double step, std::size_t n, std::uint64_t seed) {
  floats x(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const draw = static_cast<std::int64_t>(mix(seed * 1'000'003 + i));
    auto const place = static_cast<double>(i % (2 * block_values));
    switch (static_cast<block_kind>(i / (2 * block_values) % 4)) {
      case block_kind::plain:
        x[i] = static_cast<float>(step * static_cast<double>(draw % 100));
        break;
      case block_kind::difference: x[i] = static_cast<float>(step * (10'000 + 3 * place)); break;
      case block_kind::sparse:
        x[i] = draw % 16 == 0 ? static_cast<float>(step * static_cast<double>(draw % 20'000)) : 0;
        break;
      case block_kind::words: x[i] = static_cast<float>(draw); break;
    }
  }
  return x;
}

/// Returns the number of blocks of `x` of each kind, if all are in one chunk.
std::vector<std::size_t> kinds_of(error_bounded<> const& codec, floats const& x) {
  using namespace hcomp::detail::error_bounded;
  step_grid const grid = grid_of(codec.options());
  std::vector<std::size_t> counts(4);
  std::int32_t before = 0;
  for (std::size_t first = 0; first + block_values <= x.size(); first += block_values) {
    block_shape shape{};
    bool is_words = false;
    for (std::size_t i = 0; i < block_values; ++i) {
      std::int32_t const q = nearest_integer(grid, x[first + i]);
      is_words |= q == no_integer;
      if (is_words) break;
      shape.plain |= zigzag(q);
      shape.difference |= zigzag(q - before);
      shape.nonzero |= static_cast<std::uint32_t>(q != 0) << i;
      before = q;
    }
    auto const kind = is_words ? block_kind::words : best_mode(shape, block_values).kind();
    ++counts[static_cast<std::size_t>(kind)];
  }
  return counts;
}

/// Runs every operation of a variable_rate_coder on encoded vectors that can be merged.
template <class C> void check_coder(C const& codec, std::vector<typename C::value_type> const& x) {
  using T = typename C::value_type;
  std::size_t const n = x.size();
  auto const normal = inceptionn::normal(n, 0.05, {.seed = 5});
  auto const encoded_by = [&](std::vector<T> const& values) {
    bytes code(codec.capacity(n));
    code.resize(codec.encode(values, code));
    return code;
  };
  auto const expected = encoded_by(x), other = encoded_by({normal.begin(), normal.end()});
  auto const same_bits_as = [](std::vector<T> const& found, std::vector<T> const& values) {
    return std::equal(found.begin(), found.end(), values.begin(), values.end(), [](T one, T two) {
      return std::memcmp(&one, &two, sizeof(T)) == 0 || (one != one && two != two);
    });
  };
  bytes two(codec.capacity(n)), three(two), out(two);
  two.resize(codec.decode_add_encode(other, x, two));
  three.resize(codec.merge(two, other, three));
  std::vector<T> decoded(n);
  host_executor by_host;
  variable_rate_coder<C, host_executor>(n, by_host).decode(codec, three, decoded, 3);

  gpu::stream_executor executor;
  variable_rate_coder<C, gpu::stream_executor> coder(n, executor);
  array<T> const on_device(x), y(std::vector<T>(n, T{7}));
  array<std::byte> const code(bytes(codec.capacity(n))), added(other), sum(two);
  coder.encode(codec, on_device.span(), code.span());
  REQUIRE(coder.bytes(codec) == expected.size());
  CHECK(begins_with(code.host(), expected));
  coder.decode_add_encode(codec, added.span(), on_device.span(), code.span());
  REQUIRE(coder.bytes(codec) == two.size());
  CHECK(begins_with(code.host(), two));
  coder.merge(codec, sum.span(), added.span(), n, code.span());
  REQUIRE(coder.bytes(codec) == three.size());
  CHECK(begins_with(code.host(), three));
  coder.decode(codec, code.span(), y.span(), 3);
  CHECK(same_bits_as(y.host(), decoded));
  codec.decode_add(other, decoded);
  coder.decode_add(codec, added.span(), y.span(), y.span());
  CHECK(same_bits_as(y.host(), decoded));

  array<std::byte> const five(bytes(codec.capacity(n)));
  coder.merge(codec, code.span(), sum.span(), n, five.span());
  CHECK(complaint([&] { coder.bytes(codec); }) == complaint([&] { codec.merge(three, two, out); }));
}

auto const bounded_sizes = [] {
  return all_or_few<std::vector<std::size_t>>({0, 1, 33, 4097, 70'001, 300 * 4096 + 5},
                                              {0, 1, 33, 9'001});
};

}  // namespace

TEST_CASE("gpu: error_bounded has the CPU's bytes and values, for blocks of every kind") {
  error_bounded const codec({.bound = 1e-3, .ranks = 4}, simd_level::baseline);
  for (std::size_t const n : bounded_sizes()) {
    CAPTURE(n);
    check_coder(codec, inceptionn::mixed(n, {.seed = n}));  // some stay floats
    auto const x = of_all_kinds(codec.step(), n, n);
    for (std::size_t const blocks : kinds_of(codec, x)) CHECK(blocks >= n / (10 * block_values));
    check_coder(codec, x);
  }
}

TEST_CASE("gpu: error_bounded_fallback has the CPU's bytes and values") {
  error_bounded_fallback const codec({.bound = 1e-3, .ranks = 4});
  for (std::size_t const n : bounded_sizes()) {
    CAPTURE(n);
    check_coder(codec, inceptionn::mixed(n, {.seed = n}));
    check_coder(codec, of_all_kinds(codec.step(), n, n));
    auto const x = of_all_kinds(1e9 * codec.step(), n, n);  // exceeds the bits of floats
    check_coder(error_bounded_fallback<double>(codec.options()), {x.begin(), x.end()});
  }
  check_coder(codec, inceptionn::mixed(70'001, {.seed = 1}));  // metadata of many chunks
}

TEST_CASE("gpu: lossless has the CPU's bytes and values") {
  for (std::size_t const n : bounded_sizes()) {
    CAPTURE(n);
    for (int const kind : {0, 1, 3, 4, 7})
      check_coder(lossless<float>(), values_of_kind<float>(kind, n, n));
    check_coder(lossless<double>(), values_of_kind<double>(4, n, n));
  }
}

namespace {

/// @param codec_of  (flag) -> the codec
template <class CodecOf> void check_plans(CodecOf const& codec_of) {
  for (std::string const how : {"ring", "torus", "direct", "aggregator"})
    for (std::size_t const n : {1, all_or_few(300'001, 9'001)})
      for (bool const flag : {false, true}) {
        if (!takes_all_cases() && flag == (how == "ring" || how == "aggregator")) continue;
        CAPTURE(how);
        CAPTURE(n);
        CAPTURE(flag);
        auto const codec = codec_of(flag);
        plan_options const options{.algorithm = algorithm::from(how), .checksum = flag};
        call_options const call{.op = flag ? reduce_op::mean : reduce_op::sum};
        std::vector<floats> x;
        for (std::size_t rank = 0; rank < 4; ++rank)
          x.push_back(inceptionn::normal(n, 0.03, {.seed = rank}));
        auto const found = on_ranks(x, [&](in_process& transport, floats& mine) {
          cudaStream_t stream = nullptr;
          HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
          {
            gpu::stream_executor executor(stream);
            array<float> const values(mine);
            plan sum(n, codec, transport, executor, options);
            sum.all_reduce(values.span(), call);
            executor.synchronize();
            mine = values.host();
          }
          HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
        });
        auto const wanted = on_ranks(x, [&](in_process& transport, floats& mine) {
          host_executor executor;
          plan(n, codec, transport, executor, options).all_reduce(mine, call);
        });
        for (std::size_t rank = 0; rank < x.size(); ++rank) CHECK(same(found[rank], wanted[rank]));
      }
}

}  // namespace

TEST_CASE("gpu: plans of ranks that share a GPU give the bits of plans on CPUs") {
  check_plans([](bool flag) { return codec_of({.fitted = flag}); });
  check_plans([](bool) { return error_bounded({.bound = 1e-5}, simd_level::baseline); });
}
