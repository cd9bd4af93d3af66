// timeout: 240
#include <doctest/doctest.h>
#include <mpi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <hcomp/extend.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/lanes.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <limits>
#include <span>
#include <string>
#include <support/data.hpp>
#include <support/same_everywhere.hpp>
#include <vector>

namespace {

using namespace hcomp;

template <class C>
std::vector<float> in_process_result(int ranks, std::size_t values, plan_options const& options) {
  std::vector<float> result;
  run_ranks(ranks, [&](in_process& transport) {
    host_executor executor;
    auto x = data::whole_numbers(values, transport.rank());
    all_reduce(std::span(x), fit(C{}, 8), transport, executor, {.seed = 5}, options);
    if (transport.rank() == 0) result = x;
  });
  return result;
}

}  // namespace

TEST_CASE("mpi transport: all_reduce gives the bits of ranks in threads") {
  mpi::transport transport(MPI_COMM_WORLD);
  host_executor executor;
  for (char const* how : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
    builtin_codecs<float>::for_each([&]<class C>() {
      CAPTURE(how);
      CAPTURE(C::name);
      plan_options const options{.algorithm = algorithm::from(how), .segment_bytes = 10000};
      for (std::size_t const values : {std::size_t{0}, std::size_t{1}, std::size_t{150001}}) {
        CAPTURE(values);
        auto x = data::whole_numbers(values, transport.rank());
        all_reduce(std::span(x), fit(C{}, 8), transport, executor, {.seed = 5}, options);
        CHECK(digest(std::span(x), transport).same());
        if (transport.rank() == 0)
          CHECK(x == in_process_result<C>(transport.size(), values, options));
      }
    });
}

TEST_CASE("mpi transport: an MPI without CUDA supports host memory only") {
  mpi::transport transport(MPI_COMM_WORLD);
  CHECK(transport.reaches(memory_space::host));
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
  bool const has_cuda = true;
#else  // MPICH links CUDA itself
  bool has_cuda = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    has_cuda = has_cuda || line.find("/libcuda") != line.npos;
#endif
  CHECK((has_cuda || !transport.reaches(memory_space::device)));
}

TEST_CASE("mpi transport: other ranks, or another order of ranks, are another group") {
  int const rank = mpi::rank_of(MPI_COMM_WORLD), size = mpi::size_of(MPI_COMM_WORLD);
  auto const group_of_part = [&](int color, int key) {
    MPI_Comm part = MPI_COMM_NULL;
    REQUIRE(MPI_Comm_split(MPI_COMM_WORLD, color, key, &part) == MPI_SUCCESS);
    mpi::transport const over(mpi::private_comm{part});
    auto const all = over.group();
    std::uint64_t of_first = all;
    MPI_Bcast(&of_first, 1, MPI_UINT64_T, 0, part);
    CHECK(all == of_first);
    return all;
  };
  CHECK(mpi::transport(MPI_COMM_WORLD).group() == 0);
  CHECK(group_of_part(0, rank) == 0);
  CHECK((group_of_part(0, -rank) == 0) == (size == 1));
  std::uint64_t const mine = group_of_part(rank % 2, rank);
  std::uint64_t even = mine, odd = mine;
  MPI_Bcast(&even, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (size > 1) {
    MPI_Bcast(&odd, 1, MPI_UINT64_T, 1, MPI_COMM_WORLD);
    CHECK(even != odd);
    CHECK(mine == (rank % 2 ? odd : even));
  }
}

TEST_CASE("mpi transport: waiting in MPI_Wait changes no bits") {
  mpi::transport transport(MPI_COMM_WORLD, mpi::waiting::block);
  host_executor executor;
  auto x = data::whole_numbers(50001, transport.rank());
  all_reduce(std::span(x), sign{}, transport, executor, {.seed = 5});
  CHECK(digest(std::span(x), transport).same());
  if (transport.rank() == 0) CHECK(x == in_process_result<sign<>>(transport.size(), 50001, {}));
}

TEST_CASE("mpi transport: sampled selection gives the bits of the native OR") {
  mpi::transport transport(MPI_COMM_WORLD);
  host_executor executor;
  std::size_t const values = 150001;
  auto x = data::whole_numbers(values, transport.rank()), y = x;
  plan(values, sign{}, transport, executor, {.algorithm = {algorithm_kind::sampled}})
      .all_reduce(x, {.seed = 5});
  sampled_sign<> const native{
      static_cast<std::uint32_t>(transport.rank()),
      std::vector<std::uint32_t>(static_cast<std::size_t>(transport.size()), 1), 1};
  std::vector<std::uint64_t> lanes;
  mpi::all_reduce_native(native, std::span(y), {.seed = 5}, lanes, MPI_COMM_WORLD);
  for (float& v : y) v *= static_cast<float>(transport.size());  // the sum, as in x
  CHECK(digest(std::span(x), transport).same());
  CHECK(x == y);
}

TEST_CASE("mpi native sum: THC through MPI_SUM of bytes gives the bits of the plan") {
  mpi::transport transport(MPI_COMM_WORLD);
  host_executor executor;
  auto const ranks = static_cast<std::uint32_t>(transport.size());
  // enough blocks that all ranks share full ones
  std::size_t const values = 8 * ranks * static_cast<std::size_t>(thc<float>::block_values) + 100;
  auto x = data::whole_numbers(values, transport.rank()), y = x;
  auto const codec = fit(thc<float>{}, ranks);
  all_reduce(std::span(x), codec, transport, executor, {.seed = 5, .op = reduce_op::mean});
  thc_lanes<> sum(codec, static_cast<std::uint32_t>(transport.rank()), ranks);
  std::vector<std::uint8_t> lanes;
  mpi::all_reduce_native(sum, std::span(y), {.seed = 5}, lanes, MPI_COMM_WORLD);
  CHECK(digest(std::span(x), transport).same());
  CHECK(x == y);

  y[7] = std::numeric_limits<float>::infinity();
  if (transport.rank() > 0) y[7] = 1;
  CHECK_THROWS_AS(mpi::all_reduce_native(sum, std::span(y), {.seed = 6}, lanes, MPI_COMM_WORLD),
                  nonfinite_error);
}

TEST_CASE("mpi transport: disagreement is one error on every rank") {
  mpi::transport transport(MPI_COMM_WORLD);
  host_executor executor;
  if (transport.size() == 1) return;
  std::vector<float> x(transport.rank() == 0 ? 1000 : 1001, 1.0f);
  std::string text;
  try {
    all_reduce(std::span(x), sign{}, transport, executor);
  } catch (disagreement_error const& error) {
    text = error.what();
  }
  CHECK(text ==
        "all_reduce: ranks disagree on the number of values: rank 0 has 1000, rank 1 has 1001");
}

// MPICH 4.0 aborts the job: its MPI_Test calls no communicator's error handler.
#ifdef OPEN_MPI
TEST_CASE(
    "mpi transport: a message longer than its receive ends all ranks with one transport_error") {
  mpi::transport transport(MPI_COMM_WORLD);
  if (transport.size() == 1) return;
  int const next = (transport.rank() + 1) % transport.size();
  int const previous = (transport.rank() + transport.size() - 1) % transport.size();
  std::array<std::byte, 8> out{}, in{};
  auto receive = transport.irecv(previous, 0, std::span(in).first(4));
  auto send = transport.isend(next, 0, out);
  for (auto* const one : {&receive, &send}) {
    int peer = -1;
    try {
      transport.wait(*one);
    } catch (transport_error const& error) {
      peer = error.peer();
    }
    // of the ranks that meet the error before they hear of it, the lowest one counts
    std::array<int, 2> range{peer, -peer};
    MPI_Allreduce(MPI_IN_PLACE, range.data(), 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    CHECK(range[0] == -range[1]);
    CHECK(peer >= 0);
    CHECK(peer < transport.size());
  }
}
#endif

TEST_CASE(
    "mpi transport: plans of different tags end at the time limit, with one error on all ranks") {
  int const rank = mpi::rank_of(MPI_COMM_WORLD);
  if (mpi::size_of(MPI_COMM_WORLD) == 1) return;
  for (auto const how : {mpi::waiting::yield, mpi::waiting::sleep}) {
    mpi::transport transport(MPI_COMM_WORLD, how);
    CHECK_THROWS_WITH_AS(transport.set_time_limit({}),
                         "mpi: a time limit of 0 ns, it must be positive", std::invalid_argument);
    transport.set_time_limit(std::chrono::milliseconds(200));
    host_executor executor;
    auto x = data::whole_numbers(1000, rank);
    auto const before = x;
    plan sum(x.size(), identity<>{}, transport, executor,
             {.tag = static_cast<tag_t>(rank == 0 ? 10 : 30)});
    std::string text;
    try {
      sum.all_reduce(x);
    } catch (transport_error const& error) {
      text = error.what();
    }
    CAPTURE(text);
    CHECK(text.find(" not done within 200 ms, with tag ") != std::string::npos);
    CHECK(testing::same_everywhere(text));
    CHECK(x == before);
    CHECK_THROWS_AS(sum.all_reduce(x), transport_error);
  }
}

TEST_CASE("mpi transport: a peer outside the communicator is refused with the numbers") {
  mpi::transport transport(MPI_COMM_WORLD);
  std::array<std::byte, 1> byte{};
  std::string const ranks = std::to_string(transport.size());
  CHECK_THROWS_WITH_AS(transport.isend(99, 0, byte),
                       ("isend: peer 99, but the communicator has " + ranks + " ranks (0 to " +
                        std::to_string(transport.size() - 1) + ")")
                           .c_str(),
                       std::invalid_argument);
}

TEST_CASE("exchange: every rank's bytes arrive complete, for any lengths") {
  int const rank = mpi::rank_of(MPI_COMM_WORLD), ranks = mpi::size_of(MPI_COMM_WORLD);
  std::vector<std::byte> const mine(static_cast<std::size_t>(rank) * 3,
                                    static_cast<std::byte>(rank));
  auto const all = mpi::exchange(MPI_COMM_WORLD, mine);
  REQUIRE(all.size() == static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r)
    CHECK(all[static_cast<std::size_t>(r)] ==
          std::vector<std::byte>(static_cast<std::size_t>(r) * 3, static_cast<std::byte>(r)));
}
