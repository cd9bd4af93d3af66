#pragma once
/// @file
/// Sums of sparse vectors over the ranks of a communicator.

#include <mpi.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/mpi/native_sum.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::mpi {
namespace detail {

/// One small MPI_Allreduce: of every word the largest of all ranks, and of its complement.
/// @throws disagreement_error  words differ; on all ranks alike
template <std::size_t Words>
void require_agreement(char const* call, std::array<std::uint64_t, Words> const& mine,
                       std::array<char const*, Words> const& names, MPI_Comm comm) {
  std::array<std::uint64_t, 2 * Words> most;
  for (std::size_t i = 0; i < Words; ++i) {
    most[i] = mine[i];
    most[Words + i] = ~mine[i];
  }
  require(MPI_Allreduce(MPI_IN_PLACE, most.data(), static_cast<int>(most.size()), MPI_UINT64_T,
                        MPI_MAX, comm),
          "MPI_Allreduce of the call's words");
  for (std::size_t i = 0; i < Words; ++i)
    if (most[i] != ~most[Words + i])
      throw disagreement_error(std::string(call) + ": ranks disagree on " + names[i] + ": " +
                               std::to_string(~most[Words + i]) + " on one, " +
                               std::to_string(most[i]) + " on another");
}

}  // namespace detail

/// Sum `x` over all ranks, in place: the index of what is not zero on some rank, then the values by
/// the way that takes fewest bytes. Returns which that was, and why.
///
///     hcomp::sparse_sum<std::uint32_t> sum({.ranks = ranks});  // exact; or <> for floats
///     std::vector<std::uint32_t> lanes;                        // kept from call to call
///     auto const choice = hcomp::mpi::all_reduce_sparse(sum, x, key, lanes, comm);
///
/// Collective: every rank calls it with equal x.size(), settings and key.
/// @throws disagreement_error     they are not equal; on all ranks, and x is unchanged
/// @throws nonfinite_error        NaN or infinity on some rank; on all ranks, and x is unchanged
/// @throws std::invalid_argument  `sum` is for another number of ranks; lanes beyond MPI's counts
/// @throws transport_error        if `comm` returns errors and MPI reports one
/// Cost: three MPI_Allreduce: 80 bytes, the index (1 bit per value), and what the choice says.
template <class Lane, class Index>
sparse_choice all_reduce_sparse(sparse_sum<Lane, Index>& sum, std::span<float> x,
                                stream_key const& key, std::vector<Lane>& lanes, MPI_Comm comm) {
  detail::require_agreement<5>(
      "all_reduce_sparse", {x.size(), sum.settings(), key.seed, key.step, key.tensor},
      {"the number of values", "the sum's settings", "the seed", "the step", "the tensor"}, comm);
  auto const ranks = static_cast<std::uint32_t>(size_of(comm));
  if (sum.options().ranks != ranks)
    throw std::invalid_argument("all_reduce_sparse: the sum is for " +
                                std::to_string(sum.options().ranks) +
                                " ranks, the communicator has " + std::to_string(ranks));
  all_reduce_native(sum, x, key, lanes, comm);
  return sum.choice();
}

}  // namespace hcomp::mpi
