// optimise: -O1
#include <doctest/doctest.h>

#include <algorithm>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/encoded_parts.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <support/encoded_vectors.hpp>
#include <support/guarded_executor.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using device_feedback = error_feedback<float, guarded_array>;

/// All ranks of an all-reduce by encoded_parts, on one device.
template <class C> struct all_parts {
  guarded_executor executor;
  std::vector<std::unique_ptr<encoded_parts<C, guarded_executor>>> of;
  std::vector<std::unique_ptr<device_vector<float>>> x;
  std::vector<std::unique_ptr<device_feedback>> feedback;
  std::size_t ranks, words, sent, reduced;
  std::vector<std::unique_ptr<guarded_buffer>> statistics, out, in, sum;
  guarded_buffer all;

  all_parts(C const& codec, std::vector<std::vector<float>> const& values,
            nonfinite_policy policy = nonfinite_policy::throw_error)
      : of(made(codec, values, executor, policy)),
        ranks(values.size()),
        words(of[0]->statistics_words()),
        sent(of[0]->part_bytes()),
        reduced(of[0]->reduced_bytes()),
        all(ranks * reduced) {
    for (auto const& one : values) {
      x.push_back(std::make_unique<device_vector<float>>(one, executor));
      feedback.push_back(std::make_unique<device_feedback>(one.size()));
      statistics.push_back(std::make_unique<guarded_buffer>(words * sizeof(std::uint32_t)));
      out.push_back(std::make_unique<guarded_buffer>(ranks * sent));
      in.push_back(std::make_unique<guarded_buffer>(ranks * sent));
      sum.push_back(std::make_unique<guarded_buffer>(reduced));
    }
  }
  static auto made(C const& codec, std::vector<std::vector<float>> const& values,
                   guarded_executor& executor, nonfinite_policy policy) {
    std::vector<std::unique_ptr<encoded_parts<C, guarded_executor>>> parts;
    int const ranks = static_cast<int>(values.size());
    for (int rank = 0; rank < ranks; ++rank)
      parts.push_back(std::make_unique<encoded_parts<C, guarded_executor>>(
          values[0].size(), ranks, rank, codec, executor, policy));
    return parts;
  }

  /// As work of the executor.
  void copy(std::byte* to, std::byte const* from, std::size_t bytes) {
    executor.for_each_block(1, copy_work{to, from, bytes});
  }
  struct copy_work {
    std::byte* to;
    std::byte const* from;
    std::size_t bytes;
    template <class Group> void operator()(Group group, std::size_t) const {
      copy_bytes(group, to, from, bytes);
    }
  };
  static std::uint32_t* words_in(guarded_buffer const& buffer) {
    return reinterpret_cast<std::uint32_t*>(buffer.data());
  }

  void all_reduce(draw_key const& key, reduce_op op = reduce_op::sum) {
    auto const waits = waits_for_work, buffers = buffers_made;
    for (std::size_t r = 0; r < ranks; ++r)
      of[r]->measure(x[r]->span(), *feedback[r], words_in(*statistics[r]));
    for (std::size_t r = 1; r < ranks; ++r)
      executor.for_each_block(
          (words + unite_statistics::run - 1) / unite_statistics::run,
          unite_statistics{words_in(*statistics[0]), words_in(*statistics[r]), words});
    for (std::size_t r = 0; r < ranks; ++r)
      of[r]->encode(x[r]->span(), *feedback[r], key, words_in(*statistics[0]), out[r]->data());
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t s = 0; s < ranks; ++s)
        copy(in[r]->data() + s * sent, out[s]->data() + r * sent, sent);
    for (std::size_t r = 0; r < ranks; ++r) {
      of[r]->merge(in[r]->data(), sum[r]->data());
      copy(all.data() + r * reduced, sum[r]->data(), reduced);
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      of[r]->decode(all.data(), x[r]->span(), *feedback[r], key, op);
      of[r]->commit(*feedback[r]);
    }
    CHECK(waits_for_work == waits);
    CHECK(buffers_made == buffers);
  }
};

std::vector<std::vector<float>> inputs_of(std::size_t values, int ranks, std::size_t v) {
  return uniform_vectors(ranks, values, 5 + static_cast<int>(v));
}

/// All ranks of an all-reduce of several vectors, in host memory, with residuals of the caller.
template <class C> struct bucket_on_host {
  using parts_type = encoded_parts<C, host_executor>;

  host_executor executor{2};
  std::size_t vectors, first;
  std::vector<std::vector<std::vector<float>>> x, residual, pending;  ///< by rank and vector
  std::vector<std::vector<std::uint64_t>> withheld;
  std::vector<std::unique_ptr<parts_type>> of;

  /// @param first  number of the first vector, for inputs and keys
  bucket_on_host(C const& codec, std::vector<std::size_t> const& sizes, int ranks,
                 std::size_t first = 0)
      : vectors(sizes.size()), first(first), x(ranks), withheld(ranks) {
    for (std::size_t v = 0; v < vectors; ++v) {
      auto const given = inputs_of(sizes[v], ranks, first + v);
      for (int rank = 0; rank < ranks; ++rank) x[rank].push_back(given[rank]);
    }
    residual = x;
    for (auto& of_rank : residual)
      for (auto& one : of_rank) std::ranges::fill(one, 0.0f);
    pending = residual;
    for (int rank = 0; rank < ranks; ++rank) {
      withheld[rank].assign(1, 0);
      of.push_back(std::make_unique<parts_type>(std::span(sizes), ranks, rank, codec, executor));
    }
  }

  /// @param scatters  every rank decodes its own part only
  void all_reduce(std::uint64_t steps, bool scatters = false) {
    std::size_t const ranks = of.size(), sent = of[0]->part_bytes(),
                      reduced = of[0]->reduced_bytes(), words = of[0]->statistics_words();
    host_buffer const out(ranks * ranks * sent), in(ranks * sent), all(ranks * reduced);
    std::vector<std::uint32_t> statistics(words), other(words);
    for (std::uint64_t step = 0; step < steps; ++step) {
      std::ranges::fill(statistics, 0u);
      for (std::size_t r = 0; r < ranks; ++r) {
        for_each(r, [&](auto& feedback, std::size_t v) {
          of[r]->measure(x[r][v], feedback, other.data(), v);
        });
        for (std::size_t w = 0; w < words; ++w) statistics[w] = std::max(statistics[w], other[w]);
      }
      for (std::size_t r = 0; r < ranks; ++r)
        for_each(r, [&](auto& feedback, std::size_t v) {
          of[r]->encode(x[r][v], feedback, {.step = step, .tensor = first + v}, statistics.data(),
                        out.data() + r * ranks * sent, v);
        });
      for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t s = 0; s < ranks; ++s)
          std::copy_n(out.data() + (s * ranks + r) * sent, sent, in.data() + s * sent);
        of[r]->merge(in.data(), all.data() + r * reduced);
      }
      for (std::size_t r = 0; r < ranks; ++r)
        for_each(r, [&](auto& feedback, std::size_t v) {
          draw_key const key{.step = step, .tensor = first + v};
          if (scatters)
            of[r]->decode_part(all.data() + r * reduced, x[r][v], feedback, key, reduce_op::mean,
                               v);
          else
            of[r]->decode(all.data(), x[r][v], feedback, key, reduce_op::mean, v);
          of[r]->commit(feedback, v);
        });
    }
  }
  /// Calls f(feedback, v) for the vectors of a rank; a commit leaves the new residual in place.
  template <class F> void for_each(std::size_t r, F const& f) {
    for (std::size_t v = 0; v < vectors; ++v) {
      error_feedback<float> feedback(std::span(residual[r][v]), std::span(pending[r][v]),
                                     std::span<std::uint64_t, 1>(withheld[r].data(), 1));
      f(feedback, v);
    }
  }
};

template <class C> constexpr bool takes_feedback(C const& codec) {
  if constexpr (RefusesFeedback<C>) return codec.feedback_refusal().empty();
  return true;
}

}  // namespace

TEST_CASE("encoded_parts: all-reduces have the bits of plans with aggregator, residuals included") {
  builtin_codecs<float>::for_each([&]<class C>() {
    for (int const ranks : {1, 3, 4})
      for (std::size_t const values : {1, 5'000, 40'001}) {
        CAPTURE(std::string(C::name));
        CAPTURE(ranks);
        CAPTURE(values);
        auto const codec = fit(C{}, static_cast<std::uint32_t>(ranks));
        REQUIRE(takes_feedback(codec));
        auto const x = uniform_vectors(ranks, values, 5);
        std::vector<std::vector<std::byte>> states(x.size());
        auto const wanted = on_ranks(x, [&](in_process& transport, auto& mine) {
          host_executor executor;
          plan sum(values, codec, transport, executor, {.algorithm = {algorithm_kind::aggregator}});
          error_feedback<float> feedback(values);
          for (std::uint64_t step = 0; step < 3; ++step)
            sum.all_reduce(std::span(mine), feedback, {.step = step, .op = reduce_op::mean});
          states[static_cast<std::size_t>(transport.rank())] = feedback.save();
        });
        all_parts<C> parts(codec, x);
        for (std::uint64_t step = 0; step < 3; ++step)
          parts.all_reduce({.step = step}, reduce_op::mean);
        for (std::size_t r = 0; r < x.size(); ++r) {
          parts.of[r]->check();
          CHECK(first_difference(parts.x[r]->host(), wanted[r]) == nowhere);
          CHECK(parts.feedback[r]->save() == states[r]);
        }
      }
  });
}

TEST_CASE("encoded_parts: vectors that share messages have the bits of plans, in host memory too") {
  std::vector<std::size_t> const sizes{40'001, 5, 0, 33'000, 1'025};
  builtin_codecs<float>::for_each([&]<class C>() {
    for (int const ranks : {1, 3}) {
      CAPTURE(std::string(C::name));
      CAPTURE(ranks);
      auto const codec = fit(C{}, static_cast<std::uint32_t>(ranks));
      bucket_on_host<C> together(codec, sizes, ranks);
      together.all_reduce(3);
      for (std::size_t v = 0; v < sizes.size(); ++v) {
        CAPTURE(sizes[v]);
        bucket_on_host<C> alone(codec, {sizes[v]}, ranks, v);
        alone.all_reduce(3);
        for (int rank = 0; rank < ranks; ++rank) {
          CHECK(first_difference(together.x[rank][v], alone.x[rank][0]) == nowhere);
          CHECK(first_difference(together.residual[rank][v], alone.residual[rank][0]) == nowhere);
        }
        std::vector<std::vector<float>> residual(static_cast<std::size_t>(ranks));
        auto const wanted = on_ranks(inputs_of(sizes[v], ranks, v), [&](in_process& link, auto& x) {
          host_executor executor;
          plan sum(x.size(), codec, link, executor, {.algorithm = {algorithm_kind::aggregator}});
          error_feedback<float> feedback(x.size());
          for (std::uint64_t step = 0; step < 3; ++step)
            sum.all_reduce(x, feedback, {.step = step, .tensor = v, .op = reduce_op::mean});
          auto const kept = feedback.residual();
          residual[static_cast<std::size_t>(link.rank())].assign(kept.begin(), kept.end());
        });
        for (int rank = 0; rank < ranks; ++rank) {
          auto const r = static_cast<std::size_t>(rank);
          CHECK(first_difference(together.x[rank][v], wanted[r]) == nowhere);
          CHECK(first_difference(together.residual[rank][v], residual[r]) == nowhere);
        }
      }
    }
  });
}

TEST_CASE(
    "encoded_parts: a vector for each rank is a part, and a reduce-scatter decodes it alone") {
  constexpr int ranks = 3;
  constexpr std::size_t values = 6'007;
  builtin_codecs<float>::for_each([&]<class C>() {
    CAPTURE(std::string(C::name));
    auto const codec = fit(C{}, ranks);
    bucket_on_host<C> whole(codec, std::vector<std::size_t>(ranks, values), ranks),
        scattered(codec, std::vector<std::size_t>(ranks, values), ranks);
    auto const before = scattered.x;
    whole.all_reduce(1);
    scattered.all_reduce(1, true);
    for (int rank = 0; rank < ranks; ++rank)
      for (int v = 0; v < ranks; ++v) {
        CHECK(scattered.of[0]->part(rank, v).count == (v == rank ? values : 0));
        CHECK(first_difference(scattered.x[rank][v],
                               v == rank ? whole.x[rank][v] : before[rank][v]) == nowhere);
        CHECK(first_difference(scattered.residual[rank][v], whole.residual[rank][v]) == nowhere);
      }
  });
}

TEST_CASE("encoded_parts: NaN in one vector does not change the vectors beside it") {
  bucket_on_host<thc<float>> parts(fit(thc<float>{}, 2), {5'000, 9'000, 5'000}, 2);
  auto const before = parts.x;
  parts.x[1][1][7] = std::numeric_limits<float>::quiet_NaN();
  parts.all_reduce(1);
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(parts.of[rank]->has_failed());
    CHECK(outcome_of([&] { parts.of[rank]->check(); }).what == "nonfinite_error");
    CHECK(!parts.of[rank]->has_failed());
    CHECK(parts.x[rank][1][8] == before[rank][1][8]);
    CHECK(parts.residual[rank][1] == std::vector<float>(9'000));
    for (std::size_t const v : {0, 2}) {
      CHECK(parts.x[rank][v] == parts.x[0][v]);
      CHECK(parts.x[rank][v] != before[rank][v]);
    }
  }
}

TEST_CASE("encoded_parts: the parts cover the vector, in order") {
  guarded_executor executor;
  for (std::size_t const values : {0, 1, 5'000, 40'001}) {
    std::size_t next = 0;
    encoded_parts parts(values, 4, 1, sign<>{}, executor);
    for (int rank = 0; rank < 4; ++rank) {
      CHECK(parts.part(rank).first == next);
      next += parts.part(rank).count;
    }
    CHECK(next == values);
  }
}

TEST_CASE("encoded_parts: NaN and damage change nothing until check() throws their error") {
  for (bool const is_damage : {false, true}) {
    CAPTURE(is_damage);
    auto x = uniform_vectors(3, 9'001, 5);
    if (!is_damage) x[1][4321] = std::numeric_limits<float>::quiet_NaN();
    all_parts<sign<>> parts(sign<>{}, x);
    auto const state = parts.feedback[0]->save();
    parts.all_reduce({.step = 1});
    if (is_damage)  // blocks of another step
      for (std::size_t r = 0; r < 3; ++r)
        parts.of[r]->decode(parts.all.data(), parts.x[r]->span(), {.step = 2});
    auto const before = is_damage ? parts.x[0]->host() : x[0];
    for (std::size_t r = 0; r < 3; ++r) {
      auto const ending = outcome_of([&] { parts.of[r]->check(); });
      CHECK(ending.what == (is_damage ? "wire_error" : "nonfinite_error"));
      CHECK(outcome_of([&] { parts.of[r]->check(); }).what == "returned");
      CHECK(first_difference(parts.x[r]->host(), is_damage ? before : x[r]) == nowhere);
      if (!is_damage) CHECK(parts.feedback[r]->save() == state);
    }
  }
}

namespace {

/// Encodes one part per rank, replaces all messages, and continues to the end of the all-reduce.
/// @param replace  changes the messages
template <class C, class Replace> void require_bounds(C const& codec, Replace const& replace) {
  int const ranks = 3;
  std::vector<float> x(1'700);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8;
  auto const before = x;
  reference_executor executor;
  encoded_parts parts(x.size(), ranks, ranks - 1, codec, executor);
  std::vector<std::uint32_t> statistics(parts.statistics_words() + 1, 1);
  hcomp::testing::encoded_bytes out(ranks * parts.part_bytes());
  parts.measure(x, statistics.data());
  parts.encode(x, {.step = 1}, statistics.data(), out.data());
  // This rank's part of every rank, the last one of the vector, whose last block is short.
  hcomp::testing::encoded_bytes in;
  for (int rank = 0; rank < ranks; ++rank)
    in.insert(in.end(), out.end() - static_cast<std::ptrdiff_t>(parts.part_bytes()), out.end());
  replace(std::span(in));
  before_guard_page messages(in.size());
  hcomp::testing::encoded_bytes reduced(parts.reduced_bytes());
  parts.merge(messages.copy(in).data(), reduced.data());
  hcomp::testing::encoded_bytes all;
  for (int rank = 0; rank < ranks; ++rank) all.insert(all.end(), reduced.begin(), reduced.end());
  before_guard_page sums(all.size());
  parts.decode(sums.copy(all).data(), x, {.step = 1});
  CHECK(outcome_of([&] { parts.check(); }).what == "wire_error");
  CHECK(x == before);
}

template <class C> void require_bounds_of(C const& codec) {
  CAPTURE(C::name);
  for (int const byte : {0x00, 0xa5, 0xff})
    require_bounds(codec, [&](std::span<std::byte> in) {
      std::ranges::fill(in, static_cast<std::byte>(byte));
    });
  // Every block says that it is full, and has a checksum.
  require_bounds(codec, [&](std::span<std::byte> in) {
    for (std::size_t at = 0; at + sizeof(block_header) <= in.size(); at += 4) {
      auto header = load_header(in.data() + at);
      if (header.magic != block_header{}.magic) continue;
      header.values = C::block_values;
      header.flags |= block_has_checksum;
      store_aligned(in.data() + at, 0, header);
    }
  });
}

}  // namespace

TEST_CASE("encoded_parts: damaged lengths are errors, and nothing is read beyond the messages") {
  require_bounds_of(identity<float>());
  require_bounds_of(float_cast<float16>());
  require_bounds_of(fit(sign<>{}, 3));
  require_bounds_of(fit(sign_count<>{}, 3));
  require_bounds_of(fit(thc<float>{}, 3));
}

TEST_CASE("encoded_parts: wrong arguments are errors that name them") {
  guarded_executor executor;
  CHECK_THROWS_WITH_AS((encoded_parts(10, 2, 2, sign<>{}, executor)),
                       "encoded_parts: rank 2 of 2 ranks", std::invalid_argument);
  CHECK_THROWS_AS((encoded_parts(10, 100, 2, thc<float>{}, executor)), std::invalid_argument);
  encoded_parts parts(10, 1, 0, sign<>{}, executor);
  std::vector<float> x(10);
  device_vector<float> const shorter(std::vector<float>(9), executor);
  guarded_buffer const out(parts.part_bytes());
  CHECK_THROWS_WITH_AS(parts.encode(shorter.span(), {}, nullptr, out.data()),
                       "encode: 9 values, the encoded_parts were made for 10",
                       std::invalid_argument);
  CHECK_THROWS_AS(parts.encode(x, {}, nullptr, out.data()), memory_error);
}
