#pragma once
/// @file
/// All-reduces between processes with one damaged message, and their outcome.

#include <doctest/doctest.h>
#include <mpi.h>

#include <collective/on_ranks.hpp>
#include <collective/tampered_transport.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <span>
#include <string>
#include <support/few_cases.hpp>
#include <support/same_everywhere.hpp>
#include <vector>

namespace hcomp::testing {

/// All-reduces with checksums. One message of one rank loses a bit or its end, or gets more bytes.
/// Either every rank gets the correct result, if nothing was lost, or every rank gets an error and
/// x is unchanged.
/// @param make       () -> a transport between the ranks of MPI_COMM_WORLD, as a std::unique_ptr; a
///                   new one for every all-reduce, since damage may end it
/// @param same_text  the errors have one text on all ranks
/// @param lengthens  messages may also become longer than their receives
template <class Make> void check_damage_is_told(Make const& make, bool same_text, bool lengthens) {
  int const ranks = mpi::size_of(MPI_COMM_WORLD), rank = mpi::rank_of(MPI_COMM_WORLD);
  if (ranks == 1) return;
  struct setup {
    char const *codec, *how;
  };
  setup const setups[] = {{"identity", "ring"},
                          {"sign", "sampled"},
                          {"sign", "direct"},
                          {"thc", "ring"},
                          {"thc", "recursive_doubling"},
                          {"lossless_sparse:fixed=32", "direct"},
                          {"lossless_sparse", "ring"},
                          {"error_bounded:1e-2", "direct"},
                          {"inceptionn", "ring"},
                          {"inceptionn", "aggregator"}};
  std::size_t const values = 3000;
  auto const before = integer_values(values, 100, rank);
  auto const sum_over = [&](auto& transport, setup const& s, std::vector<float>& x) {
    host_executor executor;
    auto sum = make_plan<float>(s.codec, values, transport, executor,
                                {.algorithm = algorithm::from(s.how), .checksum = true});
    sum.all_reduce(x, {.seed = 5});
  };
  std::vector<std::vector<float>> right;
  for (setup const& s : setups) {
    auto const transport = make();
    sum_over(*transport, s, right.emplace_back(before));
  }
  int told = 0;
  random_numbers numbers(71, 0);  // the same on all ranks
  int const trials = few_cases ? 60 : 150;
  for (int trial = 0; trial < trials; ++trial) {
    auto const draw = [&](std::size_t below) { return numbers.next() % below; };
    std::size_t const chosen = draw(std::size(setups));
    setup const& s = setups[chosen];
    int const victim = static_cast<int>(draw(static_cast<std::size_t>(ranks)));
    int const number = static_cast<int>(draw(12));
    auto const kind = draw(lengthens ? 3 : 2);
    std::uint32_t const where = numbers.next();
    CAPTURE(trial);
    CAPTURE(std::string(s.codec) + " by " + s.how);
    CAPTURE(victim);
    CAPTURE(number);
    CAPTURE(kind);
    auto x = before;
    decltype(make()) transport;
    int is_damaged = 0;
    auto const end = outcome_of([&] {
      // a rank that is still connecting may throw here the error of a rank that has connected
      transport = make();
      tampered over(*transport, [&](int, int at, std::vector<std::byte>& message) {
        if (rank != victim || at != number) return;
        is_damaged = 1;
        if (kind == 0 && !message.empty())
          message[where / 8 % message.size()] ^= static_cast<std::byte>(1 << where % 8);
        else if (kind == 1 && !message.empty())
          message.resize(where % message.size());
        else if (!lengthens)
          is_damaged = 0;  // an empty message cannot be damaged
        else
          message.resize(message.size() + 1 + where % 4000,
                         std::byte{0x5a});  // see slack_for_longer_records
      });
      sum_over(over, s, x);
    });
    transport.reset();
    MPI_Bcast(&is_damaged, 1, MPI_INT, victim, MPI_COMM_WORLD);
    CAPTURE(end);
    if (is_damaged == 0) CHECK(end.what == "returned");
    CHECK(same_everywhere(same_text ? end.what + end.text : end.what));
    CHECK(first_difference(x, end.what == "returned" ? right[chosen] : before) == nowhere);
    told += end.what != "returned";
  }
  CHECK(told > trials / 4);
}

}  // namespace hcomp::testing
