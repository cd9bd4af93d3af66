#include <doctest/doctest.h>

#include <algorithm>
#include <c/magnitude_statistics.hpp>
#include <c/plan_cache.hpp>
#include <chrono>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/node/node_ranks.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <limits>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::drop_in;
using namespace hcomp::testing;

namespace {

constexpr int ranks = 3;

codec_spec how(std::string const& text, std::string const& type = "float") {
  return settings::from(type + ": " + text + " min=0").rules.front().spec;
}
std::vector<std::vector<float>> vectors(std::size_t n) {
  std::vector<std::vector<float>> x;
  for (int r = 0; r < ranks; ++r) {
    auto& mine = x.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i)
      mine[i] = i % 5 == 0 ? std::sin(0.1f * static_cast<float>(i) + static_cast<float>(r)) : 0.0f;
  }
  return x;
}
report sum(plan_cache& all, std::vector<float>& x, std::string const& text, void const* buffer) {
  return all.all_reduce(value_type::float32, x.data(), x.size(), how(text), buffer);
}
double distance(std::vector<float> const& a, std::vector<float> const& b) {
  double all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) all += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(all);
}

}  // namespace

TEST_CASE("plan_cache: lossless_sparse gives the bits of adding in rank order") {
  for (std::size_t const n : {1, 63, 5000}) {
    auto const x = vectors(n);
    auto expected = x[0];
    for (std::size_t r = 1; r < x.size(); ++r)
      for (std::size_t i = 0; i < n; ++i) expected[i] += x[r][i];
    CAPTURE(n);
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      residual_store residuals(1 << 20);
      plan_cache all(any_transport(transport), 0, 0, residuals);
      sum(all, mine, "lossless_sparse", mine.data());
    });
    for (auto const& one : found) CHECK(one == expected);
  }
}

TEST_CASE(
    "plan_cache: from the second call on, uncompressed all-reduces use shared memory, where they "
    "may") {
  auto const x = vectors(5000);
  auto expected = x[0];
  for (std::size_t r = 1; r < x.size(); ++r)
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += x[r][i];
  on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    residual_store residuals(1 << 20);
    plan_cache all(any_transport(transport), 0, 0, residuals),
        other(any_transport(transport), 1, 1, residuals);
    all.share_memory();
    auto const memory_of = [&](plan_cache& cache, std::string const& text) {
      auto sums = mine;
      auto const made = sum(cache, sums, text, mine.data());
      if (made.messages == message_memory::shared) CHECK(sums == expected);
      return made.messages;
    };
    CHECK(memory_of(all, "identity") == message_memory::host);
    CHECK(memory_of(other, "identity") == message_memory::host);
    CHECK(memory_of(all, "identity") == message_memory::shared);
    CHECK(memory_of(all, "identity") == message_memory::shared);
    CHECK(memory_of(all, "identity algorithm=direct") == message_memory::host);
    CHECK(memory_of(all, "fp16") == message_memory::host);
    CHECK(memory_of(other, "identity") == message_memory::host);
    CHECK(all.plans_made() == 4);
  });
}

TEST_CASE("plan_cache: sums and means of values of every type") {
  static constexpr std::size_t n = 3000;
  auto const check = []<class V>(value_type type, V*) {
    CAPTURE(to_text(type));
    std::vector<std::vector<float>> whole_numbers(ranks, std::vector<float>(n));
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) whole_numbers[r][i] = static_cast<float>(i % 7 * (r + 1));
    on_ranks(whole_numbers, [&](in_process& transport, std::vector<float>& mine) {
      residual_store residuals(1 << 20);
      plan_cache all(any_transport(transport), 0, 0, residuals);
      std::vector<int> const parts(ranks, n / ranks);
      for (auto const result : {reduce_op::sum, reduce_op::mean}) {
        if (std::is_integral_v<V> && result == reduce_op::mean) continue;  // integers have no mean
        auto const by = std::is_integral_v<V> ? how("lossless_integers", "int32") : how("identity");
        auto const of = [&](std::size_t i) {
          return static_cast<float>(i % 7 * (result == reduce_op::mean ? 2 : 6));
        };
        std::vector<V> x(n), part(n / ranks);
        for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<V>(mine[i]);
        std::size_t const segment = plan_options{}.segment_bytes;
        all.reduce_scatter(type, x.data(), parts, part.data(), by, x.data(), segment, result);
        all.all_reduce(type, x.data(), n, by, x.data(), segment, result);
        std::size_t const first = static_cast<std::size_t>(transport.rank()) * part.size();
        for (std::size_t i = 0; i < n; ++i) REQUIRE(static_cast<float>(x[i]) == of(i));
        for (std::size_t i = 0; i < part.size(); ++i)
          REQUIRE(static_cast<float>(part[i]) == of(first + i));
      }
    });
  };
  check(value_type::float32, static_cast<float*>(nullptr));
  check(value_type::float64, static_cast<double*>(nullptr));
  check(value_type::float16, static_cast<float16*>(nullptr));
  check(value_type::bfloat16, static_cast<bfloat16*>(nullptr));
  check(value_type::int32, static_cast<std::int32_t*>(nullptr));
  check(value_type::int64, static_cast<std::int64_t*>(nullptr));
}

TEST_CASE("plan_cache: reduce_scatter gives every rank its shard, for any partition") {
  std::vector<std::vector<int>> const cuts{
      {1, 0, 0},         {16384, 16384, 16384}, {32768, 32768, 32768}, {20000, 20000, 20000},
      {0, 40000, 39000}, {90000, 10, 10},       {30001, 29999, 30011}};
  for (std::string const text :
       {"identity", "identity algorithm=direct", "identity algorithm=recursive_doubling",
        "identity algorithm=torus", "identity algorithm=aggregator",
        "lossless_sparse algorithm=ring", "error_bounded 1e-3 algorithm=aggregator", "fp16",
        "lossless_sparse", "error_bounded 1e-3", "inceptionn E=12", "thc bits=8",
        "thc bits=8 feedback=no", "sign", "sign feedback=no", "sign algorithm=sampled",
        "identity algorithm=hierarchical"})
    for (auto const& counts : cuts) {
      CAPTURE(text);
      CAPTURE(counts[0]);
      std::size_t n = 0;
      for (int const count : counts) n += static_cast<std::size_t>(count);
      auto const x = vectors(n);
      std::vector<float> exact(n);
      for (auto const& one : x)
        for (std::size_t i = 0; i < n; ++i) exact[i] += one[i];
      std::vector<std::uint64_t> sent(ranks), sent_by_all(ranks);
      auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
        auto const rank = static_cast<std::size_t>(transport.rank());
        residual_store residuals(std::size_t{64} << 20);
        plan_cache all(any_transport(transport), 0, 0, residuals);
        // the second call uses the state that the first one kept
        for (int call = 0; call < 2; ++call) {
          auto one = mine;
          std::vector<float> result(static_cast<std::size_t>(counts[rank]));
          sent[rank] = all.reduce_scatter(value_type::float32, one.data(), counts, result.data(),
                                          how(text), mine.data())
                           .bytes_sent;
          CHECK(one == mine);
          if (call == 1) mine = result;
        }
        auto whole = x[rank];
        sent_by_all[rank] = sum(all, whole, text, whole.data()).bytes_sent;
      });
      std::size_t before = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        auto const count = static_cast<std::size_t>(counts[r]);
        std::vector<float> const expected(
            exact.begin() + static_cast<std::ptrdiff_t>(before),
            exact.begin() + static_cast<std::ptrdiff_t>(before + count));
        before += count;
        REQUIRE(found[r].size() == count);
        if (text.starts_with("sign")) continue;  // its draws differ
        double largest = 0;
        for (std::size_t i = 0; i < count; ++i)
          largest = std::max(largest, std::fabs(static_cast<double>(found[r][i]) - expected[i]));
        // fp16: three roundings of up to 3; inceptionn: three of a scale of up to 4; thc: its error
        // is spread over a block. A value at the wrong index would be off by more than these bounds
        // together.
        double const bound = text == "lossless_sparse" ? 0
                             : text.starts_with("identity") || text.starts_with("lossless_sparse")
                                 ? 1e-6
                             : text == "fp16"                 ? 9 * 0x1p-11
                             : text.starts_with("inceptionn") ? 12 * 0x1p-12
                                                              : 1.001e-3;
        if (text.starts_with("thc"))
          CHECK(distance(found[r], expected) <=
                0.3 * distance(expected, std::vector<float>(count)));
        else
          CHECK(largest <= bound);
      }
      std::uint64_t scattered = 0, whole = 0;
      for (std::size_t r = 0; r < ranks; ++r) scattered += sent[r], whole += sent_by_all[r];
      bool const never =
          text.find("recursive_doubling") != text.npos || text.find("sampled") != text.npos ||
          text.find("aggregator") != text.npos || text.find("hierarchical") != text.npos;
      if (counts[0] == 32768 && !never && text.find("ring") == text.npos)
        CHECK(scattered <= 0.52 * static_cast<double>(whole));
      if (counts[0] == 90000 && !never) CHECK(scattered == whole);
    }
}

TEST_CASE("plan_cache: hierarchical results cover all ranks, also with error feedback and signs") {
  for (auto const& where : std::vector<std::vector<std::uint64_t>>{{7, 8, 7}, {1, 2, 3}, {4, 4, 4}})
    for (std::string const text :
         {"fp16 algorithm=hierarchical", "lossless_sparse algorithm=hierarchical:ring",
          "thc bits=8 algorithm=hierarchical", "sign algorithm=hierarchical:direct",
          "sign algorithm=hierarchical:sampled"}) {
      CAPTURE(text);
      CAPTURE(where[1]);
      std::vector<int> const counts{30001, 29999, 30011};
      auto const x = vectors(90011);
      std::vector<float> exact(x[0].size());
      for (auto const& one : x)
        for (std::size_t i = 0; i < one.size(); ++i) exact[i] += one[i];
      auto const totals = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
        any_transport any(transport);
        auto nodes = node::node_ranks::make(any, 0, std::chrono::seconds(30), where);
        residual_store residuals(std::size_t{64} << 20);
        plan_cache all(any_transport(transport), 0, 0, residuals, &*nodes);
        std::vector<float> total(mine.size()), part(30011);
        constexpr int calls = 8;
        for (int call = 0; call < calls; ++call) {
          auto one = mine;
          sum(all, one, text, mine.data());
          for (std::size_t i = 0; i < one.size(); ++i) total[i] += one[i] / calls;
        }
        if (!text.starts_with("sign")) {
          all.reduce_scatter(value_type::float32, mine.data(), counts, part.data(), how(text),
                             part.data());
          auto const count = static_cast<std::size_t>(counts[static_cast<std::size_t>(all.rank())]);
          std::size_t const first = all.rank() == 0 ? 0 : all.rank() == 1 ? 30001 : 60000;
          double largest = 0;
          for (std::size_t i = 0; i < count; ++i)
            largest = std::max(largest, std::fabs(static_cast<double>(part[i]) - exact[first + i]));
          CHECK(largest < 0.5);  // a value at the wrong index would be off by up to 3
        }
        mine = total;
      });
      CHECK(totals[0] == totals[1]);
      CHECK(totals[0] == totals[2]);
      // Rounding to nearest halves of up to 3 three times; 8 bits of 1 in 5 values; means of 8
      // signs with error feedback, whose error falls with the number of calls and is large after
      // one call (see below).
      double const off =
          distance(totals[0], exact) / distance(exact, std::vector<float>(exact.size()));
      CHECK(off < (text.starts_with("sign") ? 0.9 : text.starts_with("thc") ? 0.02 : 2e-3));
      if (where[0] == where[1]) CHECK(off < 1e-6);  // nothing is encoded
    }
}

TEST_CASE(
    "plan_cache: error feedback belongs to a buffer; means of its calls approach the exact one") {
  // With error feedback, k reductions of the same vector are off by one residual, not k (see
  // error_feedback), so their mean is off by 1/k of it. Without error feedback, the mean keeps the
  // truncation error of thc.
  auto const x = vectors(4096);
  std::vector<float> exact(x[0].size());
  for (auto const& one : x)
    for (std::size_t i = 0; i < one.size(); ++i) exact[i] += one[i];
  constexpr int calls = 40;
  auto const mean_of = [&](bool same_buffer) {
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      residual_store residuals(std::size_t{64} << 20);
      plan_cache all(any_transport(transport), 0, 0, residuals);
      std::vector<float> total(mine.size());
      std::vector<char> buffers(calls);
      for (int call = 0; call < calls; ++call) {
        auto one = mine;
        sum(all, one, "sign", &buffers[same_buffer ? 0 : static_cast<std::size_t>(call)]);
        for (std::size_t i = 0; i < one.size(); ++i) total[i] += one[i] / calls;
      }
      mine = total;
    });
    return distance(found[0], exact);
  };
  CHECK(mean_of(true) < 0.5 * mean_of(false));
}

TEST_CASE("plan_cache: tensors that alternate in one buffer have separate residuals") {
  auto const x = vectors(2000);
  on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    residual_store residuals(std::size_t{64} << 20);
    plan_cache all(any_transport(transport), 0, 0, residuals);
    std::size_t const one = 2 * mine.size() * sizeof(float);
    for (std::size_t call = 1; call <= 7; ++call) {
      auto copy = mine;
      sum(all, copy, "thc turns=3", mine.data());
      if (residuals.bytes() != std::min<std::size_t>(call, 3) * one)
        throw std::logic_error("call " + std::to_string(call) + ": " +
                               std::to_string(residuals.bytes()) + " bytes of residuals");
    }
  });
}

TEST_CASE(
    "plan_cache: NaN propagates in codecs that encode it, and is refused on all ranks elsewhere") {
  auto x = vectors(1000);
  x[1][7] = std::numeric_limits<float>::quiet_NaN();
  for (std::string const text :
       {"lossless_sparse", "identity", "inceptionn", "error_bounded 1e-3"}) {
    CAPTURE(text);
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      residual_store residuals(1 << 20);
      plan_cache all(any_transport(transport), 0, 0, residuals);
      sum(all, mine, text, mine.data());
    });
    for (auto const& one : found) {
      CHECK(std::isnan(one[7]));
      CHECK(!std::isnan(one[8]));
    }
  }
  for (std::string const text : {"sign", "thc", "fp16", "bf16"}) {
    CAPTURE(text);
    std::vector<int> refused(ranks);
    auto const found = on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
      residual_store residuals(1 << 20);
      plan_cache all(any_transport(transport), 0, 0, residuals);
      try {
        sum(all, mine, text, mine.data());
      } catch (nonfinite_error const&) {
        refused[static_cast<std::size_t>(transport.rank())] = 1;
      }
    });
    CHECK(refused == std::vector<int>(ranks, 1));
    CHECK(found[0] == x[0]);
  }
}

TEST_CASE(
    "plan_cache: a value too large for signs is refused on all ranks, and later calls are right") {
  auto x = vectors(5000);
  for (auto& mine : x)
    for (float& v : mine) v = v * 0.01f + 0.02f;
  for (std::string const text :
       {"sign", "sign feedback=no", "sign_count", "sign algorithm=sampled"})
    for (float const large : {3e38f, -1e30f, 1e20f}) {
      CAPTURE(text);
      CAPTURE(large);
      std::vector<int> refused(ranks);
      auto y = x;
      auto const found = on_ranks(y, [&](in_process& transport, std::vector<float>& mine) {
        residual_store residuals(1 << 20), others(1 << 20);
        plan_cache all(any_transport(transport), 0, 0, residuals),
            calm(any_transport(transport), 0, 0, others);
        auto spoilt = mine, usual = mine;
        if (transport.rank() == 1) spoilt[7] = large;
        auto const before = spoilt;
        try {
          sum(all, spoilt, text, mine.data());
        } catch (nonfinite_error const& error) {
          bool const names = std::string(error.what()).find("few values are too large for signs") !=
                             std::string::npos;
          refused[static_cast<std::size_t>(transport.rank())] = names && spoilt == before;
        }
        spoilt = mine;  // all values have the same magnitude, independent of earlier calls
        sum(all, spoilt, text, mine.data());
        sum(calm, usual, text, mine.data());
        double largest = 0;
        for (float const v : spoilt) largest = std::max(largest, std::fabs(static_cast<double>(v)));
        if (largest > ranks * 0.04)
          throw std::logic_error("a sign is worth " + std::to_string(largest));
        mine = spoilt;
      });
      CHECK(refused == std::vector<int>(ranks, 1));
      CHECK(found[0] == found[1]);
    }
  // Vectors of few values, or of tiny values beside large ones, give the usual results.
  for (auto const& [many, few] : {std::pair{0.0f, 1.0f}, {1e-9f, 1.0f}, {1e-30f, 1e-30f}}) {
    auto y = x;
    for (auto& mine : y) {
      mine.assign(mine.size(), many);
      for (std::size_t i = 0; i < mine.size(); i += 1000) mine[i] = few;
    }
    on_ranks(y, [&](in_process& transport, std::vector<float>& mine) {
      residual_store residuals(1 << 20);
      plan_cache all(any_transport(transport), 0, 0, residuals);
      for (int call = 0; call < 3; ++call) {
        auto copy = mine;
        sum(all, copy, "sign", mine.data());
      }
    });
  }
}

TEST_CASE("plan_cache: a limit evicts the least recently used plans, and keeps at least one") {
  on_ranks(std::vector<std::vector<float>>(1), [&](in_process& transport, std::vector<float>&) {
    residual_store residuals(1 << 20);
    plan_cache all(any_transport(transport), 0, 0, residuals, nullptr, 4 * sizeof(float) * 1000);
    auto const check = [&](std::size_t values, std::size_t plans) {
      std::vector<float> y(values, 1.0f);
      sum(all, y, "identity", y.data());
      if (all.plans() != plans)
        throw std::logic_error(std::to_string(all.plans()) + " plans after a vector of " +
                               std::to_string(values));
    };
    check(1000, 1);
    check(1500, 2);
    check(1000, 2);
    check(1400, 3);
    check(100, 4);  // 4000 values in total
    check(1500, 4);
    check(1001, 3);  // evicts 1000 and 1400, keeps 100 and 1500
    check(9000, 1);
    check(9000, 1);
  });
}

TEST_CASE("plan_cache: every codec reports values out of one rank's range on all ranks") {
  std::size_t const n = 40000;
  std::vector<int> const even{20000, 10000, 10000}, uneven{39000, 500, 500};
  for (std::string const text : {"identity", "identity algorithm=recursive_doubling", "fp16",
                                 "lossless_sparse", "error_bounded 1e-3", "inceptionn E=12", "thc",
                                 "sign feedback=no", "sign algorithm=sampled"})
    for (auto const* counts : {&even, &uneven}) {
      CAPTURE(text);
      auto const x = vectors(n);
      auto after = x;
      int told = 0;
      std::mutex mutex;
      run_ranks(ranks, [&](in_process& transport) {
        auto const rank = static_cast<std::size_t>(transport.rank());
        residual_store residuals(1 << 20);
        plan_cache all(any_transport(transport), 0, 0, residuals);
        auto& mine = after[rank];
        std::vector<float> part(n);
        float* const place = rank == 1 ? nullptr : mine.data();
        auto const refused = [&](auto const& call) {
          try {
            call();
          } catch (memory_error const&) {
            std::lock_guard const lock(mutex);
            ++told;
          }
        };
        refused([&] { all.all_reduce(value_type::float32, place, n, how(text), place); });
        refused([&] {
          all.reduce_scatter(value_type::float32, place, *counts, place ? part.data() : nullptr,
                             how(text), place);
        });
      });
      CHECK(told == 2 * ranks);
      CHECK(after == x);
    }
}

TEST_CASE_TEMPLATE(
    "plan_cache: what a sign is worth counts every value, and zeros for the mean only", V, float,
    double, float16, bfloat16) {
  host_executor executor;
  drop_in::magnitude_meter<host_executor> meter(100'000);
  for (std::size_t const n : {0u, 1u, 31u, 32u, 33u, 100u, 4'095u, 4'096u, 4'097u, 100'000u}) {
    CAPTURE(n);
    std::vector<V> x(n);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      float const value = i % 3 == 0 ? 0.0f : i % 2 == 0 ? -4.0f : 4.0f;
      x[i] = static_cast<V>(value);
      sum += std::fabs(value + 0.5);
    }
    auto const none = meter.measure(executor, static_cast<V const*>(x.data()), n);
    CHECK(none.sum == 4.0 * static_cast<double>(n - (n + 2) / 3));
    CHECK(none.typical == (n > 1 ? 4 : 0));
    std::vector<accumulator_t<V>> const half(n, 0.5f), third(n, 1.0f / 3);
    auto const measured_with = [&](auto const& lost) {
      return compensated<V>{x.data(), lost.data()};
    };
    CHECK(meter.measure(executor, measured_with(half), n).sum == sum);
    drop_in::detail::block_on_cpu<compensated<V>> const work{measured_with(third), n};
    auto const expected = run_at(simd_level::baseline, work);
    for (auto const level : {simd_level::avx2, simd_level::avx512})
      if (level <= best_simd_level()) CHECK(run_at(level, work).sum == expected.sum);
  }
}
