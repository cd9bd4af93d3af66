/// @file
/// Error feedback in device memory: results and saved states have the host's bits, with every
/// codec.

#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/registry.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/gpu/error_feedback.hpp>
#include <hcomp/gpu/global_compensation.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <stdexcept>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

static_assert(Feedback<gpu::error_feedback<float>, float>);
static_assert(Feedback<gpu::global_compensation<float>, float>);
static_assert(Feedback<gpu::global_compensation<float>::flushing, float>);
static_assert(std::is_same_v<gpu::error_feedback<float16>::residual_type, float>);

constexpr std::size_t values = 40001;  // exceeds a block of any codec, plus a short block

void copy(reference_executor&, void* to, void const* from) {
  std::memcpy(to, from, values * sizeof(float));
}
void copy(gpu::stream_executor& device, void* to, void const* from) {
  bool const in = device.space_of(to) == memory_space::device;
  device.wait(in ? device.write(to, from, values * sizeof(float))
                 : device.read(to, from, values * sizeof(float)));
}

/// State of a rank after some steps: its last decoded vector and its residual state.
struct progress {
  std::vector<float> x;
  std::vector<std::byte> state;
};

/// Runs steps `first` to `first` + 3 of a single rank, from a saved state if there is one. The
/// object that `last(feedback)` returns makes the last step.
template <class F, class C, class E, class Last>
progress steps(E& executor, C const& codec, std::vector<std::byte> const& saved,
               std::uint64_t first, Last const& last) {
  auto const layout = layout_of(codec, values);
  typename E::buffer memory(values * sizeof(float)), encoded(layout.bytes());
  auto* const x = reinterpret_cast<float*>(memory.data());
  F state(values);
  if (!saved.empty()) state.restore(saved);
  progress result;
  auto const step = [&](auto&& feedback, std::uint64_t number) {
    result.x = uniform_values(values, number, 0);
    copy(executor, x, result.x.data());
    auto const view = feedback.view(x);
    using View = std::remove_const_t<decltype(view)>;
    executor.for_each_block(
        layout.blocks(),
        encode_with_feedback<C, View>{codec, layout, view, encoded.data(), {number, 0, 1, 0}});
    executor.for_each_block(
        layout.blocks(),
        decode_with_feedback<C, View>{decode_blocks<C>{codec, layout, 0, encoded.data(), x}, view});
    feedback.commit();
    executor.synchronize();
    copy(executor, result.x.data(), x);
  };
  step(state, first);
  step(state, first + 1);
  step(last(state), first + 2);
  result.state = state.save();
  return result;
}

/// Host and device give the same results, from the start and from each other's states.
template <class OnHost, class OnDevice, class C, class Last>
void check_same_bits(C const& codec, Last const& last) {
  CAPTURE(std::string(C::name));
  reference_executor host;
  gpu::stream_executor device;
  auto const expected = steps<OnHost>(host, codec, {}, 0, last),
             found = steps<OnDevice>(device, codec, {}, 0, last),
             expected_later = steps<OnHost>(host, codec, found.state, 3, last),
             found_later = steps<OnDevice>(device, codec, expected.state, 3, last);
  CHECK(first_difference(found.x, expected.x) == nowhere);
  CHECK(found.state == expected.state);
  CHECK(first_difference(found_later.x, expected_later.x) == nowhere);
  CHECK(found_later.state == expected_later.state);
}

auto const as_before = [](auto& feedback) -> auto& { return feedback; };

}  // namespace

TEST_CASE("gpu: error feedback gives the host's bits, and each continues the other's state") {
  builtin_codecs<float>::for_each([&]<class C>() {
    check_same_bits<error_feedback<float>, gpu::error_feedback<float>>(fit(C{}, 3), as_before);
  });
}

TEST_CASE("gpu: global compensation gives the host's bits, and each continues the other's state") {
  builtin_codecs<float>::for_each([&]<class C>() {
    check_same_bits<global_compensation<float>, gpu::global_compensation<float>>(fit(C{}, 3),
                                                                                 as_before);
  });
  check_same_bits<global_compensation<float>, gpu::global_compensation<float>>(
      identity<>{}, [](auto& state) { return state.flushed(0.25f); });
}

TEST_CASE("gpu: reset() clears the state, and a state of another size or class is refused") {
  gpu::stream_executor device;
  auto const saved =
      steps<gpu::error_feedback<float>>(device, float_cast<bfloat16>{}, {}, 0, as_before).state;
  gpu::error_feedback<float> feedback(values), shorter(values - 1);
  gpu::global_compensation<float> other(values);
  feedback.restore(saved);
  CHECK(feedback.save() == saved);
  CHECK(device.space_of(feedback.data()) == memory_space::device);
  feedback.reset();
  CHECK(feedback.save() == error_feedback<float>(values).save());
  CHECK(feedback.save() != saved);
  CHECK_THROWS_AS(shorter.restore(saved), std::invalid_argument);
  CHECK_THROWS_AS(other.restore(saved), std::invalid_argument);
}
