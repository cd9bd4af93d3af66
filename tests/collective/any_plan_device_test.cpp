// optimise: -O1
#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/by_name/make_device_plan.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <support/guarded_executor.hpp>
#include <support/stream_ordered_transport.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr int ranks = 3;
constexpr std::size_t values = 5000;

std::string named(codec_info const& codec) {
  return codec.name == "error_bounded" ? "error_bounded:1e-3" : codec.name;
}

/// Three all-reduces of a plan by name; with error feedback, where the codec takes it.
template <class Plan, class Feedback>
void reduce_three_times(Plan& sum, codec_info const& codec, std::span<float> x,
                        Feedback& feedback) {
  for (std::uint64_t step = 0; step < 3; ++step)
    if (codec.takes_feedback)
      sum.all_reduce(x, feedback, {.step = step, .op = reduce_op::mean});
    else
      sum.all_reduce(x, {.step = step, .op = reduce_op::mean});
}

struct results {
  std::vector<std::vector<float>> sums;
  std::vector<std::vector<std::byte>> states{ranks};  ///< of error feedback
};

results on_devices(codec_info const& codec, plan_options const& options) {
  results found;
  found.sums = on_ranks(uniform_vectors(ranks, values, 8), [&](in_process& transport, auto& mine) {
    guarded_executor executor;
    host_staged over(transport, executor);
    device_vector<float> const x(mine, executor);
    error_feedback<float, guarded_executor::array> feedback(values);
    auto sum = make_plan<float>(named(codec), values, over, executor, options);
    reduce_three_times(sum, codec, x.span(), feedback);
    mine = x.host();
    found.states[std::size_t(transport.rank())] = feedback.save();
  });
  return found;
}
results on_host(codec_info const& codec, plan_options const& options) {
  results found;
  found.sums = on_ranks(uniform_vectors(ranks, values, 8), [&](in_process& transport, auto& mine) {
    host_executor executor;
    error_feedback<float> feedback(values);
    auto sum = make_plan<float>(named(codec), values, transport, executor, options);
    reduce_three_times(sum, codec, std::span(mine), feedback);
    found.states[std::size_t(transport.rank())] = feedback.save();
  });
  return found;
}

}  // namespace

TEST_CASE("make_plan on devices: every codec by name gives the bits of CPUs") {
  registered_codecs<float, guarded_executor>().for_each([](codec_info const& codec) {
    CAPTURE(codec.name);
    plan_options const options{.algorithm = {codec.algorithms.front()}};
    auto const found = on_devices(codec, options), expected = on_host(codec, options);
    CHECK(first_difference(found.sums[0], uniform_values(values, 8, 0)) != nowhere);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CHECK(first_difference(found.sums[rank], expected.sums[rank]) == nowhere);
      CHECK(first_difference(found.states[rank], expected.states[rank]) == nowhere);
    }
  });
}

TEST_CASE("registered_codecs of devices: those of CPUs but top_k, with equal settings") {
  auto& of_device = registered_codecs<float, guarded_executor>();
  registered_codecs<float>().for_each([&](codec_info const& codec) {
    CAPTURE(codec.name);
    auto const* const same = of_device.find(codec.name);
    REQUIRE((same != nullptr) == (codec.name != "top_k"));
    if (same == nullptr) return;
    CHECK(same->algorithms == codec.algorithms);
    CHECK(same->takes_feedback == codec.takes_feedback);
    CHECK(codec_from(of_device, named(codec)).text() ==
          codec_from(registered_codecs<float>(), named(codec)).text());
  });
  auto const refused = outcome_of([&] { codec_from(of_device, "top_k"); }).text;
  CHECK(refused.starts_with("no codec is called 'top_k'; hcomp has: identity, fp16, bf16, "));
  CHECK(refused.ends_with("lossless; top_k is for host memory only"));
}

TEST_CASE("make_plan over stream-ordered transports: enqueues fixed rates, refuses variable ones") {
  auto const x = uniform_vectors(ranks, values, 8);
  auto const named_on = [&](char const* name, auto const& reduce) {
    return on_ranks(x, [&](in_process& between, auto& mine) {
      guarded_executor executor;
      stream_ordered_transport transport(between, executor);
      device_vector<float> const given(mine, executor);
      reduce(name, transport, executor, given.span());
      mine = given.host();
    });
  };
  auto const found =
      named_on("thc:bits=2", [](auto name, auto& transport, auto& executor, auto given) {
        auto sum = make_plan<float>(name, values, transport, executor);
        for (std::uint64_t step = 0; step < 3; ++step) {
          auto const waits = waits_for_work;
          sum.all_reduce(given, {.step = step});
          CHECK(waits_for_work == waits);
        }
        sum.check();
      });
  auto const wanted = on_ranks(x, [](in_process& transport, auto& mine) {
    host_executor executor;
    auto sum = make_plan<float>("thc:bits=2", values, transport, executor);
    for (std::uint64_t step = 0; step < 3; ++step) sum.all_reduce(mine, {.step = step});
  });
  for (std::size_t rank = 0; rank < ranks; ++rank)
    CHECK(first_difference(found[rank], wanted[rank]) == nowhere);
  for (char const* const refused : {"lossless", "lossless_sparse"})
    named_on(refused, [](auto name, auto& transport, auto& executor, auto) {
      CHECK_THROWS_AS(make_plan<float>(name, values, transport, executor), std::invalid_argument);
    });
}
