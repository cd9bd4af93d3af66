
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <feedback/saved_states.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/few_cases.hpp>
#include <support/worker_group.hpp>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr double float_epsilon = 0x1p-24;  // rounding of one float operation, relative

/// Totals over all steps and ranks, in double: inputs, outputs, and the last residuals.
struct history {
  std::vector<double> inputs, outputs, residuals;
  double largest_residual = 0;
};

/// `steps` all-reduces of random vectors with error feedback; rank r has weight weights[r].
template <class C>
history feedback_history(C const& codec, std::size_t values, int steps,
                         std::vector<std::uint32_t> const& weights) {
  auto const ranks = weights.size();
  std::vector<history> of_rank(ranks);
  run_ranks(static_cast<int>(ranks), [&](in_process& transport) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    auto& mine = of_rank[rank];
    mine.inputs.resize(values);
    mine.outputs.resize(values);
    mine.residuals.resize(values);
    host_executor executor;
    plan sum(values, codec, transport, executor);
    error_feedback<float> feedback(values);
    for (int step = 0; step < steps; ++step) {
      auto x = uniform_values(values, 100 + static_cast<std::uint64_t>(step), transport.rank());
      for (std::size_t i = 0; i < values; ++i) mine.inputs[i] += double{x[i]} * weights[rank];
      sum.all_reduce(std::span(x), feedback,
                     {.step = static_cast<std::uint64_t>(step), .weight = weights[rank]});
      for (std::size_t i = 0; i < values; ++i) {
        mine.outputs[i] += double{x[i]};
        mine.largest_residual =
            std::max(mine.largest_residual, std::abs(double{feedback.residual()[i]}));
      }
    }
    for (std::size_t i = 0; i < values; ++i)
      mine.residuals[i] = double{feedback.residual()[i]} * weights[rank];
  });
  history all = of_rank[0];
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < values; ++i) {
      all.inputs[i] += of_rank[rank].inputs[i];
      all.residuals[i] += of_rank[rank].residuals[i];
    }
    all.largest_residual = std::max(all.largest_residual, of_rank[rank].largest_residual);
  }
  return all;
}

/// Largest |inputs - outputs - residual|.
double loss(history const& run) {
  double largest = 0;
  for (std::size_t i = 0; i < run.inputs.size(); ++i)
    largest = std::max(largest, std::abs(run.inputs[i] - run.outputs[i] - run.residuals[i]));
  return largest;
}

}  // namespace

TEST_CASE("error feedback: inputs and outputs differ by one residual, after any number of steps") {
  // On one rank the output is the sent vector, so the sum over the steps of (x + e) - sent
  // telescopes to the last residual. Each step rounds twice, at most at |x + e| + |sent|. For sign
  // |e| stays below steps * (1 + 0.5).
  constexpr int steps = 50;
  builtin_codecs<float>::for_each([]<class C>() {
    CAPTURE(std::string(C::name));
    auto codec = C{};
    if constexpr (requires { codec.magnitude; }) codec.magnitude = 0.5f;
    auto const run = feedback_history(codec, 700, steps, {1});
    double const largest = 2 + 2 * run.largest_residual;
    CHECK(loss(run) <= steps * 2 * float_epsilon * largest);
  });
}

TEST_CASE("error feedback: with an exact sum the residuals of all ranks telescope together") {
  // sign_count adds weights exactly: output = sum of w_r * sent_r
  constexpr int steps = 30;
  for (auto const& weights : {std::vector<std::uint32_t>{1, 1}, {1, 1, 1, 1}, {1, 2, 3}}) {
    CAPTURE(weights.size());
    double total = 0;
    for (auto const weight : weights) total += weight;
    sign_count<> const codec{0.5f, static_cast<std::uint32_t>(total)};
    auto const run = feedback_history(codec, 9000, steps, weights);
    double const largest = 2 + 2 * run.largest_residual;
    CHECK(loss(run) <= total * steps * 2 * float_epsilon * largest);
    CHECK(run.largest_residual > 0.5);  // the codec had an error to feed back
  }
}

TEST_CASE("error feedback: reduce_scatter leaves the residuals and the results of all_reduce") {
  auto const steps = [](auto const& codec, bool scatter) {
    std::size_t const values = 4 * 16384;
    auto const body = [&](in_process& transport, std::vector<float>& all) {
      host_executor executor;
      plan sum(values, fit(codec, 4), transport, executor);
      error_feedback<float> feedback(values);
      auto const mine = sum.shard();
      for (std::uint64_t step = 0; step < 5; ++step) {
        auto x = uniform_values(values, step, transport.rank());
        scatter ? sum.reduce_scatter(std::span(x), feedback, {.step = step})
                : sum.all_reduce(std::span(x), feedback, {.step = step});
        auto const part = std::span(x).subspan(mine.first, mine.count);
        all.insert(all.end(), part.begin(), part.end());
        all.insert(all.end(), feedback.residual().begin(), feedback.residual().end());
      }
    };
    return on_ranks(std::vector<std::vector<float>>(4), body);
  };
  builtin_codecs<float>::for_each([&]<class C>() {
    CAPTURE(std::string(C::name));
    auto const whole = steps(C{}, false), parts = steps(C{}, true);
    for (std::size_t rank = 0; rank < whole.size(); ++rank)
      CHECK(first_difference(parts[rank], whole[rank]) == nowhere);
  });
  using global = global_compensation<float>;
  using plan_of_signs = plan<sign<>, in_process, host_executor>;
  auto const can_scatter = []<class F>(F*) {
    return requires(plan_of_signs & sum, std::span<float> x, F & feedback) {
      sum.reduce_scatter(x, feedback);
    };
  };
  CHECK(can_scatter(static_cast<error_feedback<float>*>(nullptr)));
  CHECK_FALSE(can_scatter(static_cast<global*>(nullptr)));
}

TEST_CASE("error feedback: the residual is one rounding of the codec, not fifty") {
  // half a unit in the last place of 1 + residual: 2^-11 for fp16, 2^-8 for bf16, 0 for fp32
  CHECK(feedback_history(float_cast<float16>{}, 5000, 50, {1}).largest_residual <= 1.001 * 0x1p-11);
  CHECK(feedback_history(float_cast<bfloat16>{}, 5000, 50, {1}).largest_residual <= 1.01 * 0x1p-8);
  CHECK(feedback_history(identity<>{}, 5000, 50, {1}).largest_residual == 0);
  CHECK(feedback_history(float_cast<bfloat16>{}, 5000, 50, {1}).largest_residual > 0x1p-10);
}

TEST_CASE("error feedback: every rank's residual is its own error, also with algorithm sampled") {
  // the residual does not depend on the other ranks: it is the same with one rank and with several
  auto const residual = [](int ranks, bool owner) {
    std::vector<float> of_rank_0;
    run_ranks(ranks, [&](in_process& transport) {
      host_executor executor;
      sign<> const codec{0.25f};
      plan sum(40000, codec, transport, executor,
               {.algorithm = algorithm::from(owner ? "sampled" : "ring")});
      error_feedback<float> feedback(40000);
      for (std::uint64_t step = 0; step < 5; ++step) {
        auto x = uniform_values(40000, step, transport.rank());
        sum.all_reduce(std::span(x), feedback, {.step = step});
      }
      if (transport.rank() == 0)
        of_rank_0.assign(feedback.residual().begin(), feedback.residual().end());
    });
    return of_rank_0;
  };
  auto const alone = residual(1, false);
  CHECK(first_difference(residual(3, false), alone) == nowhere);
  CHECK(first_difference(residual(3, true), alone) == nowhere);
  // its value, computed by hand: x + e - (+-0.25)
  std::vector<float> expected(40000, 0.f);
  for (std::uint64_t step = 0; step < 5; ++step) {
    auto const x = uniform_values(40000, step, 0);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      float const wanted = x[i] + expected[i];
      expected[i] = wanted - (wanted >= 0 ? 0.25f : -0.25f);
    }
  }
  CHECK(first_difference(alone, expected) == nowhere);
}

TEST_CASE("error feedback: double values keep double residuals, 16-bit values float residuals") {
  static_assert(std::is_same_v<error_feedback<double>::residual_type, double>);
  static_assert(std::is_same_v<error_feedback<float16>::residual_type, float>);
  static_assert(std::is_same_v<error_feedback<bfloat16>::residual_type, float>);
  run_ranks(1, [](in_process& transport) {
    host_executor executor;
    plan sum(3, sign<float16>{0.5f}, transport, executor);
    error_feedback<float16> feedback(3);
    std::vector<float16> const x{float16(1.f), float16(-1.f), float16(0x1p-11f)};
    for (std::uint64_t step = 0; step < 8; ++step) {
      auto copy = x;
      sum.all_reduce(std::span(copy), feedback, {.step = step});
    }
    float const exact[] = {8 * 0.5f, -8 * 0.5f, 8 * 0x1p-11f};
    for (std::size_t i = 0; i < 3; ++i)
      if (feedback.residual()[i] != exact[i])
        throw std::runtime_error("residual " + std::to_string(i) + " is " +
                                 std::to_string(feedback.residual()[i]));
  });
}

TEST_CASE("error feedback: reset() clears the residual, and a new object gives the same results") {
  run_ranks(1, [](in_process& transport) {
    host_executor executor;
    plan sum(100, sign<>{0.1f}, transport, executor);
    error_feedback<float> used(100), fresh(100);
    auto x = uniform_values(100, 1, 0);
    sum.all_reduce(std::span(x), used);
    used.reset();
    auto a = uniform_values(100, 2, 0), b = a;
    sum.all_reduce(std::span(a), used);
    sum.all_reduce(std::span(b), fresh);
    if (first_difference(used.residual(), fresh.residual()) != nowhere || a != b)
      throw std::runtime_error("reset left something behind");
  });
}

TEST_CASE("error feedback: a saved state continues bit for bit, and any other state is refused") {
  error_feedback<float> feedback(1000), copy(1000);
  auto const step = [&](error_feedback<float>& one, std::uint64_t number) {
    std::vector<float> got = uniform_values(1000, number, 0);
    run_ranks(1, [&](in_process& transport) {
      host_executor executor;
      plan sum(1000, float_cast<bfloat16>{}, transport, executor);
      sum.all_reduce(std::span(got), one, {.step = number});
    });
    return got;
  };
  for (std::uint64_t number = 0; number < 5; ++number) step(feedback, number);
  auto const saved = feedback.save();
  copy.restore(saved);
  CHECK(first_difference(copy.residual(), feedback.residual()) == nowhere);
  for (std::uint64_t number = 5; number < 10; ++number)
    CHECK(first_difference(step(copy, number), step(feedback, number)) == nowhere);

  auto const before = feedback.save();
  check_refusals(feedback, saved, "error_feedback: cannot restore: ", 2, 4, 1000);
  CHECK(feedback.save() == before);

  error_feedback<double> doubles(3);
  CHECK_THROWS_WITH_AS(doubles.restore(error_feedback<float>(3).save()),
                       "error_feedback: cannot restore: its values have 4 bytes, 8 are expected",
                       std::invalid_argument);
  error_feedback<float> empty(0);
  empty.restore(error_feedback<float>(0).save());
  CHECK(empty.values() == 0);
}

TEST_CASE("error feedback: a value far above the rest does not affect the following results") {
  constexpr std::size_t values = 5000, spoiled = 4096;  // in the first transform
  auto const small = [](int rank) {
    std::vector<float> x(values);
    for (std::size_t i = 0; i < values; ++i)
      x[i] = static_cast<float>(static_cast<std::size_t>(rank) + i % 5) * 0.01f;
    return x;
  };
  auto const first = small(0), second = small(1);
  // The residuals of all values that share the unit hold the noise of thc. With large values from
  // 1e9 times the rest on, they are withheld. Below that, error feedback compensates the noise in
  // the next steps.
  for (float const large : {3e38f, 1e30f, 1e12f})
    for (int const where : {0, 1}) {
      CAPTURE(large);
      CAPTURE(where);
      run_ranks(2, [&](in_process& transport) {
        host_executor executor;
        plan sum(values, fit(thc<>(), 2), transport, executor);
        error_feedback<float> feedback(values), calm(values);
        double spoilt = 0, usual = 0;
        std::vector<float> before;
        for (std::uint64_t step = 0; step < 4; ++step) {
          auto x = small(transport.rank()), y = x;
          if (step == 1 && transport.rank() == where) x[7] = large;
          if (step == 1) before.assign(feedback.residual().begin(), feedback.residual().end());
          sum.all_reduce(std::span(x), feedback, {.step = step});
          sum.all_reduce(std::span(y), calm, {.step = step});
          if (step == 1) {
            CHECK(feedback.withheld() == spoiled);
            CHECK(std::ranges::equal(feedback.residual().first(spoiled),
                                     std::span(before).first(spoiled)));
            CHECK(std::ranges::equal(feedback.residual().subspan(spoiled),
                                     calm.residual().subspan(spoiled)));
            continue;
          }
          for (std::size_t i = 0; i < values; ++i) {
            double const exact = static_cast<double>(first[i]) + static_cast<double>(second[i]);
            spoilt += (x[i] - exact) * (x[i] - exact);
            usual += (y[i] - exact) * (y[i] - exact);
          }
        }
        CHECK(calm.withheld() == 0);
        CHECK(spoilt < 2 * usual);
        CHECK(feedback.withheld() == spoiled);
        feedback.reset();
        CHECK(feedback.withheld() == 0);
      });
    }
}

TEST_CASE(
    "error feedback: one-hot, sparse, heavy-tailed and equal vectors have no withheld values") {
  constexpr std::size_t values = 3 * 4096 + 100;
  std::vector<std::vector<float>> all(6, std::vector<float>(values));
  all[0][5] = 1;
  for (std::size_t i = 0; i < values; i += 97) all[1][i] = static_cast<float>(i % 13) - 6;
  all[2] = data::uniform<float>(values, -1, 1, {.seed = 3});
  for (float& v : all[2]) v = std::copysign(std::exp(-9 * std::abs(v)), v);
  all[3].assign(values, 1e-30f);
  all[4] = data::uniform<float>(values, -1, 1, {.seed = 4});
  all[4][9] = 1e6f;
  for (auto const& x : all)
    run_ranks(2, [&](in_process& transport) {
      host_executor executor;
      plan sum(values, fit(thc<>(), 2), transport, executor);
      plan signs(values, sign<>{1e-3f}, transport, executor);
      error_feedback<float> feedback(values), of_signs(values);
      for (std::uint64_t step = 0; step < 20; ++step) {
        auto y = x, z = x;
        sum.all_reduce(std::span(y), feedback, {.step = step});
        signs.all_reduce(std::span(z), of_signs, {.step = step});
      }
      CHECK(feedback.withheld() == 0);
      CHECK(of_signs.withheld() == 0);
    });
}

TEST_CASE("error feedback: NaN and infinity get into no residual, with any policy") {
  constexpr std::size_t values = 9000;
  for (auto const policy : {nonfinite_policy::propagate, nonfinite_policy::ignore})
    builtin_codecs<float>::for_each([&]<class C>() {
      for (float const special : data::nonfinite_specials<float>()) {
        CAPTURE(std::string(C::name));
        CAPTURE(special);
        run_ranks(2, [&](in_process& transport) {
          host_executor executor;
          plan sum(values, fit(C{}, 2), transport, executor, {.nonfinite = policy});
          error_feedback<float> feedback(values);
          for (std::uint64_t step = 0; step < 3; ++step) {
            auto x = data::uniform<float>(values, -1, 1, {.seed = step + 1});
            if (step == 1) x[4500] = special;
            sum.all_reduce(std::span(x), feedback, {.step = step});
            CHECK(
                std::ranges::all_of(feedback.residual(), [](float e) { return std::isfinite(e); }));
            if (step == 2) CHECK(std::ranges::all_of(x, [](float v) { return std::isfinite(v); }));
          }
          CHECK(feedback.withheld() == 1);
        });
      }
    });
}

TEST_CASE("error feedback: every group withholds the same values") {
  constexpr std::size_t values = 8192 + 300;
  thc<> const codec;
  auto const layout = layout_of(codec, values);
  auto x = data::uniform<float>(values, -1, 1, {.seed = 4});
  x[5000] = 1e30f;  // in the second transform
  auto const encoded = [&](auto const& share, error_feedback<float>& residual) {
    std::vector<std::byte> code(layout.bytes());
    auto const view = residual.view(x.data());
    encode_with_feedback<thc<>, decltype(view)> const encode{
        codec, layout, view, code.data(), {.key = 3, .rank = 1}};
    share([&](auto group) { encode(group, 0); });
    residual.commit();
    return code;
  };
  error_feedback<float> alone(values), vectors(values), together(values);
  for (int turn = 0; turn < 2; ++turn) {
    auto const expected = encoded([](auto const& f) { f(serial_group{}); }, alone);
    CHECK(encoded([](auto const& f) { f(simd_group{}); }, vectors) == expected);
    CHECK(encoded([](auto const& f) { workers::run<4>(f); }, together) == expected);
    CHECK(std::ranges::equal(vectors.residual(), alone.residual()));
    CHECK(std::ranges::equal(together.residual(), alone.residual()));
    CHECK(alone.withheld() == 4096u * (static_cast<unsigned>(turn) + 1));
    CHECK(together.withheld() == alone.withheld());
  }
}

TEST_CASE("error_feedback: workers that work in parts leave the bits of one worker") {
  constexpr std::size_t values = 5000;  // parts have 2048
  sign<> const codec{0.3f};
  auto const layout = layout_of(codec, values);
  auto const x = data::uniform<float>(values, -1, 1, {.seed = 4});
  auto const step = [&](auto const& share, error_feedback<float>& residual,
                        std::vector<std::byte>& code, std::vector<float>& sum) {
    auto const view = residual.view(x.data());
    encode_with_feedback<sign<>, decltype(view)> const encode{
        codec, layout, view, code.data(), {.key = 3, .rank = 1, .checksum = true}};
    share([&](auto group) { encode(group, 0); });
    decode_with_feedback<sign<>, decltype(view)> const decode{
        {codec, layout, 0, code.data(), sum.data()}, view};
    share([&](auto group) { decode(group, 0); });
    residual.commit();
  };
  error_feedback<float> alone(values), together(values);
  std::vector<std::byte> expected(layout.bytes()), found(layout.bytes());
  std::vector<float> wanted(values), sum(values);
  for (int turn = 0; turn < 2; ++turn) {
    step([](auto const& f) { f(serial_group{}); }, alone, expected, wanted);
    step([](auto const& f) { workers::run_in_warps<64>(0, f); }, together, found, sum);
    CHECK(found == expected);
    CHECK(sum == wanted);
    CHECK(std::ranges::equal(together.residual(), alone.residual()));
  }
}

/// All pieces of all blocks, by workers in warps, in reverse order; then the closing step of each
/// block.
template <class Work> void do_pieces(Work const& work, std::size_t blocks) {
  int const pieces = work.pieces();
  for (std::size_t b = 0; b < blocks; ++b) {
    bool any = false;
    for (int k = pieces - 1; k >= 0; --k)
      workers::run_in_warps<32>(work.piece_scratch_bytes(), [&](auto group) {
        if constexpr (std::is_void_v<decltype(work.piece(group, b, k))>) {
          work.piece(group, b, k);
        } else {
          bool const met = work.piece(group, b, k);
          if (group.worker() == 0) any |= met;
        }
      });
    if constexpr (requires { work.close(serial_group{}, b, any); })
      work.close(serial_group{}, b, any);
  }
}

TEST_CASE_TEMPLATE("error_feedback: pieces of a block leave the same state as the complete block",
                   T, float, double, float16) {
  bool is_wide = false, has_infinity = false;
  // With truncation 1/32 the rotated coordinates of a single value lie between two levels.
  for (int const transform :
       few_cases ? std::vector{64, 8192} : std::vector{thc_options{}.transform, 64, 512, 8192}) {
    CAPTURE(transform);
    thc_options options{.transform = transform};
    options.truncation = 1. / 32;
    std::size_t const values = 16384 + 77;  // a full block, and a block of one piece
    auto x = data::uniform<T>(values, -1, 1, {.seed = 4});
    x[5000] = T(1e30f);  // the residuals of its unit exceed the other values
    if (has_infinity) x[9000] = T(std::numeric_limits<float>::infinity());
    auto const codec = thc<T>(options).fitted(is_wide ? 40 : 1);
    auto const layout = layout_of(codec, values);
    error_feedback<T> whole(values), apart(values);
    std::vector<std::byte> expected(layout.bytes()), found(layout.bytes());
    std::vector<T> wanted(values), sum(values);
    auto const step = [&](error_feedback<T>& residual, std::vector<std::byte>& code,
                          std::vector<T>& to, auto const& by) {
      auto const view = residual.view(x.data());
      using View = std::remove_const_t<decltype(view)>;
      by(encode_with_feedback<thc<T>, View>{
          codec, layout, view, code.data(), {.key = 3, .rank = 1}});
      by(decode_with_feedback<thc<T>, View>{
          {codec, layout, 0, code.data(), to.data(), reduce_op::sum, true}, view});
      residual.commit();
    };
    for (int turn = 0; turn < 2; ++turn) {
      step(whole, expected, wanted, [&](auto const& work) {
        for (std::size_t b = 0; b < layout.blocks(); ++b) work(serial_group{}, b);
      });
      step(apart, found, sum, [&](auto const& work) { do_pieces(work, layout.blocks()); });
      CHECK(found == expected);
      CHECK(std::memcmp(sum.data(), wanted.data(), values * sizeof(T)) == 0);
      CHECK(std::ranges::equal(apart.residual(), whole.residual()));
      CHECK(apart.withheld() == whole.withheld());
    }
    CHECK(whole.withheld() > 0);
    is_wide = !is_wide;
    if (!is_wide) has_infinity = true;
  }
}

TEST_CASE_TEMPLATE("error_feedback: workers in warps record the error of rounding in one unit", T,
                   float, double, float16) {
  std::size_t number = 0;
  for (auto const& options :
       {thc_options{}, {.transform = 64}, {.transform = 512}, {.transform = 8192}})
    for (std::uint32_t const weight : {1u, 5u}) {
      CAPTURE(options.transform);
      CAPTURE(weight);
      ++number;
      auto const transform = static_cast<std::size_t>(options.transform);
      std::size_t const values = transform + 77;  // the second transform has no error
      auto x = data::uniform<T>(values + 1, -1, 1, {.seed = 4});
      T* const from = x.data() + number / 2 % 2;  // at a multiple of four values, or not
      std::fill_n(from + transform, 77, T{});
      if (number % 3 == 0) from[transform / 2] = T(std::numeric_limits<float>::infinity());
      auto const codec = thc<T>(options).fitted(weight == 1 ? 1 : 17);
      auto const layout = layout_of(codec, values);
      error_feedback<T> alone(values), together(values);
      std::vector<std::byte> expected(layout.bytes()), found(layout.bytes());
      auto const step = [&](auto const& share, error_feedback<T>& residual,
                            std::vector<std::byte>& code) {
        auto const view = residual.view(from);
        encode_with_feedback<thc<T>, decltype(view)> const encode{
            codec, layout, view, code.data(), {.key = 3, .rank = 1, .weight = weight}};
        share(encode.scratch_bytes(), [&](auto group) { encode(group, 0); });
        residual.commit();
      };
      for (int turn = 0; turn < 2; ++turn) {
        step([](std::size_t, auto const& f) { f(serial_group{}); }, alone, expected);
        step([](std::size_t bytes, auto const& f) { workers::run_in_warps<32>(bytes, f); },
             together, found);
        CHECK(found == expected);
        CHECK(std::ranges::equal(together.residual(), alone.residual()));
        CHECK(std::ranges::any_of(alone.residual(), [](auto e) { return e != 0; }));
      }
    }
}

TEST_CASE("error_feedback: set_residual replaces the residual, and refuses another size") {
  error_feedback<float> feedback(3);
  std::vector<float> const lost{1, -2, 0.5f};
  feedback.set_residual(lost);
  CHECK(std::vector(feedback.residual().begin(), feedback.residual().end()) == lost);
  CHECK_THROWS_WITH_AS(feedback.set_residual(std::span(lost).first(2)),
                       "error_feedback: a residual of 2 values for 3", std::invalid_argument);
  CHECK(feedback.residual()[1] == -2);
}
