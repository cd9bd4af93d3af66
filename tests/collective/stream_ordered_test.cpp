// optimise: -O1
#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/op/detail/call_verdict.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <support/few_cases.hpp>
#include <support/guarded_executor.hpp>
#include <support/stream_ordered_transport.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Offset of a byte of a block's key.
constexpr std::size_t byte_of_key = offsetof(block_header, key);
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

enum class collective { all_reduce, reduce_scatter, all_gather };

template <class Plan>
void call(Plan& plan, collective what, std::span<float> x, call_options const& options) {
  switch (what) {
    case collective::all_reduce: plan.all_reduce(x, options); break;
    case collective::reduce_scatter: plan.reduce_scatter(x, options); break;
    case collective::all_gather: plan.all_gather(x, options); break;
  }
}

/// Calls body(plan, x in device memory, rank) on all ranks. Returns the outcomes; `x` is each
/// rank's vector afterwards.
struct as_it_is {
  void operator()(stream_ordered_transport&) const {}
};
/// @param prepare  called with the transport
template <class C, class F, class Prepare = as_it_is>
std::vector<outcome> enqueued(C const& codec, std::vector<std::vector<float>>& x,
                              plan_options const& options, F const& body,
                              Prepare const& prepare = {}) {
  return outcomes_on(static_cast<int>(x.size()), [&](in_process& ranks) {
    auto& mine = x[static_cast<std::size_t>(ranks.rank())];
    guarded_executor executor;
    stream_ordered_transport transport(ranks, executor);
    prepare(transport);
    device_vector<float> const values(mine, executor);
    plan sum(mine.size(), codec, transport, executor, options);
    struct at_end {
      device_vector<float> const& values;
      std::vector<float>& mine;
      ~at_end() { mine = values.host(); }
    } const end{values, mine};
    body(sum, values.span(), ranks.rank());
  });
}

bool all_returned(std::vector<outcome> const& outcomes) {
  return all_ended_alike(outcomes, "returned");
}

template <class C>
void compare_with_host(C const& codec, plan_options const& options, int ranks, std::size_t values,
                       collective what, call_options const& given) {
  auto x = uniform_vectors(ranks, values, 5);
  auto const wanted = on_ranks(x, [&](in_process& transport, auto& mine) {
    host_executor executor;
    plan sum(mine.size(), codec, transport, executor, options);
    auto one = given;
    for (one.step = 0; one.step < 3; ++*one.step) call(sum, what, std::span(mine), one);
  });
  auto const outcomes = enqueued(codec, x, options, [&](auto& sum, auto mine, int) {
    auto one = given;
    for (one.step = 0; one.step < 3; ++*one.step) {
      auto const waits = waits_for_work, buffers = buffers_made;
      call(sum, what, mine, one);
      CHECK(waits_for_work == waits);
      CHECK((one.step == 0 || buffers_made == buffers));
    }
    sum.check();
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_returned(outcomes));
  for (std::size_t rank = 0; rank < x.size(); ++rank)
    CHECK(first_difference(x[rank], wanted[rank]) == nowhere);
}

}  // namespace

TEST_CASE("stream-ordered: plans give the bits of host plans, and never wait or allocate") {
  builtin_codecs<float>::for_each([&]<class C>() {
    for (int const ranks : few_cases ? std::vector{3} : std::vector{1, 3, 4})
      for (char const* const name : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
        for (std::size_t const values : {1, 20'001})
          for (bool const checksum : {false, true}) {
            CAPTURE(std::string(C::name));
            CAPTURE(ranks);
            CAPTURE(name);
            CAPTURE(values);
            CAPTURE(checksum);
            auto const codec = fit(C{}, static_cast<std::uint32_t>(ranks));
            compare_with_host(
                codec,
                {.algorithm = algorithm::from(name), .checksum = checksum, .segment_bytes = 4096},
                ranks, values, collective::all_reduce, {});
          }
  });
}

TEST_CASE("stream-ordered: so do reduce_scatter, all_gather, means, weights and wide blocks") {
  builtin_codecs<float>::for_each([&]<class C>() {
    CAPTURE(std::string(C::name));
    auto const codec = fit(C{}, 9);
    for (auto const what : {collective::reduce_scatter, collective::all_gather})
      compare_with_host(codec, {.algorithm = {}}, 3, 20'001, what, {});
    compare_with_host(codec, {.algorithm = {}, .narrow = false}, 3, 20'001, collective::all_reduce,
                      {.weight = 3, .op = reduce_op::mean});
    compare_with_host(codec, {.algorithm = algorithm::from("direct"), .check = false}, 3, 20'001,
                      collective::all_reduce, {.weight = 3});
  });
}

/// Three steps with a feedback in host memory and one in device memory.
template <class OnHost, class OnDevice, class C> void compare_feedback(C const& codec) {
  constexpr int ranks = 3;
  constexpr std::size_t values = 9'001;
  auto x = uniform_vectors(ranks, values, 5);
  std::vector<std::vector<std::byte>> wanted_state(ranks), state(ranks);
  auto const wanted = on_ranks(x, [&](in_process& transport, auto& mine) {
    host_executor executor;
    plan sum(values, codec, transport, executor);
    OnHost feedback(values);
    for (int step = 0; step < 3; ++step) sum.all_reduce(std::span(mine), feedback);
    wanted_state[static_cast<std::size_t>(transport.rank())] = feedback.save();
  });
  auto const outcomes = enqueued(codec, x, {}, [&](auto& sum, auto mine, int rank) {
    OnDevice feedback(values);
    auto const waits = waits_for_work;
    for (int step = 0; step < 3; ++step) sum.all_reduce(mine, feedback);
    CHECK(waits_for_work == waits);
    sum.check();
    state[static_cast<std::size_t>(rank)] = feedback.save();
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_returned(outcomes));
  CHECK(state == wanted_state);
  for (std::size_t rank = 0; rank < x.size(); ++rank)
    CHECK(first_difference(x[rank], wanted[rank]) == nowhere);
}

TEST_CASE("stream-ordered: error feedback and compensation have the host's values and state") {
  using host_feedback = error_feedback<float>;
  using device_feedback = error_feedback<float, guarded_array>;
  compare_feedback<host_feedback, device_feedback>(sign<>{.magnitude = 0.25f});
  compare_feedback<host_feedback, device_feedback>(fit(thc<float>{}, 3));
  compare_feedback<global_compensation<float>, global_compensation<float, guarded_array>>(
      sign<>{.magnitude = 0.25f});
}

/// Outcomes of `check` after a call, of another `check`, and of a call after a failed one.
struct endings {
  std::vector<outcome> checked, checked_again, called_again;

  explicit endings(std::size_t ranks) : checked(ranks), checked_again(ranks), called_again(ranks) {}
};

/// Every call is expected to fail: x and the feedback must not change, and `check` reports alike.
template <class C, class F>
endings failed_calls(C const& codec, std::vector<std::vector<float>>& x,
                     plan_options const& options, F const& once) {
  auto const before = x;
  endings found(x.size());
  auto const outcomes = enqueued(codec, x, options, [&](auto& sum, auto mine, int rank) {
    auto const r = static_cast<std::size_t>(rank);
    once(sum, mine, rank);
    found.checked[r] = outcome_of([&] { sum.check(); });
    found.checked_again[r] = outcome_of([&] { sum.check(); });
    once(sum, mine, rank);
    found.called_again[r] = outcome_of([&] { once(sum, mine, rank); });
    CHECK(outcome_of([&] { sum.check(); }).what != "returned");
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_returned(outcomes));
  CHECK(all_returned(found.checked_again));
  for (std::size_t rank = 0; rank < x.size(); ++rank)
    CHECK(first_difference(x[rank], before[rank]) == nowhere);
  return found;
}

TEST_CASE("stream-ordered: check() throws the errors of NaN and overflow, and x is unchanged") {
  auto x = uniform_vectors(3, 9'001, 5);
  x[1][4321] = not_a_number;
  auto const of_sum = failed_calls(sign<>{}, x, {}, [](auto& sum, auto mine, int) {
    error_feedback<float, guarded_array> feedback(mine.size());
    auto const state = feedback.save();
    sum.all_reduce(mine, feedback);
    CHECK(feedback.save() == state);
  });
  CAPTURE(to_text(of_sum.checked));
  CHECK(all_ended_alike(of_sum.checked, "nonfinite_error"));
  CHECK(all_ended_alike(of_sum.called_again, "nonfinite_error"));

  // only the owner of the shard has the block
  auto const of_shard =
      failed_calls(sign<>{}, x, {}, [](auto& sum, auto mine, int) { sum.reduce_scatter(mine); });
  CAPTURE(to_text(of_shard.checked));
  for (auto const& one : of_shard.checked) CHECK(one.what == "nonfinite_error");

  auto large = uniform_vectors(3, 9'001, 5);
  for (auto& one : large) one[17] = 40'000;
  auto const of_overflow = failed_calls(float_cast<float16>{}, large, {},
                                        [](auto& sum, auto mine, int) { sum.all_reduce(mine); });
  CAPTURE(to_text(of_overflow.checked));
  CHECK(all_ended_alike(of_overflow.checked, "nonfinite_error"));
}

TEST_CASE("stream-ordered: with other policies NaN is part of the result, as on hosts") {
  for (auto const policy : {nonfinite_policy::propagate, nonfinite_policy::ignore}) {
    auto x = uniform_vectors(3, 9'001, 5);
    x[1][4321] = not_a_number;
    plan_options const options{.algorithm = {}, .nonfinite = policy};
    auto const wanted = on_ranks(x, [&](in_process& transport, auto& mine) {
      host_executor executor;
      plan(mine.size(), sign<>{}, transport, executor, options).all_reduce(std::span(mine));
    });
    auto const outcomes = enqueued(sign<>{}, x, options, [](auto& sum, auto mine, int) {
      sum.all_reduce(mine);
      sum.check();
    });
    CHECK(all_returned(outcomes));
    for (std::size_t rank = 0; rank < x.size(); ++rank)
      CHECK(first_difference(x[rank], wanted[rank]) == nowhere);
  }
}

TEST_CASE("stream-ordered: ranks with different arguments get one error, without waiting") {
  auto x = uniform_vectors(3, 9'001, 5);
  auto const of_step = failed_calls(sign<>{}, x, {}, [](auto& sum, auto mine, int rank) {
    sum.all_reduce(mine, {.step = rank == 1 ? 7u : 3u});
  });
  CAPTURE(to_text(of_step.checked));
  CHECK(all_ended_alike(of_step.checked, "disagreement_error"));
  CHECK(of_step.checked[0].text ==
        "all_reduce: the arguments of call 0 of the plan differ between ranks: the collective, the "
        "codec or its parameters, the options, seed, step, tensor, weight or operation");
  auto const of_op = failed_calls(sign<>{}, x, {}, [](auto& sum, auto mine, int rank) {
    sum.all_reduce(mine, {.op = rank == 1 ? reduce_op::mean : reduce_op::sum});
  });
  CHECK(all_ended_alike(of_op.checked, "disagreement_error"));
}

TEST_CASE("stream-ordered: a rank that refuses its arguments keeps no other rank waiting") {
  auto x = uniform_vectors(3, 9'001, 5);
  for (auto const& codec : {fit(thc<float>{}, 3)}) {
    auto const found = failed_calls(codec, x, {}, [](auto& sum, auto mine, int rank) {
      auto const one =
          outcome_of([&] { sum.all_reduce(rank == 1 ? mine.first(100) : mine, {.step = 1}); });
      if (rank != 1 || one.what == "returned") return;
      CHECK(one.what == "invalid_argument");
      CHECK(one.text ==
            "all_reduce: on rank 1 x has not the number of values of the plan (x has "
            "100 values, the plan 9001, the weight is 1)");
    });
    CAPTURE(to_text(found.checked));
    CHECK(all_ended_alike(found.checked, "disagreement_error"));
    CHECK(found.checked[0].text ==
          "all_reduce: rank 1 refused its arguments of call 0 of the plan; its own error has the "
          "reason");
  }
}

TEST_CASE("stream-ordered: damage is an error on all ranks, with checksums wherever it happens") {
  for (bool const checksum : {false, true})
    for (int const damaged : {0, 1, 2, 3}) {   // number of a message of rank 1 with blocks
      if (!checksum && damaged > 1) continue;  // the gather: only its receivers see the damage
      CAPTURE(checksum);
      CAPTURE(damaged);
      auto x = uniform_vectors(3, 3 * 4096, 5);
      auto const before = x;
      std::vector<outcome> checked(3);
      auto const outcomes = enqueued(
          sign<>{}, x, {.algorithm = {}, .checksum = checksum},
          [&](auto& sum, auto mine, int rank) {
            sum.all_reduce(mine);
            checked[static_cast<std::size_t>(rank)] = outcome_of([&] { sum.check(); });
          },
          [&](stream_ordered_transport& transport) {
            if (transport.rank() != 1) return;
            transport.change = [seen = 0, damaged](std::span<std::byte> message) mutable {
              if (message.size() > 100 && seen++ == damaged) message[byte_of_key] ^= std::byte{1};
            };
          });
      CAPTURE(to_text(outcomes));
      CAPTURE(to_text(checked));
      CHECK(all_returned(outcomes));
      for (auto const& one : checked) CHECK(one.what == "wire_error");
      for (std::size_t rank = 0; rank < x.size(); ++rank)
        CHECK(first_difference(x[rank], before[rank]) == nowhere);
    }
}

/// Whether a message is a sealed_number: the trouble of a rank, and then whether one was lost.
bool is_of_findings(std::span<std::byte> message) {
  return message.size() == sizeof(hcomp::detail::sealed_number);
}

TEST_CASE("stream-ordered: damaged findings end all ranks alike, and hide no finding") {
  for (bool const is_damaged_by_nan : {false, true})
    for (int const damaged : {0, 1, 2, 3}) {  // of rank 1's messages: two in each of two rounds
      CAPTURE(is_damaged_by_nan);
      CAPTURE(damaged);
      auto x = uniform_vectors(3, 3 * 4096, 5);
      if (is_damaged_by_nan) x[1][4321] = not_a_number;
      auto const before = x;
      std::vector<outcome> checked(3);
      auto const outcomes = enqueued(
          sign<>{}, x, {},
          [&](auto& sum, auto mine, int rank) {
            sum.reduce_scatter(mine);
            checked[static_cast<std::size_t>(rank)] = outcome_of([&] { sum.check(); });
          },
          [&](stream_ordered_transport& transport) {
            if (transport.rank() != 1) return;
            transport.change = [seen = 0, damaged](std::span<std::byte> message) mutable {
              // NaN's number becomes 0
              if (is_of_findings(message) && seen++ == damaged) message[0] ^= std::byte{2};
            };
          });
      CAPTURE(to_text(outcomes));
      CAPTURE(to_text(checked));
      CHECK(all_returned(outcomes));
      // damage in the second round shows that the first was intact
      auto const expected = damaged < 2         ? "wire_error"
                            : is_damaged_by_nan ? "nonfinite_error"
                                                : "returned";
      for (auto const& one : checked) {
        // a rank with findings of its own reports these
        CHECK((one.what == expected || (is_damaged_by_nan && one.what == "nonfinite_error")));
        CHECK((one.what == "returned") == (std::string(expected) == "returned"));
      }
      if (std::string(expected) == "returned") continue;
      for (std::size_t rank = 0; rank < x.size(); ++rank)
        CHECK(first_difference(x[rank], before[rank]) == nowhere);
    }
}

TEST_CASE("stream-ordered: plans that need the host are refused at their construction") {
  run_ranks(1, [](in_process& ranks) {
    guarded_executor executor;
    stream_ordered_transport transport(ranks, executor);
    CHECK_THROWS_WITH_AS(
        (plan(1000, sign<>{}, transport, executor, {.algorithm = {algorithm_kind::sampled}})),
        "plan: a stream-ordered transport needs a device, a codec of fixed rate and another "
        "algorithm than sampled; codec 'sign' with algorithm sampled needs the host between "
        "messages",
        std::invalid_argument);
    CHECK_THROWS_AS((plan(1000, error_bounded<float>(), transport, executor)),
                    std::invalid_argument);
    CHECK_THROWS_AS((plan(1000, lossless_sparse<float>{}, transport, executor)),
                    std::invalid_argument);
  });
}
