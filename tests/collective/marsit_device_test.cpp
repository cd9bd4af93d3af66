
#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/plan/marsit.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <support/guarded_executor.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

using over_staging = host_staged<in_process, guarded_executor>;
using on_device = marsit<float, over_staging, guarded_executor>;
using on_host = marsit<float, in_process, host_executor>;

constexpr std::size_t values = sign<>::block_values + 70;
constexpr std::uint64_t rounds = 12;

std::vector<float> update_of(int rank, std::uint64_t round) {
  auto update = uniform_values(values, 100 + round, rank);
  for (float& u : update) u *= 0.01f;
  return update;
}

/// The common updates of all rounds, the final compensation, and the lag of signs.
struct outcome_of_run {
  std::vector<std::vector<float>> updates;
  std::vector<float> compensation;
  double lag = 0;
};

}  // namespace

TEST_CASE("marsit on devices: the updates and the compensation of CPUs, bit for bit") {
  for (std::string const name : {"ring", "direct", "sampled"}) {
    CAPTURE(name);
    marsit_options const options{.sign_step = 3e-3,
                                 .period = 5,
                                 .warm_up = 2,
                                 .flush_limit = 4e-3,
                                 .seed = 9,
                                 .plan = {.algorithm = algorithm::from(name)}};
    constexpr int ranks = 3;
    std::vector<outcome_of_run> expected(ranks), found(ranks);
    run_ranks(ranks, [&](in_process& transport) {
      auto& mine = expected[static_cast<std::size_t>(transport.rank())];
      host_executor executor;
      on_host synchronize(values, options, transport, executor);
      for (std::uint64_t t = 0; t < rounds; ++t) {
        mine.updates.push_back(update_of(transport.rank(), t));
        synchronize(std::span(mine.updates.back()));
      }
      mine.compensation = synchronize.state().on_host();
      mine.lag = synchronize.lag();
    });
    run_ranks(ranks, [&](in_process& transport) {
      auto& mine = found[static_cast<std::size_t>(transport.rank())];
      guarded_executor executor;
      over_staging over(transport, executor);
      std::vector<std::byte> saved;
      for (std::uint64_t const begin : {std::uint64_t{0}, rounds / 2}) {  // with a checkpoint
        on_device synchronize(values, options, over, executor);
        if (begin > 0) synchronize.restore(saved);
        for (std::uint64_t t = begin; t < begin + rounds / 2; ++t) {
          device_vector<float> const update(update_of(transport.rank(), t), executor);
          synchronize(update.span());
          mine.updates.push_back(update.host());
        }
        executor.synchronize();
        saved = synchronize.save();
        mine.compensation = synchronize.state().on_host();
        mine.lag = synchronize.lag();
      }
    });
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank);
      for (std::size_t t = 0; t < rounds; ++t) {
        CAPTURE(t);
        CHECK(first_difference(found[rank].updates[t], expected[rank].updates[t]) == nowhere);
      }
      CHECK(first_difference(found[rank].compensation, expected[rank].compensation) == nowhere);
      CHECK(found[rank].lag == expected[rank].lag);
    }
  }
}
