#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/digest.hpp>
#include <hcomp/transport/in_process.hpp>
#include <span>
#include <string>
#include <support/few_cases.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

TEST_CASE("all_gather_records: every rank gets every rank's record, in the order of the ranks") {
  struct record {
    std::uint64_t rank, square;
  };
  for (int ranks = 1; ranks <= 17; ++ranks) {
    CAPTURE(ranks);
    std::vector<std::vector<record>> all(static_cast<std::size_t>(ranks));
    std::vector<std::uint64_t> sent(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](in_process& transport) {
      auto const rank = static_cast<std::uint64_t>(transport.rank());
      all[rank].resize(50);  // previous contents do not matter
      all_gather_records(transport, 3, record{rank, rank * rank}, all[rank]);
      sent[rank] = transport.bytes_sent();
    });
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      CAPTURE(rank);
      REQUIRE(all[rank].size() == all.size());
      for (std::uint64_t i = 0; i < all.size(); ++i) {
        CHECK(all[rank][i].rank == i);
        CHECK(all[rank][i].square == i * i);
      }
      CHECK(sent[rank] == (all.size() - 1) * (sizeof(record) + 8));
    }
  }
}

TEST_CASE("unite_records: every rank gets the union of all records, in ceil(log2 P) steps") {
  struct record {
    std::uint64_t lowest, highest;
  };
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (int low = 0; low < ranks; ++low) {
      CAPTURE(ranks);
      CAPTURE(low);
      auto const n = static_cast<std::uint64_t>(ranks);
      std::vector<record> all(n);
      std::vector<std::uint64_t> sent(n);
      run_ranks(ranks, [&](in_process& transport) {
        auto const rank = static_cast<std::uint64_t>(transport.rank());
        auto const value = (rank + n - static_cast<std::uint64_t>(low)) % n;  // 0 on rank `low`
        all[rank] = {value, value};
        unite_records(transport, 3, all[rank], [](record& a, record const& b) {
          a = {std::min(a.lowest, b.lowest), std::max(a.highest, b.highest)};
        });
        sent[rank] = transport.bytes_sent();
      });
      for (std::uint64_t rank = 0; rank < n; ++rank) {
        CHECK(all[rank].lowest == 0);
        CHECK(all[rank].highest == n - 1);
        CHECK(sent[rank] ==
              static_cast<std::uint64_t>(std::bit_width(n - 1)) * (sizeof(record) + 8));
      }
    }
}

TEST_CASE("records: a flipped bit, or a record of an earlier call, is a wire_error on all ranks") {
  using record = std::array<std::uint64_t, 3>;
  constexpr int ranks = 5;
  std::size_t const bits = 8 * (sizeof(record) + 8);
  for (bool const unites : {false, true})
    for (int const number : {0, 1, 2})
      // the last record belongs to another call
      for (std::size_t bit = 0; bit <= bits; bit += few_cases ? 13 : 1) {
        CAPTURE(unites);
        CAPTURE(number);
        CAPTURE(bit);
        auto const outcomes = outcomes_on(ranks, [&](in_process& inner) {
          tampered_transport transport(inner, [&](int, int at, std::vector<std::byte>& message) {
            if (inner.rank() == 3 && at == number && bit < bits)
              message[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
          });
          std::uint64_t const call = bit == bits && inner.rank() == 3 ? 8 : 9;
          record mine{1, 2, static_cast<std::uint64_t>(inner.rank())};
          std::vector<record> all;
          if (unites)
            unite_records(
                transport, 3, mine, [](record&, record const&) {}, call);
          else
            all_gather_records(transport, 3, mine, all, call);
          // a rank that has all records may return, but no rank may wait for ever
          unite_records(
              transport, 3, mine, [](record&, record const&) {}, 10);
        });
        CAPTURE(to_text(outcomes));
        CHECK(all_ended_alike(outcomes, "wire_error"));
        CHECK(outcomes[0].text.find("does not match its checksum") != std::string::npos);
      }
}

TEST_CASE("digest: says 'same' on all ranks if and only if all hold the same bytes") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (std::size_t const values : {0, 1, 2, 100, 1001})
      for (int odd_one = -1; odd_one < ranks; ++odd_one) {
        if (values == 0 && odd_one >= 0) continue;
        CAPTURE(ranks);
        CAPTURE(values);
        CAPTURE(odd_one);
        std::vector<digest_report> reports(static_cast<std::size_t>(ranks));
        run_ranks(ranks, [&](in_process& transport) {
          auto x = uniform_values(values, 1, 0);
          if (transport.rank() == odd_one) x[values / 2] = -x[values / 2];  // one bit: the sign
          reports[static_cast<std::size_t>(transport.rank())] = digest(std::span(x), transport);
        });
        for (auto const& one : reports) {
          CHECK(one.same() == (odd_one < 0 || ranks == 1));
          CHECK(one.of_rank == reports[0].of_rank);
        }
      }
}

TEST_CASE("digest: other lengths and swapped values differ, also where all bytes are 0") {
  auto const same = [](std::vector<float> const& on_0, std::vector<float> const& on_1) {
    bool all = false;
    run_ranks(2, [&](in_process& transport) {
      auto const& x = transport.rank() == 0 ? on_0 : on_1;
      bool const mine = digest(x, transport, 7).same();
      if (transport.rank() == 0) all = mine;
    });
    return all;
  };
  CHECK(same({0, 0}, {0, 0}));
  CHECK_FALSE(same({0, 0}, {0, 0, 0}));
  CHECK_FALSE(same({}, {0}));
  CHECK_FALSE(same({1, 2, 3, 4}, {3, 4, 1, 2}));
  CHECK_FALSE(same({1, 2}, {2, 1}));
  CHECK_FALSE(same({0.f}, {-0.f}));  // equal numbers, other bits
}
