// ranks: 1 2 3 4 8
// timeout: 240
#include <doctest/doctest.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <hcomp/extend.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <hcomp/transport/concurrent_transport.hpp>
#include <hcomp/ucx/transport.hpp>
#include <span>
#include <support/concurrent_reductions.hpp>
#include <support/data.hpp>
#include <support/sparse_plan.hpp>
#include <vector>

namespace {

using namespace hcomp;

/// A UCX transport between the ranks of MPI_COMM_WORLD, over TCP on this node.
ucx::transport make_transport() {
  setenv("HCOMP_UCX_TLS", "tcp,self", 1);
  return mpi::connect<ucx::transport>(MPI_COMM_WORLD,
                                      ucx::options{.timeout = std::chrono::seconds(60)});
}

template <class Sum>
std::vector<float> among_threads(int ranks, std::size_t values, Sum const& sum) {
  std::vector<float> result;
  run_ranks(ranks, [&](in_process& transport) {
    auto x = data::whole_numbers(values, transport.rank());
    sum(transport, x);
    if (transport.rank() == 0) result = x;
  });
  return result;
}

}  // namespace

TEST_CASE("ucx: concurrent all-reduces give the bits, and send the bytes, of sequential ones") {
  auto transport = make_transport();
  for (auto const mode : {progress_mode::caller, progress_mode::thread}) {
    CHECK(testing::difference_of_concurrent_reductions<identity<float>>(transport, mode) == "");
    CHECK(testing::difference_of_concurrent_reductions<sign<float>>(transport, mode) == "");
  }
}

TEST_CASE("ucx: every codec and algorithm gives the bits of ranks in threads") {
  auto transport = make_transport();
  host_executor executor;
  std::size_t const values = 200001;
  for (char const* how : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
    builtin_codecs<float>::for_each([&]<class C>() {
      CAPTURE(how);
      CAPTURE(C::name);
      auto const sum = [&](auto& over, std::vector<float>& x) {
        host_executor own;
        all_reduce(std::span(x), fit(C{}, 8), over, own, {.seed = 5},
                   {.algorithm = algorithm::from(how), .segment_bytes = 20000});
      };
      auto x = data::whole_numbers(values, transport.rank());
      sum(transport, x);
      CHECK(digest(std::span(x), transport).same());
      if (transport.rank() == 0) CHECK(x == among_threads(transport.size(), values, sum));
    });
}

TEST_CASE("ucx: Marsit runs a hundred rounds and all ranks hold the same bits") {
  auto transport = make_transport();
  host_executor executor;
  for (char const* how : {"ring", "sampled"}) {
    CAPTURE(how);
    std::size_t const values = 40000;
    marsit<float, ucx::transport, host_executor> synchronize(
        values, {.sign_step = 0.5, .period = 10, .plan = {.algorithm = algorithm::from(how)}},
        transport, executor);
    std::vector<float> update(values);
    bool same = true;
    for (unsigned round = 0; round < 100; ++round) {
      update = data::whole_numbers(values, transport.rank() + static_cast<int>(round));
      synchronize(update);
      same = same && digest(std::span(update), transport).same();
    }
    CHECK(same);
    CHECK(synchronize.state().rounds() == 100);
  }
}

TEST_CASE("ucx sparse plan: all-reduce and shards of vectors of 1 % density are exact") {
  auto transport = make_transport();
  sparse::check_plan<float>(transport);
  sparse::check_plan<std::uint32_t>(transport);
}
