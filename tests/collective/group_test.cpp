
#include <doctest/doctest.h>

#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/in_process.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr int ranks = 4;
constexpr std::size_t values = 40'000;

/// Errors of an all-reduce of the same vectors in one of several groups of ranks. The part that is
/// equal in all draws is removed: THC truncates, which shortens a sum a little.
template <class C> std::vector<double> errors_in(std::uint64_t group, C const& codec) {
  in_process_world world(ranks, group);
  std::vector<std::vector<float>> x(ranks);
  std::vector<double> exact(values), error(values);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& mine = x[static_cast<std::size_t>(rank)];
    mine = uniform_values(values, 12, rank);
    for (std::size_t i = 0; i < values; ++i) exact[i] += mine[i];
    threads.emplace_back([&, rank] {
      in_process transport(world, rank);
      host_executor executor;
      plan sum(values, codec, transport, executor);
      sum.all_reduce(mine, {.seed = 9});
    });
  }
  for (auto& thread : threads) thread.join();
  double along = 0, all = 0;
  for (std::size_t i = 0; i < values; ++i) {
    along += x[0][i] * exact[i];
    all += exact[i] * exact[i];
  }
  for (std::size_t i = 0; i < values; ++i) error[i] = x[0][i] - along / all * exact[i];
  return error;
}

double correlation(std::vector<double> const& a, std::vector<double> const& b) {
  double aa = 0, ab = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += a[i] * a[i];
    ab += a[i] * b[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace

TEST_CASE("groups: errors of the same all-reduce in two groups of ranks are independent") {
  // independent errors have a correlation of standard error 1 / sqrt(values)
  auto const codec = fit(thc<float>{}, ranks);
  auto const first = errors_in(0, codec), again = errors_in(0, codec),
             second = errors_in(77, codec), third = errors_in(78, codec);
  CHECK(first == again);
  double const most = 5 / std::sqrt(static_cast<double>(values));
  CHECK(std::abs(correlation(first, second)) < most);
  CHECK(std::abs(correlation(second, third)) < most);
}

TEST_CASE("groups: a key without a group keeps the bits from before keys had groups") {
  draw_key const key{.seed = 1, .step = 2, .tensor = 3};
  CHECK(philox_key(key) == 0x517630e6f045e74a);
  CHECK(philox_key({1, 2, 3, 4}) != philox_key(key));
  CHECK(philox_key({1, 2, 3, 4}) != philox_key({1, 2, 3, 5}));
}

TEST_CASE("groups: ranks that disagree on the members of the group are refused") {
  struct of_other_group {
    in_process* transport;
    using request = in_process::request;
    int rank() const { return transport->rank(); }
    int size() const { return transport->size(); }
    std::uint64_t group() const { return transport->rank() == 1 ? 5 : 0; }
    bool reaches(memory_space space) const { return transport->reaches(space); }
    std::uint64_t bytes_sent() const { return transport->bytes_sent(); }
    request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
      return transport->isend(peer, tag, bytes);
    }
    request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
      return transport->irecv(peer, tag, bytes);
    }
    std::size_t wait(request& r) { return transport->wait(r); }
  };
  auto const outcomes = outcomes_on(3, [](in_process& inner) {
    of_other_group transport{&inner};
    host_executor executor;
    std::vector<float> x(10, 1);
    plan sum(x.size(), sign<>{}, transport, executor);
    sum.all_reduce(x);
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "disagreement_error"));
  CHECK(outcomes[0].text.find("which ranks take part") != std::string::npos);
}
