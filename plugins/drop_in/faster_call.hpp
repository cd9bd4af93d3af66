#pragma once
/// @file
/// Runs a reduction with a codec or with MPI, whichever is faster. Times both and compares them.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <hcomp/mpi/call.hpp>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <c/cuda_memory.hpp>
#include "compressed_call.hpp"
#include "faster_strategy.hpp"

namespace hcomp::drop_in {

inline constexpr char const* why_faster = "MPI's all-reduce is faster (when=faster)";
inline constexpr char const* why_timed = "timed beside the codec's sums (when=faster)";

/// The MPI function for a reduction.
struct function_of_mpi {
  std::string_view name;
  int (*call)(reduction_call const&, std::span<int const> counts);
};
inline constexpr function_of_mpi mpi_all_reduce{
    "MPI_Allreduce", [](reduction_call const& one, std::span<int const>) {
      return PMPI_Allreduce(one.send, one.receive, one.count, one.type, one.op, one.comm);
    }};
inline constexpr function_of_mpi mpi_reduce{
    "MPI_Reduce", [](reduction_call const& one, std::span<int const>) {
      return PMPI_Reduce(one.send, one.receives ? one.receive : nullptr, one.count, one.type,
                         one.op, one.root, one.comm);
    }};
inline constexpr function_of_mpi mpi_reduce_scatter{
    "MPI_Reduce_scatter", [](reduction_call const& one, std::span<int const> counts) {
      return PMPI_Reduce_scatter(one.send, one.receive, counts.data(), one.type, one.op, one.comm);
    }};
inline constexpr function_of_mpi mpi_reduce_scatter_block{
    "MPI_Reduce_scatter_block", [](reduction_call const& one, std::span<int const> counts) {
      return PMPI_Reduce_scatter_block(one.send, one.receive, counts[0], one.type, one.op,
                                       one.comm);
    }};

/// A copy of a part of a vector. It can be reduced like the complete vector.
struct part_of_vector {
  /// @param part    copies 1 / part of the vector, but at least MPI's first message size
  /// @param number  selects the part; equal on all ranks
  part_of_vector(compressed_call const& whole, int part, std::uint64_t number) : reduction(whole) {
    constexpr std::size_t least_bytes = 16 * 1024;
    std::size_t const all = whole.values(), size = size_of(whole.d.type),
                      wanted = std::clamp(all / static_cast<std::size_t>(part),
                                          std::min(all, least_bytes / size), all);
    std::size_t values = wanted;
    if (!whole.counts.empty()) {
      values = 0;
      for (int const count : whole.counts) {
        counts.push_back(
            static_cast<int>((static_cast<std::size_t>(count) * wanted + all - 1) / all));
        values += static_cast<std::size_t>(counts.back());
      }
    }
    in.resize(values * size);
    out.resize(in.size());
    std::size_t const first = number * values % (all - values + 1);
    auto const* const from = static_cast<std::byte const*>(whole.input()) + first * size;
    if (!is_in_device(from))
      std::memcpy(in.data(), from, in.size());
    else
      try {
        copy_from_device(in.data(), from, in.size());
      } catch (std::runtime_error const&) {  // zeros are sufficient: the result is discarded
      }
    reduction.call.send = in.data();
    reduction.tensor = reduction.call.receive = out.data();
    reduction.call.count = static_cast<int>(values);
    reduction.counts = counts;
    reduction.is_timed = reduction.is_look = true;
  }
  part_of_vector(part_of_vector const&) = delete;
  part_of_vector& operator=(part_of_vector const&) = delete;

  std::vector<std::byte> in, out;
  std::vector<int> counts;
  compressed_call reduction;
};

inline std::int64_t nanoseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

template <class F> std::int64_t nanoseconds_of(F const& f) {
  auto const begin = std::chrono::steady_clock::now();
  f();
  return nanoseconds_since(begin);
}

/// Runs a reduction by the faster strategy, see faster_strategy.
/// @param make  runs a reduction by its rule, as for take
template <class Make> class faster_call {
 public:
  faster_call(communicator& state, compressed_call reduction, function_of_mpi const& by_mpi,
              Make const& make)
      : state_(state),
        reduction_(std::move(reduction)),
        by_mpi_(by_mpi),
        make_(make),
        strategy_(state.strategy_of(reduction_.as.text(), by_mpi.name, reduction_.bytes())) {}

  /// Returns MPI's error code.
  int operator()() {
    collective_now const guard;
    if (state_.calls() < reduction_.shadow_calls) return by_codec(reduction_);
    if (strategy_.compares()) strategy_.learn_mean(united(strategy_.stats()));
    if (int const part = strategy_.look_at(); part > 0) look(part);
    bool const by_mpi = strategy_.by() == faster_strategy::strategy::mpi;
    reduction_.is_timed = strategy_.is_timed();
    if (by_mpi) {
      reduction_.d.why = reduction_.is_timed ? why_timed : why_faster;
      note_passed(*reduction_.lib, reduction_.call, reduction_.d);
    }
    if (reduction_.is_timed) reduction_.wait_for_all(state_);
    auto const begin = std::chrono::steady_clock::now();
    int code = MPI_SUCCESS;
    std::exception_ptr failed;  // only on this rank, which still counts the call
    try {
      code = by_mpi ? by_mpi_.call(reduction_.call, reduction_.counts) : by_codec(reduction_);
    } catch (copy_error const&) {
      failed = std::current_exception();
    }
    strategy_.add(nanoseconds_since(begin), reduction_.bytes());
    if (strategy_.ends_trial()) strategy_.learn_trial(united(strategy_.medians()));
    if (failed) std::rethrow_exception(failed);
    return code;
  }

 private:
  /// Falls back to MPI for values that the codec does not support.
  int by_codec(compressed_call const& reduction) {
    return make_(state_, reduction) ? MPI_SUCCESS : by_mpi_.call(reduction.call, reduction.counts);
  }
  void look(int part) {
    part_of_vector const piece(reduction_, part, strategy_.looks());
    auto const& cache = state_.plans();
    auto const wait = [&] { reduction_.wait_for_all(state_); };
    auto const reduce_by_mpi = [&] {
      mpi::require(by_mpi_.call(piece.reduction.call, piece.reduction.counts),
                   reduction_.call.function);
    };
    auto const reduce_by_codec = [&] {
      mpi::require(by_codec(piece.reduction), reduction_.call.function);
    };
    wait();
    auto const begin = std::chrono::steady_clock::now();
    auto const mpi = nanoseconds_of(reduce_by_mpi), waited = nanoseconds_of(wait);
    auto const plans = cache.plans_made();
    auto codec = nanoseconds_of(reduce_by_codec);
    if (cache.plans_made() > plans) {  // the first call touched new memory
      wait();
      codec = nanoseconds_of(reduce_by_codec);
    }
    // The first wait and the comparison of the statistics each take about as long as this wait.
    auto const cost = nanoseconds_since(begin) + 2 * waited;
    strategy_.learn_look(united(strategy_.stats_of_look(mpi, codec, cost)));
  }
  strategy_stats united(strategy_stats mine) {
    static_assert(sizeof mine == 4 * sizeof(std::int64_t));
    mpi::require(
        PMPI_Allreduce(MPI_IN_PLACE, &mine, 4, MPI_INT64_T, MPI_MAX, reduction_.comm_of(state_)),
        "MPI_Allreduce");
    return mine;
  }

  communicator& state_;
  compressed_call reduction_;
  function_of_mpi const& by_mpi_;
  Make const& make_;
  faster_strategy& strategy_;
};

}  // namespace hcomp::drop_in
