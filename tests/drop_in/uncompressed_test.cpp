#include <doctest/doctest.h>

#include <c/node_reduction.hpp>
#include <c/uncompressed.hpp>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/random.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <mutex>
#include <span>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Up to the bounds of segments and beyond, and not a multiple of any size.
constexpr std::size_t counts[] = {0, 1, 2, 7, 4096, 20'001, 300'007};

template <class V> std::vector<V> drawn(int rank, std::size_t count) {
  std::vector<V> some(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto const number = mix(i * 64 + static_cast<std::size_t>(rank));
    if constexpr (std::is_integral_v<V>)
      some[i] = static_cast<V>(number);  // additions wrap around
    else
      some[i] = static_cast<V>(static_cast<int>(number % 2001) - 1000);
  }
  return some;
}

template <class V> std::vector<V> exact_sum(std::vector<std::vector<V>> const& all) {
  auto sum = all.front();
  for (std::size_t r = 1; r < all.size(); ++r)
    drop_in::detail::add_to(std::span(sum), all[r].data());
  return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("plain sum: all ranks have the exact sum of whole numbers", V, float, double,
                   std::int32_t, std::int64_t) {
  for (int const ranks : up_to_8_ranks())
    for (std::size_t const count : counts) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<std::vector<V>> all;
      for (int r = 0; r < ranks; ++r) all.push_back(drawn<V>(r, count));
      auto const sum = exact_sum(all);
      auto const found = on_ranks(all, [](in_process& transport, std::vector<V>& x) {
        drop_in::all_reduce_values(transport, 3, std::span(x));
      });
      for (auto const& one : found) REQUIRE(one == sum);
      auto const parts = on_ranks(all, [](in_process& transport, std::vector<V>& x) {
        drop_in::reduce_scatter_values(transport, 3, std::span(x));
        auto const mine =
            drop_in::detail::part_of(std::span(x), transport.rank(), transport.size());
        x = std::vector<V>(mine.begin(), mine.end());
      });
      std::vector<V> together;
      for (auto const& one : parts) together.insert(together.end(), one.begin(), one.end());
      REQUIRE(together == sum);
    }
}

TEST_CASE("plain sum: a mean is the sum divided by the ranks, the same bits on all ranks") {
  for (int const ranks : {2, 3, 5})
    for (std::size_t const count : {std::size_t{100}, std::size_t{50'003}}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<std::vector<float>> all;
      for (int r = 0; r < ranks; ++r) {
        all.push_back(drawn<float>(r, count));
        for (float& value : all.back()) value /= 3;  // the order of additions matters
      }
      auto const mean_of = [&](int divisor) {
        return on_ranks(all, [&](in_process& transport, std::vector<float>& x) {
          drop_in::all_reduce_values(transport, 0, std::span(x), divisor);
        });
      };
      auto const sums = mean_of(1), means = mean_of(ranks);
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < count; ++i) {
          auto const& mean = means[static_cast<std::size_t>(r)];
          REQUIRE(mean[i] == means[0][i]);
          REQUIRE(mean[i] == sums[0][i] / static_cast<float>(ranks));
        }
    }
}

TEST_CASE("plain sum: a rank sends the minimum of a ring and no more") {
  constexpr std::size_t count = 240'000;
  for (int const ranks : {2, 3, 4}) {
    std::vector<std::uint64_t> sent(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](in_process& transport) {
      std::vector<float> x(count, 1);
      drop_in::all_reduce_values(transport, 0, std::span(x));
      sent[static_cast<std::size_t>(transport.rank())] = transport.bytes_sent();
    });
    for (auto const bytes : sent)
      CHECK(bytes == 2 * count * sizeof(float) * static_cast<std::size_t>(ranks - 1) /
                         static_cast<std::size_t>(ranks));
  }
}

TEST_CASE("plain sum: vectors of different sizes are an error on all ranks") {
  std::vector<std::vector<float>> all{std::vector<float>(30'000), std::vector<float>(30'000),
                                      std::vector<float>(60'000)};
  int failed = 0;
  std::mutex mutex;
  on_ranks(all, [&](in_process& transport, std::vector<float>& x) {
    auto const end = outcome_of([&] { drop_in::all_reduce_values(transport, 0, std::span(x)); });
    std::lock_guard const lock(mutex);
    failed += end.what == "wire_error" || end.what == "transport_error";
  });
  CHECK(failed == 3);
}

TEST_CASE_TEMPLATE("plain sum: shards in blocks of nodes, and the all-gather of them", V, float,
                   std::int64_t) {
  for (auto const& where : std::vector<std::vector<std::uint64_t>>{
           {0, 0, 1, 1}, {5, 5, 5, 3, 3, 3}, {0, 0, 1, 1, 2, 2}, {1, 2}, {4, 4}})
    for (std::size_t const count :
         {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{100'003}}) {
      auto const ranks = static_cast<int>(where.size());
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<std::vector<V>> all;
      for (int r = 0; r < ranks; ++r) all.push_back(drawn<V>(r, count * where.size()));
      auto const sum = exact_sum(all);
      auto const found = on_ranks(all, [&](in_process& transport, std::vector<V>& x) {
        any_transport any(transport);
        auto nodes = node::node_ranks::make(any, 0, std::chrono::seconds(30), where);
        REQUIRE(nodes->ranks().is_by_blocks);
        std::vector<V> scratch(count * static_cast<std::size_t>(nodes->ranks().nodes)), part(count);
        drop_in::reduce_scatter_by_nodes(*nodes, 3, std::span<V const>(x), std::span(scratch),
                                         std::span(part), 1);
        std::vector<V> together(x.size());
        drop_in::all_gather_by_nodes(*nodes, 3, std::as_bytes(std::span(part)),
                                     std::as_writable_bytes(std::span(together)));
        x = together;
      });
      for (auto const& one : found) REQUIRE(one == sum);
    }
}
