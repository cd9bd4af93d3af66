
/// @file
/// Sampled selection on devices gives the bits of hosts. The host touches no device memory.

#include <doctest/doctest.h>

#include <algorithm>
#include <collective/endings.hpp>
#include <collective/host_memory.hpp>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/detail/sampled_bits.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <limits>
#include <span>
#include <string>
#include <support/guarded_executor.hpp>
#include <support/worker_group.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr std::size_t block = sign<>::block_values;
using vectors = std::vector<std::vector<float>>;

vectors values_of(int ranks, std::size_t n) {
  vectors x;
  for (int r = 0; r < ranks; ++r) x.push_back(uniform_values(n, 3, r));
  return x;
}

/// x after a call that follows two calls with other weights and another vector. Rank `host` has no
/// device.
vectors selected(vectors const& x, plan_options const& options, call_options const& call, int host,
                 std::vector<std::uint64_t>& sent) {
  sent.assign(x.size(), 0);
  return on_ranks(x, [&](in_process& transport, std::vector<float>& mine) {
    auto const rank = static_cast<std::size_t>(transport.rank());
    auto my_call = call;
    my_call.weight += static_cast<std::uint32_t>(2 * rank);
    auto other = mine;
    for (float& value : other) value = -value;
    auto const sum_all = [&](auto& over, auto& executor, std::span<float> first,
                             std::span<float> second) {
      plan sum(mine.size(), sign<>{0.5f}, over, executor, options);
      sum.all_reduce(first, my_call);
      auto const before = buffers_made;
      my_call.step = my_call.step.value_or(0) + 1;
      sum.all_reduce(first, my_call);
      CHECK(buffers_made == before);
      my_call.weight += 1;
      auto const stats = sum.all_reduce(second, my_call);
      sent[rank] = stats.bytes_sent;
      return stats.messages;
    };
    if (host < 0 || transport.rank() == host) {
      host_executor executor;
      CHECK(sum_all(transport, executor, other, mine) == message_memory::host);
      return;
    }
    guarded_executor executor;
    host_staged over(transport, executor);
    device_vector<float> const first(other, executor), second(mine, executor);
    CHECK(sum_all(over, executor, first.span(), second.span()) == message_memory::host_staged);
    mine = second.host();
  });
}

}  // namespace

TEST_CASE("sampled on devices: the bits and the bytes of CPUs") {
  // 12 ranks draw one random number per value
  for (int const ranks : few_cases ? std::vector{3, 12} : std::vector{1, 3, 4, 12})
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, block - 1, 3 * block + 77})
      for (bool const flag : {false, true}) {
        CAPTURE(ranks);
        CAPTURE(n);
        CAPTURE(flag);
        plan_options const options{.algorithm = {algorithm_kind::sampled},
                                   .checksum = flag,
                                   .segment_bytes = flag ? std::size_t{1} : 2 * (block / 8 + 32)};
        call_options const call{.seed = 8, .op = flag ? reduce_op::mean : reduce_op::sum};
        auto const x = values_of(ranks, n);
        std::vector<std::uint64_t> expected, sent;
        constexpr int nobody = 1000;
        auto const wanted = selected(x, options, call, -1, expected);
        for (int const host : {nobody, ranks / 2}) {  // devices only, and with one host
          CAPTURE(host);
          auto const found = selected(x, options, call, host, sent);
          CHECK(sent == expected);
          for (std::size_t r = 0; r < x.size(); ++r)
            CHECK(first_difference(found[r], wanted[r]) == nowhere);
        }
      }
}

TEST_CASE("sampled on devices: NaN is refused on all ranks alike, or makes all NaN") {
  auto x = values_of(3, 2 * block + 5);
  x[1][block + 3] = std::numeric_limits<float>::quiet_NaN();
  for (bool const is_refused : {true, false}) {
    CAPTURE(is_refused);
    auto after = x;
    auto const outcomes = outcomes_on(3, [&](in_process& transport) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      guarded_executor executor;
      host_staged over(transport, executor);
      device_vector<float> const values(x[rank], executor);
      plan_options options{.algorithm = {algorithm_kind::sampled}, .segment_bytes = 1};
      if (!is_refused) options.nonfinite = nonfinite_policy::propagate;
      plan sum(x[rank].size(), sign<>{}, over, executor, options);
      auto const outcome = outcome_of([&] { sum.all_reduce(values.span()); });
      after[rank] = values.host();
      if (outcome.what == "nonfinite_error") throw nonfinite_error(outcome.text);
    });
    CAPTURE(to_text(outcomes));
    CHECK(all_ended_alike(outcomes, is_refused ? "nonfinite_error" : "returned"));
    for (std::size_t rank = 0; rank < x.size(); ++rank)
      if (is_refused) {
        CHECK(first_difference(after[rank], x[rank]) == nowhere);
      } else {
        std::size_t numbers = 0;
        for (float const value : after[rank]) numbers += value == value;
        CHECK(numbers == 0);
      }
  }
}

TEST_CASE("sampled on devices: damage is reported as on CPUs") {
  constexpr std::size_t n = 2 * block + 5;
  auto const x = values_of(3, n);
  auto const damaged = [&](bool on_device, bool checksum, std::size_t byte) {
    return outcomes_on(3, [&](in_process& inner) {
      bool done = inner.rank() != 1;
      tampered_transport transport(inner, [&](int, int, std::span<std::byte> bytes) {
        bool const has_header = bytes.size() >= block_header_bytes &&
                                load<std::uint16_t>(bytes.data()) == block_header{}.magic;
        if (has_header && !std::exchange(done, true)) bytes[byte % bytes.size()] ^= std::byte{4};
      });
      auto mine = x[static_cast<std::size_t>(inner.rank())];
      plan_options const options{.algorithm = {algorithm_kind::sampled}, .checksum = checksum};
      if (on_device) {
        guarded_executor executor;
        host_staged over(transport, executor);
        device_vector<float> const device_values(mine, executor);
        plan(n, sign<>{}, over, executor, options).all_reduce(device_values.span());
      } else {
        host_executor executor;
        plan(n, sign<>{}, transport, executor, options).all_reduce(std::span(mine));
      }
    });
  };
  int complaints = 0;
  for (bool const checksum : {false, true})
    for (std::size_t const byte : {0, 2, 3, 4, 8, 12, 16, 20, 24, 32, 900}) {
      CAPTURE(checksum);
      CAPTURE(byte);
      auto const found = damaged(true, checksum, byte);
      CAPTURE(to_text(found));
      CHECK(found == damaged(false, checksum, byte));
      complaints += found[0].what == "wire_error";
    }
  CHECK(complaints == 11);  // rank 0 only with checksums: it does not receive that message
}

TEST_CASE("sampled on devices: values of one rank in host memory are refused on all") {
  check_host_memory_is_refused(5000, [](auto& transport, auto& executor, std::span<float> x) {
    plan(x.size(), sign<>{}, transport, executor, {.algorithm = {algorithm_kind::sampled}})
        .all_reduce(x);
  });
}

TEST_CASE("sampled: workers in warps compute the bits of one worker") {
  constexpr std::size_t n = block + 70 * 64 + 5;
  for (std::size_t const ranks :
       {std::size_t{1}, std::size_t{2}, std::size_t{5}, std::size_t{19}}) {
    CAPTURE(ranks);
    std::vector<std::uint32_t> weights;
    for (std::size_t r = 0; r < ranks; ++r)
      weights.push_back(1 + static_cast<std::uint32_t>(r % 3));
    auto const tree = detail::sampling::tree_of(weights);
    auto const cells = detail::sampling::cells_of(weights);
    auto const layout = layout_of(sign<>{}, n);
    detail::owners const owners{tree.data(), detail::sampling::lots_of(cells, ranks), ranks, 77};
    std::vector<std::byte> encoded(layout.bytes());
    for (std::size_t i = 0; i < encoded.size(); ++i) encoded[i] = static_cast<std::byte>(mix(i));
    std::size_t const rank = ranks / 2, b = 1;

    auto by_one = encoded, by_many = encoded;
    std::vector<std::uint32_t> one_counts(2 * ranks), many_counts(2 * ranks);
    detail::pack_owned_bits pack{layout, owners, rank, by_one.data(), one_counts.data()};
    pack(serial_group{}, b);
    pack.encoded = by_many.data();
    pack.counts = many_counts.data();
    workers::run_in_warps<64>(pack.scratch_bytes(), [&](auto group) { pack(group, b); });
    CHECK(one_counts == many_counts);
    std::size_t const at = layout.offset(b) + block_header_bytes;
    std::size_t const bytes = (one_counts[b * ranks + rank] + 7) / 8;
    CHECK(bytes > 0);
    auto const packed = [&](std::vector<std::byte> const& from) {
      return std::vector(from.begin() + static_cast<std::ptrdiff_t>(at),
                         from.begin() + static_cast<std::ptrdiff_t>(at + bytes));
    };
    CHECK(packed(by_one) == packed(by_many));

    std::vector<std::size_t> starts(2 * ranks);
    std::size_t end = 3;
    for (std::size_t r = 0; r < ranks; ++r) {
      starts[b * ranks + r] = end;
      end += (one_counts[b * ranks + r] + 7) / 8;
    }
    std::vector<std::byte> messages(end + 16);
    for (std::size_t i = 0; i < messages.size(); ++i)
      messages[i] = static_cast<std::byte>(mix(i + 5));
    detail::unpack_owned_bits unpack{layout,          owners,        block_header{},
                                     messages.data(), starts.data(), by_one.data()};
    unpack(serial_group{}, b);
    by_many = encoded;
    unpack.encoded = by_many.data();
    workers::run_in_warps<64>(unpack.scratch_bytes(), [&](auto group) { unpack(group, b); });
    CHECK(std::equal(by_one.begin() + static_cast<std::ptrdiff_t>(layout.offset(b)), by_one.end(),
                     by_many.begin() + static_cast<std::ptrdiff_t>(layout.offset(b))));
  }
}
