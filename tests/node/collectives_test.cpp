#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/half.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;

namespace {

node::collectives connected(in_process& transport, std::chrono::milliseconds timeout = 30s) {
  any_transport over(transport);
  auto made = node::collectives::make(over, 3, timeout);
  REQUIRE(made);
  return std::move(*made);
}

/// Small integers with an exact sum in every type, and at the end an integer that wraps around.
template <class V> std::vector<V> whole_numbers(std::size_t n, int rank) {
  std::vector<V> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<V>(static_cast<float>(i % 17) * static_cast<float>(rank + 1));
  if constexpr (std::is_integral_v<V>)
    if (n > 0) x[n - 1] = std::numeric_limits<V>::max();
  return x;
}
template <class V> std::vector<V> expected_sum(std::size_t n, int ranks, int divisor) {
  std::vector<V> sum(n);
  for (std::size_t i = 0; i < n; ++i) {
    double const all = static_cast<double>(i % 17) * ranks * (ranks + 1) / 2 / divisor;
    sum[i] = static_cast<V>(all);
  }
  if constexpr (std::is_integral_v<V>)
    if (n > 0) {
      using wrapping = std::make_unsigned_t<V>;
      sum[n - 1] = static_cast<V>(static_cast<wrapping>(std::numeric_limits<V>::max()) *
                                  static_cast<wrapping>(ranks));
    }
  return sum;
}
template <class V> bool same(std::span<V const> a, std::vector<V> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}

// Empty, one value, a size that every rank adds completely, the limit of that, one chunk and more,
// several chunks.
std::vector<std::size_t> const sizes{0, 1, 63, 1024, 2049, 70'001, 300'000};

}  // namespace

TEST_CASE_TEMPLATE("node::collectives: exact, for every type, size and number of ranks", V, float,
                   double, float16, bfloat16, std::int32_t, std::int64_t) {
  for (int const ranks : {1, 2, 3, 5})
    run_ranks(ranks, [&](in_process& transport) {
      auto inside = connected(transport);
      int const rank = transport.rank();
      for (auto const n : sizes) {
        CAPTURE(n);
        auto x = whole_numbers<V>(n, rank);
        inside.all_reduce(std::span(x));
        CHECK(same<V>(x, expected_sum<V>(n, ranks, 1)));
        if constexpr (!std::is_integral_v<V>) {
          x = whole_numbers<V>(n, rank);
          inside.all_reduce(std::span(x), ranks);
          CHECK(same<V>(x, expected_sum<V>(n, ranks, ranks)));
        }
        auto const parts = static_cast<std::size_t>(ranks);
        auto const all = whole_numbers<V>(n * parts, rank);
        std::vector<V> part(n);
        inside.reduce_scatter(std::span<V const>(all), n, std::span(part));
        auto const whole = expected_sum<V>(n * parts, ranks, 1);
        CHECK(same<V>(part, {whole.begin() + rank * static_cast<std::ptrdiff_t>(n),
                             whole.begin() + (rank + 1) * static_cast<std::ptrdiff_t>(n)}));
      }
    });
}

TEST_CASE("node::collectives: bytes are gathered and broadcast, in place too") {
  for (int const ranks : {1, 2, 3, 5})
    run_ranks(ranks, [&](in_process& transport) {
      auto inside = connected(transport);
      auto const rank = static_cast<std::size_t>(transport.rank());
      for (auto const n : sizes) {
        std::vector<std::byte> all(n * static_cast<std::size_t>(ranks));
        auto const mine = std::span(all).subspan(rank * n, n);
        std::ranges::fill(mine, std::byte(rank + 1));
        std::vector<std::byte> const apart(mine.begin(), mine.end());
        std::vector<std::byte> other(all.size());
        inside.all_gather(mine, all);
        inside.all_gather(apart, other);
        CHECK(all == other);
        for (std::size_t r = 0; n > 0 && r < static_cast<std::size_t>(ranks); ++r)
          CHECK((all[r * n] == std::byte(r + 1) && all[r * n + n - 1] == std::byte(r + 1)));
        for (int const root : {0, ranks - 1}) {
          std::vector<std::byte> x(n, std::byte(rank + 1));
          inside.broadcast(x, root);
          CHECK(x == std::vector<std::byte>(n, std::byte(root + 1)));
        }
      }
    });
}

TEST_CASE("node::collectives: parts of unequal sizes, and of fewer ranks than the group has") {
  constexpr int ranks = 4;
  constexpr std::size_t n = 100'000;
  run_ranks(ranks, [&](in_process& transport) {
    auto inside = connected(transport);
    auto const rank = static_cast<std::size_t>(transport.rank());
    auto const whole = expected_sum<float>(n, ranks, 1);
    for (std::size_t const each : {n / 4, n / 3 + 5, n / 2 + 64, n}) {
      auto x = whole_numbers<float>(n, transport.rank());
      auto const first = std::min(n, rank * each), end = std::min(n, first + each);
      inside.reduce_scatter(std::span<float const>(x), each,
                            std::span(x).subspan(first, end - first));
      inside.all_gather(std::span(x), each);
      CAPTURE(each);
      CHECK(x == whole);
    }
  });
}

TEST_CASE("node::collectives: random calls one after the other do not mix") {
  run_ranks(4, [](in_process& transport) {
    auto inside = connected(transport);
    random_numbers numbers(5, 0);  // the same on all ranks
    for (int call = 0; call < 300; ++call) {
      auto const n = numbers.next() % (numbers.next() % 4 == 0 ? 200'000 : 3000);
      if (auto const kind = numbers.next() % 3; kind == 0) {
        auto x = whole_numbers<float>(n, transport.rank());
        inside.all_reduce(std::span(x));
        REQUIRE(same<float>(x, expected_sum<float>(n, 4, 1)));
      } else if (kind == 1) {
        std::vector<std::byte> x(n, std::byte(transport.rank()));
        inside.broadcast(x, static_cast<int>(call % 4));
        REQUIRE(x == std::vector<std::byte>(n, std::byte(call % 4)));
      } else {
        std::vector<float> const x(4 * n, 1.0f);
        std::vector<float> part(n);
        inside.reduce_scatter(std::span<float const>(x), n, std::span(part));
        REQUIRE(part == std::vector<float>(n, 4.0f));
      }
    }
  });
}

TEST_CASE("node::collectives: every rank learns which rank is silent, or the text of revoke()") {
  for (bool const revokes : {false, true}) {
    std::atomic<int> done = 0;
    auto const outcomes = outcomes_on(3, [&](in_process& transport) {
      auto inside = connected(transport, 3s);
      std::vector<float> x(1000, 1.0f);
      inside.all_reduce(std::span(x));
      if (transport.rank() == 2) {
        if (revokes) {
          CHECK_THROWS_AS(inside.revoke("rank 2 has seen enough"), wire_error);
          inside.all_reduce(std::span(x));  // would pair with the call in which ranks 0 and 1 wait
        }
        while (done < 2) std::this_thread::sleep_for(10ms);
        return;
      }
      struct count_at_end {
        std::atomic<int>& done;
        ~count_at_end() { ++done; }
      } const at_end{done};
      inside.all_reduce(std::span(x));
    });
    CAPTURE(to_text(outcomes));
    for (std::size_t rank = 0; rank < (revokes ? 3 : 2); ++rank) {
      CHECK(outcomes[rank].what == (revokes ? "wire_error" : "transport_error"));
      CHECK(outcomes[rank].text ==
            (revokes ? "rank 2 has seen enough" : "rank 2 failed: it said nothing for 3000 ms"));
      if (!revokes) CHECK(outcomes[rank].peer == 2);
    }
  }
}

TEST_CASE("node::collectives: a rank that only waits is not named; the one that it waits for is") {
  auto const outcomes = outcomes_on(2, [&](in_process& transport) {
    auto inside = connected(transport, 1s);
    if (transport.rank() == 1) {  // its own limit, of a wait over a network, passes a little later
      std::this_thread::sleep_for(1300ms);
      inside.fail(7, "rank 7 failed: no answer");
      return;
    }
    std::vector<float> x(1000, 1.0f);
    inside.all_reduce(std::span(x));
  });
  CAPTURE(to_text(outcomes));
  CHECK(outcomes[0].peer == 7);
  CHECK(outcomes[0].text == "rank 7 failed: no answer");
}
