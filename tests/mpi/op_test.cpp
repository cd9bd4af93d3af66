// optimise: -O1
// timeout: 240
#include <doctest/doctest.h>
#include <mpi.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/extend.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/mpi/mpi.hpp>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <mpi/allreduce_algorithms.hpp>
#include <support/data.hpp>

namespace {

using namespace hcomp;

int world_rank() { return mpi::rank_of(MPI_COMM_WORLD); }
int world_size() { return mpi::size_of(MPI_COMM_WORLD); }

/// Returns true on all ranks if all ranks pass the same bytes.
bool same_on_all_ranks(std::span<std::byte const> bytes) {
  std::uint64_t mine = fingerprint(serial_group{}, bytes.data(), bytes.size());
  std::uint64_t first = mine;
  MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  int same = mine == first, all = 0;
  MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  return all;
}

/// The largest sum that a float codec must hold is a small whole number: exact in every codec but
/// bf16.
template <class C> void check_sum(std::vector<float> const& sum, int ranks) {
  std::vector<float> exact(sum.size());
  std::vector<int> positive(sum.size());
  double lost = 0, largest = 0;
  for (int r = 0; r < ranks; ++r) {
    auto const x = data::whole_numbers(sum.size(), r);
    double energy = 0;
    for (float const value : x) energy += value * value;
    largest = std::max(largest, energy);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      exact[i] += x[i];
      positive[i] += x[i] >= 0;
    }
  }
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if constexpr (C::codec_id ==
                  sign<>::codec_id) {  // the sign of one of the ranks, times the number of ranks
      bool const plus = sum[i] > 0;
      wrong += std::abs(sum[i]) != static_cast<float>(ranks) ||
               (plus ? positive[i] == 0 : positive[i] == ranks);
    } else if constexpr (C::codec_id == sign_count<>::codec_id) {
      wrong += sum[i] != static_cast<float>(2 * positive[i] - ranks);
    } else if constexpr (Calibrated<C>) {
      lost += std::pow(sum[i] - exact[i], 2);
    } else {
      wrong += sum[i] != exact[i];  // |sums| < 64: 6 bits, exact in bf16, too
    }
  }
  CHECK(wrong == 0);
  // each rank's error is 2 % of the energy on average; errors are independent, at worst all equal
  CHECK(lost <= 0.06 * largest * ranks * ranks);
}

}  // namespace

TEST_CASE("op: MPI_Allreduce gives the sum, the same bits on all ranks, with every algorithm") {
  int const rank = world_rank(), ranks = world_size();
  test::for_each_allreduce_algorithm([&](test::forced_algorithm const& algorithm) {
    builtin_codecs<float>::for_each([&]<class C>() {
      mpi::op<C> const sum{fit(C{}, 8)};
      for (std::size_t const values : {std::size_t{1}, std::size_t{C::block_values} - 1,
                                       std::size_t{C::block_values} * 9 + 7}) {
        CAPTURE(algorithm.name);
        CAPTURE(C::name);
        CAPTURE(values);
        auto x = data::whole_numbers(values, rank);
        auto const statistics =
            mpi::measure(sum.codec(), std::span<float const>(x), MPI_COMM_WORLD);
        auto encoded =
            encode(sum.codec(), std::span<float const>(x),
                   {.key = {.seed = 3, .step = values}, .rank = rank, .statistics = statistics});
        MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(values), sum.type(), sum.handle(),
                      algorithm.comm);
        CHECK(same_on_all_ranks(encoded));
        auto const weight =
            decode(sum.codec(), encoded, std::span(x), {.key = {.seed = 3, .step = values}});
        CHECK(weight == static_cast<std::uint64_t>(ranks));
        if (rank == 0) check_sum<C>(x, ranks);  // all ranks have the same encoded vector
      }
    });
  });
}

TEST_CASE("op: every algorithm samples each rank's sign equally often") {
  // Lanes on which exactly the first k ranks are positive: the share of ones is k / P. The
  // tolerance is 4.5 standard errors of a binomial with n = 32768 * 8 draws; 7 * 8 comparisons pass
  // by chance with p > 0.999.
  int const rank = world_rank(), ranks = world_size();
  if (ranks == 1) return;
  test::for_each_allreduce_algorithm([&](test::forced_algorithm const& algorithm) {
    mpi::op<sign<>> const sum;
    std::size_t const values = std::size_t{sign<>::block_values} * 8;
    for (int k = 1; k < ranks; ++k) {
      std::vector<float> x(values, rank < k ? 1.0f : -1.0f);
      draw_key const key{.seed = 11, .step = static_cast<std::uint64_t>(k)};
      auto encoded = encode(sum.codec(), std::span<float const>(x), {.key = key, .rank = rank});
      MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(values), sum.type(), sum.handle(),
                    algorithm.comm);
      decode(sum.codec(), encoded, std::span(x), {.key = key});
      double ones = 0;
      for (float const v : x) ones += v > 0;
      double const p = static_cast<double>(k) / ranks;
      double const z = (ones / static_cast<double>(values) - p) /
                       std::sqrt(p * (1 - p) / static_cast<double>(values));
      CAPTURE(algorithm.name);
      CAPTURE(k);
      CHECK(std::abs(z) < 4.5);
    }
  });
}

TEST_CASE("op: the forced algorithms really differ") {
  // The bits of a reduction of signs depend on the reduction tree. With 4 ranks or more, some other
  // algorithm gives different bits.
  if (world_size() < 4) return;
#ifdef OPEN_MPI
  std::map<std::uint64_t, std::string> results;
  test::for_each_allreduce_algorithm([&](test::forced_algorithm const& algorithm) {
    mpi::op<sign<>> const sum;
    std::size_t const values = std::size_t{sign<>::block_values} * 9;
    auto const x = data::whole_numbers(values, world_rank());
    auto encoded = encode(sum.codec(), std::span<float const>(x), {.rank = world_rank()});
    MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(values), sum.type(), sum.handle(),
                  algorithm.comm);
    results[fingerprint(serial_group{}, encoded.data(), encoded.size())] += algorithm.name + ", ";
  });
  CHECK(results.size() >= 3);
#endif
}

TEST_CASE(
    "op: reduce, non-blocking all-reduce and reduce-scatter give the result of the all-reduce") {
  int const rank = world_rank(), ranks = world_size();
  builtin_codecs<float>::for_each([&]<class C>() {
    CAPTURE(C::name);
    mpi::op<C> const sum{fit(C{}, 8)};
    std::size_t const values = static_cast<std::size_t>(C::block_values * ranks) * 2;
    auto const x = data::whole_numbers(values, rank);
    auto const statistics = mpi::measure(sum.codec(), std::span<float const>(x), MPI_COMM_WORLD);
    auto const encoded =
        encode(sum.codec(), std::span<float const>(x), {.rank = rank, .statistics = statistics});
    int const blocks = sum.count(values);
    std::size_t const block = sum.codec().block_bytes(C::block_values);

    std::vector<std::byte> out(encoded.size());
    std::vector<float> y(values);
    MPI_Reduce(encoded.data(), out.data(), blocks, sum.type(), sum.handle(), ranks - 1,
               MPI_COMM_WORLD);
    if (rank == ranks - 1) {
      decode(sum.codec(), out, std::span(y));
      check_sum<C>(y, ranks);
    }

    MPI_Request request;
    MPI_Iallreduce(encoded.data(), out.data(), blocks, sum.type(), sum.handle(), MPI_COMM_WORLD,
                   &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(same_on_all_ranks(out));
    decode(sum.codec(), out, std::span(y));
    check_sum<C>(y, ranks);

    int const share = blocks / ranks;
    std::vector<std::byte> mine(static_cast<std::size_t>(share) * block), gathered(encoded.size());
    MPI_Reduce_scatter_block(encoded.data(), mine.data(), share, sum.type(), sum.handle(),
                             MPI_COMM_WORLD);
    MPI_Allgather(mine.data(), share, sum.type(), gathered.data(), share, sum.type(),
                  MPI_COMM_WORLD);
    CHECK(same_on_all_ranks(gathered));
    decode(sum.codec(), gathered, std::span(y));
    check_sum<C>(y, ranks);
  });
}

TEST_CASE("op: two live ops of one codec keep their own parameters") {
  int const rank = world_rank(), ranks = world_size();
  mpi::op<sign_count<>> small{sign_count<>{.magnitude = 1, .summands = 8}};
  mpi::op<sign_count<>> large{sign_count<>{.magnitude = 1, .summands = 1000}};
  CHECK(small.codec().planes() == 4);
  CHECK(large.codec().planes() == 10);
  auto moved = std::move(small);
  for (auto const* sum : {&moved, &large}) {
    auto x = data::whole_numbers(20000, rank);
    auto encoded = encode(sum->codec(), std::span<float const>(x), {.rank = rank});
    MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum->count(x.size()), sum->type(), sum->handle(),
                  MPI_COMM_WORLD);
    decode(sum->codec(), encoded, std::span(x));
    check_sum<sign_count<>>(x, ranks);
  }
}

TEST_CASE("op: a duplicated datatype outlives its op") {
  int const rank = world_rank(), ranks = world_size();
  auto x = data::whole_numbers(5000, rank);
  sign_count<> const codec{.magnitude = 1, .summands = 8};
  MPI_Datatype type;
  {
    mpi::op<sign_count<>> const short_lived{codec};
    MPI_Type_dup(short_lived.type(), &type);
  }
  mpi::op<sign_count<>> const other{sign_count<>{.magnitude = 1, .summands = 3}};
  auto encoded = encode(codec, std::span<float const>(x), {.rank = rank});
  MPI_Allreduce(MPI_IN_PLACE, encoded.data(), other.count(x.size()), type, other.handle(),
                MPI_COMM_WORLD);
  MPI_Type_free(&type);
  decode(codec, encoded, std::span(x));
  check_sum<sign_count<>>(x, ranks);
}

TEST_CASE("op: threads use their ops concurrently") {
  int provided = 0;
  MPI_Query_thread(&provided);
  REQUIRE(provided == MPI_THREAD_MULTIPLE);
  int const rank = world_rank(), ranks = world_size();
  constexpr int threads = 3;
  std::vector<std::vector<float>> results(threads);
  std::vector<MPI_Comm> comms(threads);
  for (auto& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> crew;
  for (int t = 0; t < threads; ++t)
    crew.emplace_back([&, t] {
      mpi::op<sign_count<>> const sum{
          sign_count<>{.magnitude = 1, .summands = 8u << static_cast<unsigned>(t)}};
      for (int round = 0; round < 5; ++round) {
        auto x = data::whole_numbers(30000, rank);
        auto encoded = encode(sum.codec(), std::span<float const>(x), {.rank = rank});
        MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(x.size()), sum.type(), sum.handle(),
                      comms[static_cast<std::size_t>(t)]);
        decode(sum.codec(), encoded, std::span(x));
        results[static_cast<std::size_t>(t)] = std::move(x);
      }
    });
  for (auto& thread : crew) thread.join();
  for (auto& comm : comms) MPI_Comm_free(&comm);
  for (auto const& x : results) check_sum<sign_count<>>(x, ranks);
}

TEST_CASE("op: ranks that encoded different steps get one error on every rank") {
  int const rank = world_rank(), ranks = world_size();
  if (ranks == 1) return;
  mpi::op<sign<>> const sum;
  std::vector<float> x(1000, 1.0f);
  draw_key const key{.step = rank == ranks - 1 ? 8u : 7u};
  auto encoded = encode(sum.codec(), std::span<float const>(x), {.key = key, .rank = rank});
  MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(x.size()), sum.type(), sum.handle(),
                MPI_COMM_WORLD);
  CHECK_THROWS_AS(decode(sum.codec(), encoded, std::span(x), {.key = key}), wire_error);
  CHECK(x[999] == 1.0f);
}

TEST_CASE("op: weights beyond the codec's capacity are an error, not a wrong number") {
  int const rank = world_rank(), ranks = world_size();
  if (ranks < 4) return;
  mpi::op<sign_count<>> const sum{sign_count<>{.magnitude = 1, .summands = 3}};
  std::vector<float> x(1000, 1.0f);
  auto encoded = encode(sum.codec(), std::span<float const>(x), {.rank = rank});
  MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(x.size()), sum.type(), sum.handle(),
                MPI_COMM_WORLD);
  CHECK_THROWS_AS(decode(sum.codec(), encoded, std::span(x)), wire_error);
}
