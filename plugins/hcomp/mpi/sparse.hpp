#pragma once
/// @file
/// Sparse all-reduce over the ranks of a communicator.

#include <mpi.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/lhc_one_phase.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/mpi/native_sum.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::mpi {
namespace detail {

/// One small MPI_Allreduce: the maximum over all ranks of each word and of its complement.
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

inline void require_ranks(char const* call, std::uint32_t expected, MPI_Comm comm) {
  if (auto const ranks = static_cast<std::uint32_t>(size_of(comm)); expected != ranks)
    throw std::invalid_argument(std::string(call) + ": the sum is for " + std::to_string(expected) +
                                " ranks, the communicator has " + std::to_string(ranks));
}

/// The number of lanes as MPI's count.
template <class T> int count_of(char const* call, std::span<T> lanes) {
  if (lanes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw std::invalid_argument(std::string(call) + ": " + std::to_string(lanes.size()) +
                                " lanes, MPI counts at most " +
                                std::to_string(std::numeric_limits<int>::max()));
  return static_cast<int>(lanes.size());
}

}  // namespace detail

/// All-reduce of `x`, in place: first the index of values that are not zero on some rank, then
/// these values with the strategy that sends the fewest bytes. Returns the strategy and the reason
/// for it.
///
///     hcomp::sparse_sum<std::uint32_t> sum({.ranks = ranks});  // exact; or <> for floats
///     std::vector<std::uint32_t> lanes;                        // kept from call to call
///     auto const choice = hcomp::mpi::all_reduce_sparse(sum, x, key, lanes, comm);
///
/// Collective: every rank calls it with equal x.size(), settings and key.
/// @throws disagreement_error     they are not equal; on all ranks, and x is unchanged
/// @throws nonfinite_error        NaN or infinity on some rank; on all ranks, and x is unchanged
/// @throws std::invalid_argument  `sum` is for another number of ranks; more lanes than an int can
///                                count
/// @throws transport_error        `comm` returns errors and MPI reports one
/// Cost: three MPI_Allreduce: 96 bytes, the index (1 bit per value), and the bytes that the choice
/// reports.
template <class Lane, class Index>
sparse_choice all_reduce_sparse(sparse_sum<Lane, Index>& sum, std::span<float> x,
                                draw_key const& key, std::vector<Lane>& lanes, MPI_Comm comm) {
  detail::require_agreement<6>(
      "all_reduce_sparse", {x.size(), sum.settings(), key.seed, key.step, key.tensor, key.group},
      {"the number of values", "the sum's settings", "the seed", "the step", "the tensor",
       "the group"},
      comm);
  detail::require_ranks("all_reduce_sparse", sum.options().ranks, comm);
  all_reduce_native(sum, x, key, lanes, comm);
  return sum.choice();
}

/// Whether a call first checks that all ranks pass equal arguments.
enum class ranks_agree {
  checked,  ///< by a small MPI_Allreduce
  assumed,  ///< contradictory calls are undefined, as with MPI_Allreduce
};

/// All-reduce of `x`, in place, by index and sketch at the same time; values that the sketch has no
/// capacity for are summed afterwards. Returns a report.
///
///     hcomp::lhc_one_phase<std::uint32_t> sum({.ranks = ranks});  // of this vector, kept
///     auto const report = hcomp::mpi::all_reduce_one_phase(sum, x, key, comm);
///
/// Collective: every rank calls it with equal x.size(), settings, previous rounds, and key.
/// @throws disagreement_error     they are not equal; on all ranks, and x is unchanged
/// @throws nonfinite_error        NaN or infinity on some rank; on all ranks, and x is unchanged
/// @throws std::invalid_argument  `sum` is for another number of ranks; more lanes than an int can
///                                count
/// @throws transport_error        `comm` returns errors and MPI reports one
/// Cost: one MPI_Allreduce of 96 bytes, if checked; two concurrent MPI_Iallreduce; if values
/// remain, an MPI_Allreduce of these.
template <class Lane>
one_phase_report all_reduce_one_phase(lhc_one_phase<Lane>& sum, std::span<float> x,
                                      draw_key const& key, MPI_Comm comm,
                                      ranks_agree agreement = ranks_agree::checked) {
  constexpr char const* call = "all_reduce_one_phase";
  if (agreement == ranks_agree::checked)
    detail::require_agreement<6>(
        call, {x.size(), sum.settings(), key.seed, key.step, key.tensor, key.group},
        {"the number of values", "the sum's settings or rounds before", "the seed", "the step",
         "the tensor", "the group"},
        comm);
  detail::require_ranks(call, sum.options().ranks, comm);
  sum.begin(x, philox_key(key));
  int const words = detail::count_of(call, sum.words());
  int const cells = detail::count_of(call, sum.sketch());
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int const index_code = MPI_Iallreduce(MPI_IN_PLACE, sum.words().data(), words, MPI_UINT64_T,
                                        MPI_BOR, comm, &requests[0]);
  int const sketch_code = cells == 0
                              ? MPI_SUCCESS
                              : MPI_Iallreduce(MPI_IN_PLACE, sum.sketch().data(), cells,
                                               lane_type<Lane>(), MPI_SUM, comm, &requests[1]);
  int const wait_code = MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  require(index_code, "MPI_Iallreduce of the index");
  require(sketch_code, "MPI_Iallreduce of the sketch");
  require(wait_code, "MPI_Waitall");
  sum.unite(x);
  if (int const rest = detail::count_of(call, sum.rest()); rest > 0)
    require(MPI_Allreduce(MPI_IN_PLACE, sum.rest().data(), rest, lane_type<Lane>(), MPI_SUM, comm),
            "MPI_Allreduce of the rest");
  return sum.finish(x);
}

}  // namespace hcomp::mpi
