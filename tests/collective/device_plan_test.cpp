// optimise: -O1
#include <doctest/doctest.h>

#include <algorithm>
#include <collective/host_memory.hpp>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/engine/detail/narrow_encoding.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/encode.hpp>
#include <limits>
#include <span>
#include <string>
#include <support/guarded_executor.hpp>
#include <support/reaching_transport.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

struct move_guarded {
  void operator()(std::byte* to, std::byte const* from, std::size_t bytes) const {
    guarded_memory::opened const open;
    std::copy_n(from, bytes, to);
  }
};
using reaching = reaching_transport<move_guarded>;

enum class strategy { host_staged, direct, host_staged_over_reaching, host_staged_beside_a_host };

/// The same in host memory. Returns the bytes sent by the last call.
template <class C>
std::uint64_t reduced_on_host(C const& codec, in_process& transport, std::span<float> mine,
                              plan_options const& options) {
  host_executor executor;
  plan sum(mine.size(), codec, transport, executor, options);
  sum.all_reduce(mine, {.step = 0});
  return sum.all_reduce(mine, {.step = 1}).bytes_sent;
}

/// Two all-reduces on devices. `sent` gets the bytes sent by the last one.
template <class C>
std::vector<std::vector<float>> reduced_on_devices(C const& codec,
                                                   std::vector<std::vector<float>> const& x,
                                                   plan_options const& options,
                                                   std::vector<std::uint64_t>& sent, strategy by) {
  return on_ranks(x, [&](in_process& transport, auto& mine) {
    if (by == strategy::host_staged_beside_a_host && transport.rank() == 0) {
      sent[0] = reduced_on_host(codec, transport, mine, options);
      return;
    }
    guarded_executor executor;
    device_vector<float> const values(mine, executor);
    auto const sum_over = [&](auto& over, message_memory expected) {
      plan sum(mine.size(), codec, over, executor, options);
      for (std::uint64_t step = 0; step < 2; ++step) {
        auto const before = buffers_made;
        auto const made = sum.all_reduce(values.span(), {.step = step});
        CHECK((step == 0 || buffers_made == before));
        CHECK(made.messages == expected);
        sent[static_cast<std::size_t>(transport.rank())] = made.bytes_sent;
      }
      mine = values.host();
    };
    reaching direct(transport);
    if (by == strategy::direct) return sum_over(direct, message_memory::device);
    // each further codec adds seconds of compile time
    if constexpr (C::codec_id == sign<>::codec_id)
      if (by == strategy::host_staged_over_reaching) {
        host_staged over(direct, executor);
        return sum_over(over, message_memory::device);
      }
    host_staged over(transport, executor);
    sum_over(over, message_memory::host_staged);
  });
}
template <class C>
std::vector<std::vector<float>> reduced_on_nodes(C const& codec,
                                                 std::vector<std::vector<float>> const& x,
                                                 plan_options const& options,
                                                 std::vector<std::uint64_t>& sent) {
  return on_ranks(x, [&](in_process& transport, auto& mine) {
    sent[static_cast<std::size_t>(transport.rank())] =
        reduced_on_host(codec, transport, mine, options);
  });
}

std::vector<std::vector<float>> vectors(std::size_t values, int ranks) {
  auto x = uniform_vectors(ranks, values, 8);
  return x;
}

}  // namespace

TEST_CASE("plan on devices: the bits and the bytes of plans on CPUs; the host touches no memory") {
  builtin_codecs<float>::for_each([]<class C>() {
    constexpr std::size_t block = C::block_values;
    for (int const ranks : few_cases ? std::vector{3} : std::vector{1, 3, 4})
      for (std::string const name : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
        for (std::size_t const values : {std::size_t{1}, block + 1, 4 * block + 7})
          for (bool const flag : {false, true}) {
            CAPTURE(std::string(C::name));
            CAPTURE(ranks);
            CAPTURE(name);
            CAPTURE(values);
            CAPTURE(flag);
            auto const codec = fit(C{}, static_cast<std::uint32_t>(ranks));
            // decoded on arrival, or with checksums after everything has arrived
            plan_options const options{
                .algorithm = algorithm::from(name),
                .checksum = flag,
                .segment_bytes = flag ? std::size_t{1} : std::size_t{1} << 16,
                .decode_on_arrival_bytes = 0};
            auto const x = vectors(values, ranks);
            std::vector<std::uint64_t> sent(x.size()), expected = sent;
            auto const wanted = reduced_on_nodes(codec, x, options, expected);
            for (strategy const by :
                 {strategy::host_staged, strategy::direct, strategy::host_staged_over_reaching,
                  strategy::host_staged_beside_a_host}) {
              if (by == strategy::host_staged_over_reaching && C::codec_id != sign<>::codec_id)
                continue;
              CAPTURE(static_cast<int>(by));
              auto const found = reduced_on_devices(codec, x, options, sent, by);
              CHECK(sent == expected);
              for (std::size_t rank = 0; rank < x.size(); ++rank)
                CHECK(first_difference(found[rank], wanted[rank]) == nowhere);
            }
          }
  });
}

TEST_CASE("plan on devices: for narrow messages the host does not wait more often") {
  // Four segments in each of 3 parts. A segment that bypasses host memory is inspected once.
  constexpr std::size_t values = 12 * thc<>::block_values;
  auto const x = vectors(values, 3);
  auto const waits = [&](bool narrow, bool direct) {
    std::vector<std::size_t> found(x.size());
    on_ranks(x, [&](in_process& transport, auto& mine) {
      guarded_executor executor;
      device_vector<float> const device_values(mine, executor);
      auto const count = [&](auto& over) {
        plan sum(values, fit(thc<>{}, 3), over, executor, {.narrow = narrow, .segment_bytes = 1});
        std::size_t const before = waits_for_work;
        sum.all_reduce(device_values.span());
        found[static_cast<std::size_t>(transport.rank())] = waits_for_work - before;
      };
      reaching direct_transport(transport);
      host_staged over(transport, executor);
      direct ? count(direct_transport) : count(over);
    });
    return found;
  };
  auto const wide = waits(false, false), narrow = waits(true, false);
  auto const wide_direct = waits(false, true), narrow_direct = waits(true, true);
  for (std::size_t rank = 0; rank < x.size(); ++rank) {
    CAPTURE(rank);
    CHECK(narrow[rank] == wide[rank]);
    // received: 4 segments in 2 hops of either phase; sent: 4 merged segments
    CHECK(narrow_direct[rank] <= wide_direct[rank] + 2 * 2 * 4 + 3 * 4);
  }
}

TEST_CASE(
    "host_staged: over a transport that reaches the device, messages follow the work before them") {
  run_ranks(2, [](in_process& transport) {
    guarded_executor executor;
    reaching direct(transport);
    host_staged over(direct, executor);
    int const other = 1 - transport.rank();
    guarded_buffer const memory(1);
    std::byte const first{7}, second{9};
    std::byte before{}, after{};
    executor.write(memory.data(), &first, 1);
    executor.read(&before, memory.data(), 1);
    auto in = over.irecv(other, 1, {memory.data(), 1});
    auto out = over.isend(other, 1, std::span(&second, 1));
    over.wait(in);
    over.wait(out);
    executor.wait(executor.read(&after, memory.data(), 1));
    CHECK(before == first);
    CHECK(after == second);
  });
}

TEST_CASE("plan on devices: NaN is refused on all ranks alike, and x is unchanged") {
  auto x = vectors(50000, 3);
  x[1][40000] = std::numeric_limits<float>::quiet_NaN();
  auto after = x;
  auto const outcomes = outcomes_on(3, [&](in_process& transport) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    guarded_executor executor;
    host_staged over(transport, executor);
    device_vector<float> const values(x[rank], executor);
    plan sum(x[rank].size(), sign<>{}, over, executor);
    auto const outcome = outcome_of([&] { sum.all_reduce(values.span()); });
    after[rank] = values.host();
    if (outcome.what == "nonfinite_error") throw nonfinite_error(outcome.text);
  });
  CAPTURE(to_text(outcomes));
  CHECK(all_ended_alike(outcomes, "nonfinite_error"));
  for (std::size_t rank = 0; rank < x.size(); ++rank)
    CHECK(first_difference(after[rank], x[rank]) == nowhere);
}

TEST_CASE("plan on devices: damage is reported as on CPUs, on all ranks") {
  constexpr std::size_t values = 3 * thc<>::block_values;
  /// Rank 0 flips one bit of its first message with blocks.
  auto const damaged = [](bool on_device, bool checksum, std::size_t bit) {
    auto const x = vectors(values, 3);
    return outcomes_on(3, [&](in_process& inner) {
      bool done = inner.rank() != 0;
      tampered_transport transport(inner, [&](int, int, std::span<std::byte> bytes) {
        bool const has_blocks = bytes.size() >= block_header_bytes &&
                                load<std::uint16_t>(bytes.data()) == block_header{}.magic;
        if (has_blocks && !std::exchange(done, true))
          bytes[bit / 8 % bytes.size()] ^= static_cast<std::byte>(1 << bit % 8);
      });
      auto mine = x[static_cast<std::size_t>(inner.rank())];
      auto const codec = fit(thc<>{}, 3);
      plan_options const options{.algorithm = algorithm::from("direct"), .checksum = checksum};
      if (on_device) {
        guarded_executor executor;
        host_staged over(transport, executor);
        device_vector<float> const device_values(mine, executor);
        plan(values, codec, over, executor, options).all_reduce(device_values.span());
      } else {
        host_executor executor;
        plan(values, codec, transport, executor, options).all_reduce(std::span(mine));
      }
    });
  };
  for (bool const checksum : {false, true})
    for (std::size_t bit = 0; bit < 8 * (block_header_bytes + 4); bit += few_cases ? 19 : 3) {
      CAPTURE(checksum);
      CAPTURE(bit);
      auto const found = damaged(true, checksum, bit);
      CAPTURE(to_text(found));
      CHECK(found == damaged(false, checksum, bit));
    }
}

TEST_CASE("plan on devices: a narrow block whose length differs from its slot is refused alone") {
  auto const codec = fit(sign_count<>{}, 6);
  auto const x = uniform_values(3 * sign_count<>::block_values, 5, 0);
  auto const layout = layout_of(codec, x.size());
  std::size_t const block = layout.block_bytes;
  auto const wide = encode(codec, std::span(x), {.weight = 6});
  host_executor host;
  std::vector<std::byte> message(layout.bytes());
  message.resize(detail::narrow_encoding<sign_count<>, host_executor>(layout, 3).narrow(
      codec, host, layout.all(), wide.data(), message.data(), 6));
  auto const damage_second = [&](auto const& change) {
    auto damaged = message;
    auto header = load<block_header>(damaged.data() + message.size() / 3);
    change(header);
    std::memcpy(damaged.data() + message.size() / 3, &header, sizeof(header));
    guarded_executor executor;
    guarded_buffer const device_values(damaged.size()), out(wide.size());
    std::vector<std::byte> made(wide.size());
    executor.write(device_values.data(), damaged.data(), damaged.size());
    detail::narrow_encoding<sign_count<>, guarded_executor>(layout, 3).widen(
        codec, executor, layout.all(), {device_values.data(), damaged.size()}, damaged.data(),
        out.data());
    executor.wait(executor.read(made.data(), out.data(), made.size()));
    for (std::size_t const b : {0, 2})
      CHECK(std::equal(&made[b * block], &made[b * block] + block, &wide[b * block]));
    CHECK(std::all_of(&made[block], &made[block] + block_header_bytes,
                      [](std::byte one) { return one == std::byte{0}; }));
  };
  damage_second([](block_header& header) { header.weight = 1; });  // shorter
  damage_second([](block_header& header) { --header.values; });
}

TEST_CASE("plan on devices: a segment is a quarter of a part, or all of a short part") {
  run_ranks(2, [](in_process& transport) {
    guarded_executor device;
    host_executor host;
    host_staged over(transport, device);
    auto const bytes_of = [&](std::size_t values, plan_options const& options) {
      return plan(values, identity<float>(), over, device, options).options().segment_bytes;
    };
    std::size_t const least = plan_options{}.segment_bytes, part = std::size_t{1} << 23;
    CHECK(bytes_of(1000, {}) == least);
    CHECK(bytes_of(part / 32, {}) == (part + part / 4 / 4096 * 32) / 16);  // a complete part
    CHECK(bytes_of(part / 8, {}) == std::size_t{1} << 20);
    CHECK(bytes_of(part / 2, {}) == (part + part / 4 / 4096 * 32) / 4);  // and headers
    CHECK(bytes_of(part / 2, {.device_segment_bytes = part / 16}) == part / 16);
    CHECK(bytes_of(part / 2, {.device_segment_bytes = 1}) == least);
    CHECK(bytes_of(part / 2, {.segment_bytes = 10'000}) == 10'000);
    plan const device_values(part / 2, identity<float>(), transport, host);
    CHECK(device_values.options().segment_bytes == least);
  });
}

TEST_CASE("plan on devices: values of one rank that are in host memory are refused on all ranks") {
  check_host_memory_is_refused(50000, [](auto& transport, auto& executor, std::span<float> x) {
    plan(x.size(), sign<>{}, transport, executor).all_reduce(x);
  });
}

TEST_CASE("plan on devices: a transport that cannot reach device memory is refused") {
  run_ranks(1, [](in_process& transport) {
    guarded_executor executor;
    CHECK_THROWS_WITH(plan(10, sign<>{}, transport, executor),
                      "plan: the transport does not reach the executor's memory, which is a "
                      "device's; hcomp::host_staged copies messages for it");
  });
}
