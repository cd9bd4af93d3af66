#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <mutex>
#include <span>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr std::size_t many = 1'200'000;

/// Bytes that all transports together sent in one `Sum`, as they count them. Checks the reports
/// against that.
template <class Sum, class C>
std::uint64_t bytes_of(C const& codec, int ranks, plan_options const& options,
                       std::size_t values = many) {
  std::vector<std::uint64_t> sent(static_cast<std::size_t>(ranks)), reported = sent;
  run_ranks(ranks, [&](in_process& transport) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    host_executor executor;
    auto x = std::vector<float>(values, rank % 2 == 0 ? 1.f : -1.f);
    reported[rank] =
        Sum(values, codec, transport, executor, options).all_reduce(std::span(x)).bytes_sent;
    sent[rank] = transport.bytes_sent();
  });
  CHECK(sent == reported);
  std::uint64_t total = 0;
  for (auto const bytes : sent) total += bytes;
  return total;
}

template <class C> using plan_of = plan<C, in_process, host_executor>;

double bits_per_value_and_hop(std::uint64_t bytes, int hops, std::size_t values = many) {
  return static_cast<double>(bytes) * 8 / static_cast<double>(values) / hops;
}

}  // namespace

TEST_CASE(
    "traffic: sign sends one bit per value and hop, headers and checks included, on 2 to 8 ranks") {
  for (int const ranks : {2, 4, 8})
    for (std::string const how : {"ring", "torus", "direct"}) {
      CAPTURE(ranks);
      CAPTURE(how);
      auto const bytes =
          bytes_of<plan_of<sign<>>>(sign<>{}, ranks, {.algorithm = algorithm::from(how)});
      // over all ranks every one of 2 (P - 1) hops moves the whole vector once
      double const bits = bits_per_value_and_hop(bytes, 2 * (ranks - 1));
      CHECK(bits >= 1);
      CHECK(bits <= 1.02);
    }
}

TEST_CASE("traffic: headers and checks cost sign more bits where vectors are short") {
  struct {
    std::size_t values;
    double most;
  } const sizes[] = {{1000, 2.16}, {10'000, 1.17}, {100'000, 1.03}};
  for (auto const& [values, most] : sizes) {
    double bits = 0;
    for (int const ranks : {2, 4, 8}) {
      auto const bytes = bytes_of<plan_of<sign<>>>(sign<>{}, ranks, {}, values);
      bits = std::max(bits, bits_per_value_and_hop(bytes, 2 * (ranks - 1), values));
    }
    std::printf("sign of %zu values: at most %.2f bits per value and hop\n", values, bits);
    CHECK(bits <= most);
  }
}

TEST_CASE("traffic: algorithm sampled sends half of the ring's bytes") {
  for (int const ranks : {2, 5, 8}) {
    CAPTURE(ranks);
    auto const bytes =
        bytes_of<plan_of<sign<>>>(sign<>{}, ranks, {.algorithm = {algorithm_kind::sampled}});
    double const bits = bits_per_value_and_hop(bytes, ranks - 1);
    CHECK(bits >= 1);
    CHECK(bits <= 1.02);
  }
}

TEST_CASE(
    "traffic: all ranks send 2 (P - 1) encoded vectors and P log2 P call summaries and "
    "statistics") {
  builtin_codecs<float>::for_each([]<class C>() {
    for (int const ranks : {1, 3, 4})
      for (std::string const how : {"ring", "torus", "direct"}) {
        CAPTURE(std::string(C::name));
        CAPTURE(ranks);
        CAPTURE(how);
        constexpr std::size_t values = 100'001;
        auto const codec = fit(C{}, static_cast<std::uint32_t>(ranks));
        auto const p = static_cast<std::uint64_t>(ranks);
        auto const layout = layout_of(codec, values, ranks);
        auto const steps = static_cast<std::uint64_t>(std::bit_width(p - 1));  // ceil(log2 P)
        auto const encoded = 2 * (p - 1) * layout.bytes() +
                             p * steps * statistics_words(codec, layout) * sizeof(std::uint32_t);
        auto const records = p * steps * sizeof(detail::sealed<detail::call_summary>);
        plan_options options{.algorithm = algorithm::from(how), .narrow = false};
        CHECK(bytes_of<plan_of<C>>(codec, ranks, options, values) == encoded + records);
        options.check = false;
        CHECK(bytes_of<plan_of<C>>(codec, ranks, options, values) == encoded);
      }
  });
}

TEST_CASE(
    "traffic: THC by direct sends 4 bits in the reduce-scatter, the bits of a sum in the "
    "all-gather, plus 1 %") {
  for (int const ranks : {2, 4, 8, 15, 16, 40}) {
    CAPTURE(ranks);
    auto const codec = fit(thc<>{}, static_cast<std::uint32_t>(ranks));
    int const down = std::bit_width(static_cast<unsigned>(codec.granularity() * ranks));
    CHECK(codec.narrow_bits(static_cast<std::uint32_t>(ranks)) == down);
    std::size_t const values = std::size_t{1} << 20;  // whole blocks
    auto const bytes = bytes_of<plan_of<thc<>>>(
        codec, ranks, {.algorithm = {algorithm_kind::direct}, .check = false}, values);
    // each value goes with 4 bits to P - 1 servers, its sum with `down` bits to P - 1 ranks
    double const ideal = static_cast<double>(values) / 8 * (ranks - 1) * (4 + down);
    CHECK(static_cast<double>(bytes) >= ideal);
    CHECK(static_cast<double>(bytes) <= 1.01 * ideal);
    CAPTURE(down);
    MESSAGE(ranks << " ranks: 4 bits up, " << down << " down, "
                  << 100 * (static_cast<double>(bytes) / ideal - 1) << " % for norms and headers");
  }
}

TEST_CASE("traffic: counts of signs are sent in the bits that their sum needs, and stay exact") {
  std::size_t const values = std::size_t{9 * 8} * 8192;  // whole blocks for every number of ranks
  auto const bits_of = [](int ranks) { return std::bit_width(static_cast<unsigned>(ranks)); };
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (std::string const how : {"ring", "direct", "recursive_doubling"}) {
      CAPTURE(ranks);
      CAPTURE(how);
      std::uint64_t sent = 0;
      std::mutex counting;
      run_ranks(ranks, [&](in_process& transport) {
        host_executor executor;
        std::vector<float> x(values), expected(values);
        for (std::size_t i = 0; i < values; ++i) {
          // the first i % (P + 1) ranks, counted from rank i % P on, vote for it
          auto const p = static_cast<std::size_t>(ranks), in_favour = i % (p + 1);
          auto const place = (static_cast<std::size_t>(transport.rank()) + i) % p;
          x[i] = place < in_favour ? 1.f : -1.f;
          expected[i] = 2.f * static_cast<float>(in_favour) - static_cast<float>(ranks);
        }
        plan_of<sign_count<>>(values, fit(sign_count<>{}, static_cast<std::uint32_t>(ranks)),
                              transport, executor,
                              {.algorithm = algorithm::from(how), .check = false})
            .all_reduce(std::span(x));
        CHECK(x == expected);
        std::lock_guard const lock(counting);
        sent += transport.bytes_sent();
      });
      // bits per value that all ranks send together
      double bits = 0;
      if (how == "ring") {
        for (int summed = 1; summed < ranks; ++summed) bits += bits_of(summed);
        bits += (ranks - 1) * bits_of(ranks);
      } else if (how == "direct") {
        bits = (ranks - 1) * (1 + bits_of(ranks));
      } else {
        if (!std::has_single_bit(static_cast<unsigned>(ranks))) continue;  // exactness only
        for (int summed = 1; summed < ranks; summed *= 2) bits += ranks * bits_of(summed);
      }
      double const ideal = static_cast<double>(values) / 8 * bits;
      CHECK(static_cast<double>(sent) >= ideal);
      CHECK(static_cast<double>(sent) <= 1.032 * ideal);  // a header of 32 bytes per 1024 or more
    }
}

TEST_CASE("traffic: a majority of 4 ranks is agreed on in 6 bits per value by direct, 8 by ring") {
  // The reduce-scatter sends counts. Then each owner sends its verdicts, which are votes of one
  // rank: one bit.
  std::size_t const values = std::size_t{4 * 8} * 8192;
  struct {
    std::string how;
    double bits;
  } const cases[] = {{"direct", 3 * (1 + 1)}, {"ring", 1 + 2 + 2 + 3 * 1}};
  for (auto const& one : cases)
    run_ranks(4, [&](in_process& transport) {
      CAPTURE(one.how);
      host_executor executor;
      plan_of<sign_count<>> votes(values, fit(sign_count<>{}, 4), transport, executor,
                                  {.algorithm = algorithm::from(one.how), .check = false});
      std::vector<float> x(values, transport.rank() < 3 ? -1.f : 1.f);
      votes.reduce_scatter(x);
      CHECK(x[votes.shard().first] == -2);
      votes.all_gather(x);
      CHECK(x == std::vector<float>(values, -1));
      double const ideal = static_cast<double>(values) / 8 * one.bits / 4;
      CHECK(static_cast<double>(transport.bytes_sent()) >= ideal);
      // a header of 32 bytes per 1024, and records by which ranks agree to decode on arrival
      CHECK(static_cast<double>(transport.bytes_sent()) <= 1.034 * ideal);
    });
}

TEST_CASE("traffic: encoded vectors have the size of their codec's documentation") {
  auto const bits = [](auto const& codec) {
    return static_cast<double>(layout_of(codec, many).bytes()) * 8 / many;
  };
  // a header of 256 bits per started block of 32768, 8192 or 4096 values
  CHECK(bits(sign<>{}) < 1 + 1.03 * 256 / 32768);
  CHECK(bits(fit(sign_count<>{}, 8)) < 4 + 1.03 * 256 / 8192);
  CHECK(bits(sign_count<>{}) < 8 + 1.03 * 256 / 8192);
  CHECK(bits(identity<>{}) < 32 + 1.03 * 256 / 4096);
  CHECK(bits(float_cast<float16>{}) < 16 + 1.03 * 256 / 4096);
}
