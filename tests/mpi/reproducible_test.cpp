/// @file
/// Eight vectors reduced by MPI with the codec `reproducible` give the same bits on any number of
/// ranks.

#include <doctest/doctest.h>
#include <mpi.h>

#include <cmath>
#include <cstddef>
#include <hcomp/codec/reproducible/reproducible.hpp>
#include <hcomp/mpi/op.hpp>
#include <random>
#include <span>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <vector>

namespace {

using namespace hcomp;

constexpr std::size_t values = 20'000;
constexpr int vectors = 8;

std::vector<double> summand(int k) {
  std::mt19937_64 random(static_cast<unsigned>(k));
  auto x = data::uniform<double>(values, -1, 1, {.seed = 50u + static_cast<unsigned>(k)});
  for (double& value : x) value = std::ldexp(value, static_cast<int>(random() % 60));
  return x;
}

/// Returns the sum of all vectors, which the ranks of `comm` divide among themselves.
std::vector<double> sum_on(MPI_Comm comm) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  mpi::op const sum{reproducible<double>{}};
  auto const& codec = sum.codec();
  std::vector<std::byte> encoded;
  for (int k = rank; k < vectors; k += ranks) {
    auto const one = encode(codec, std::span<double const>(summand(k)), {.rank = k});
    if (encoded.empty())
      encoded = one;
    else
      for (std::size_t b = 0; b < block_count(codec, values); ++b)
        codec.merge_block(simd_group{}, encoded.data() + b * codec.block_bytes(),
                          one.data() + b * codec.block_bytes());
  }
  MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(values), sum.type(), sum.handle(), comm);
  std::vector<double> x(values);
  CHECK(decode(codec, encoded, std::span(x)) == vectors);
  return x;
}

}  // namespace

TEST_CASE("mpi op: reproducible sums have the same bits on any number of ranks") {
  auto const alone = sum_on(MPI_COMM_SELF);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int some = 2; some <= ranks && some <= vectors; ++some) {
    CAPTURE(some);
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank < some ? 0 : MPI_UNDEFINED, -rank, &comm);
    if (comm == MPI_COMM_NULL) continue;
    CHECK(laws::same_bytes(sum_on(comm), alone));
    MPI_Comm_free(&comm);
  }
}
