
#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <feedback/saved_states.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <span>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

static_assert(Feedback<global_compensation<float>, float>);
static_assert(Feedback<global_compensation<float>::flushing, float>);
static_assert(Feedback<global_compensation<float16>, float16>);

/// One round on one block: replaces `x` by `g`, as a collective decodes it.
template <class F>
void decode_into(F& feedback, std::vector<float>& x, std::vector<float> const& g) {
  auto const view = feedback.view(x.data());
  view.decoded(serial_group{}, 0, static_cast<int>(x.size()), x.data(), [&] { x = g; });
  feedback.commit();
}

}  // namespace

TEST_CASE("global compensation: c becomes x + c - g, for any g") {
  global_compensation<float> state(3);
  std::vector<float> x{1.f, -2.f, 0.f};
  decode_into(state, x, {0.25f, 0.25f, -0.25f});
  CHECK(x == std::vector<float>{0.25f, 0.25f, -0.25f});
  CHECK(state.compensation()[0] == 0.75f);
  CHECK(state.compensation()[1] == -2.25f);
  CHECK(state.compensation()[2] == 0.25f);
  x = {1.f, 1.f, 1.f};
  CHECK(state.view(x.data()).source()[0] == 1.75f);
  CHECK(state.view(x.data()).source()[1] == -1.25f);
  decode_into(state, x, {0.f, 0.f, 0.f});
  CHECK(state.compensation()[0] == 1.75f);
  CHECK(state.rounds() == 2);
}

TEST_CASE(
    "global compensation: a flush makes c exactly 0, or with a limit keeps the part above it") {
  global_compensation<float> state(4);
  std::vector<float> x(4);
  decode_into(state, x, {-3.f, 5.f, 0.f, 1.f});
  auto all = state.flushed();
  decode_into(all, x, {0.5f, -0.25f, 1e30f, 0.f});
  CHECK(x == std::vector<float>{0.5f, -0.25f, 1e30f, 0.f});
  for (float const c : state.compensation()) CHECK(c == 0);
  auto some = state.flushed(0.25f);
  decode_into(some, x, {0.5f, -1.f, 0.25f, 0.125f});
  CHECK(x == std::vector<float>{0.25f, -0.25f, 0.25f, 0.125f});
  CHECK(state.compensation()[0] == 0.25f);
  CHECK(state.compensation()[1] == -0.75f);
  CHECK(state.compensation()[2] == 0);
  CHECK(state.compensation()[3] == 0);
  CHECK(state.rounds() == 3);
}

TEST_CASE(
    "global compensation: with identity and the mean, c is each rank's difference to the mean") {
  constexpr std::size_t values = 9000;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    CAPTURE(ranks);
    std::vector<std::vector<float>> c(static_cast<std::size_t>(ranks)), g = c;
    run_ranks(ranks, [&](in_process& transport) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      host_executor executor;
      plan mean(values, identity<>{}, transport, executor);
      global_compensation<float> state(values);
      auto x = integer_values(values, 1, transport.rank());
      mean.all_reduce(std::span(x), state, {.op = reduce_op::mean});
      g[rank] = x;
      c[rank].assign(state.compensation().begin(), state.compensation().end());
    });
    std::size_t wrong = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      auto const x = integer_values(values, 1, rank);
      auto const place = static_cast<std::size_t>(rank);
      for (std::size_t i = 0; i < values; ++i) wrong += c[place][i] != x[i] - g[place][i];
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("global compensation: small updates of 16-bit values are not lost in a large c") {
  static_assert(std::is_same_v<global_compensation<float16>::compensation_type, float>);
  static_assert(std::is_same_v<global_compensation<double>::compensation_type, double>);
  global_compensation<float16> state(1);
  float16 x(1.f);
  auto const round = [&](float value) {
    x = float16(value);
    state.view(&x).decoded(serial_group{}, 0, 1, &x, [&] { x = float16(0.f); });
  };
  round(1.f);
  for (int i = 0; i < 10; ++i) round(0x1p-14f);  // 1 + 2^-14 is 1 in float16
  CHECK(state.compensation()[0] == 1.f + 10 * 0x1p-14f);
}

TEST_CASE("global compensation: reset() makes c zero and keeps the round") {
  global_compensation<float> state(2);
  std::vector<float> x{1.f, 2.f};
  decode_into(state, x, {0.f, 0.f});
  state.reset();
  CHECK(state.compensation()[0] == 0);
  CHECK(state.compensation()[1] == 0);
  CHECK(state.rounds() == 1);
}

TEST_CASE(
    "global compensation: save and restore keep c and round, and any other state is refused") {
  global_compensation<float> state(100), copy(100);
  auto x = uniform_values(100, 1, 0);
  for (int round = 0; round < 7; ++round) decode_into(state, x, uniform_values(100, 2, round));
  auto const saved = state.save();
  copy.restore(saved);
  CHECK(copy.rounds() == 7);
  CHECK(first_difference(copy.compensation(), state.compensation()) == nowhere);
  check_refusals(state, saved, "global_compensation: cannot restore: ", 1, 4, 100);
  CHECK(state.save() == saved);
  CHECK(state.rounds() == 7);
}

TEST_CASE("feedback: a plan passes every value to both kinds of feedback exactly once") {
  // blocks, parts of blocks and threads: each value is decoded once, between its two feedback calls
  for (std::size_t const values : {0, 1, 63, 64, 65, 511, 512, 513, 32767, 32768, 32769, 100000})
    for (int const threads : {1, 3}) {
      CAPTURE(values);
      CAPTURE(threads);
      std::vector<float> expected(values), got;
      run_ranks(1, [&](in_process& transport) {
        host_executor executor(threads);
        plan signs(values, sign<>{0.5f}, transport, executor);
        global_compensation<float> state(values);
        for (std::uint64_t round = 0; round < 3; ++round) {
          auto x = uniform_values(values, round, 0);
          for (std::size_t i = 0; i < values; ++i) {
            expected[i] += x[i];
            expected[i] -= expected[i] >= 0 ? 0.5f : -0.5f;
          }
          signs.all_reduce(std::span(x), state, {.step = round});
        }
        got.assign(state.compensation().begin(), state.compensation().end());
      });
      CHECK(first_difference(got, expected) == nowhere);
    }
}
