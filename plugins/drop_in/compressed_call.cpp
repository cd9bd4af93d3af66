#include "compressed_call.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/core/error.hpp>
#include <map>
#include <mutex>
#include <type_traits>
#include <vector>

#include "passed_calls.hpp"

namespace hcomp::drop_in {

namespace {

site_stats stats_of(reduction_call const& call, int ranks) {
  site_stats one;
  one.calls = 1;
  one.smallest = one.largest = static_cast<std::uint64_t>(std::max(call.count, 0));
  if (auto const type = type_of(call.type); type && ranks > 0)
    one.bytes_plain = (call.scatters ? 1 : 2) * static_cast<std::uint64_t>(ranks - 1) *
                      one.largest * size_of(*type) / static_cast<std::uint64_t>(ranks);
  return one;
}

/// Prints on rank 0 a text that all ranks have.
void warn(int rank, std::string const& text) {
  if (rank == 0) print_once(text);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Exact difference, also for integers that wrap around.
template <class V> double difference_of(V a, V b) {
  if constexpr (std::is_integral_v<V>) {
    using word = std::make_unsigned_t<V>;
    return static_cast<double>(static_cast<V>(static_cast<word>(a) - static_cast<word>(b)));
  } else {
    return static_cast<double>(a) - static_cast<double>(b);
  }
}

template <class V>
void compare(site_stats& stats, void const* sum, void const* exact, std::size_t values) {
  auto const* const ours = static_cast<V const*>(sum);
  auto const* const mpis = static_cast<V const*>(exact);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < values; ++i) {
    double const e = static_cast<double>(mpis[i]), d = difference_of(ours[i], mpis[i]);
    if (!std::isfinite(d)) continue;
    stats.worst_error = std::max(stats.worst_error, std::fabs(d));
    difference += d * d;
    norm += e * e;
  }
  stats.worst_relative =
      std::max(stats.worst_relative,
               norm > 0 ? std::sqrt(difference / norm) : (difference > 0 ? HUGE_VAL : 0.0));
  ++stats.compared;
}

/// Segments that MPI sends eagerly. A rendezvous would take longer than the transfer, because a
/// progress thread beside a computation answers late.
constexpr std::size_t short_segment_bytes = 56 * 1024;

}  // namespace

decision decide(library& lib, reduction_call const& call, bool nonblocking) {
  decision d;
  auto const left_to_mpi = [&](char const* why) {
    d.why = why;
    return d;
  };
  if (call.op != MPI_SUM) return left_to_mpi("not MPI_SUM");
  auto const type = type_of(call.type);
  if (!type) return left_to_mpi("no float, double or integer of 32 or 64 bits");
  d.type = *type;
  if (call.count <= 0) return left_to_mpi("no values");
  if (call.comm == MPI_COMM_NULL) return left_to_mpi("no communicator");
  int inter = 0;
  if (PMPI_Comm_test_inter(call.comm, &inter) != MPI_SUCCESS || inter)
    return left_to_mpi("an intercommunicator");
  PMPI_Comm_size(call.comm, &d.ranks);
  if (d.ranks < 2) return left_to_mpi("one rank");
  auto const bytes = static_cast<std::size_t>(call.count) * size_of(d.type);
  auto const& settings = lib.settings_of(call.comm);
  auto const* const found = settings.find(d.type, bytes, d.ranks);
  if (!found) return left_to_mpi(settings.why_none(d.type, bytes, d.ranks));
  if (found->spec.codec == "none") return left_to_mpi("rule says none");
  if (nonblocking && !lib.has_threads())
    return left_to_mpi("needs MPI_THREAD_MULTIPLE (nonblocking=yes asks for it)");
  d.as = found;
  return d;
}

bool has_buffers(reduction_call const& call) {
  if (!call.send) return false;
  return !call.receives ||
         (call.receive && call.receive != MPI_IN_PLACE && call.receive != call.send);
}

void note_passed(library& lib, reduction_call const& call, decision const& d) {
  ++so_far.calls_left;
  if (lib.reports())
    lib.passed().add({call.caller, call.function, d.why, call.type, d.ranks},
                     stats_of(call, d.ranks));
}

int raise(reduction_call const& call, char const* what) {
  print(std::string(call.function) + ": " + what);
  if (call.raises) PMPI_Comm_call_errhandler(call.comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

constinit thread_local bool is_summing = false;

library* taking() { return is_summing ? nullptr : library::running(); }

bool compressed_call::operator()(communicator& state, void* x, std::size_t place) const {
  hcomp::detail::float_environment const environment;
  collective_now const guard;
  if (is_out_of_reach) x = nullptr;  // the plan informs the other ranks
  auto& plans = state.plans();
  std::size_t const result = result_values();
  bool const only_tried = !is_look && state.next_call() < shadow_calls;
  bool const is_checked =
      as.check_every > 0 && !is_timed &&
      state.next_call_by(as.text()) % static_cast<std::uint64_t>(as.check_every) == 0;
  bool const compared = only_tried || is_checked;
  auto stats = stats_of(call, d.ranks);
  std::optional<std::string> left_because;  // set if MPI has to run the call

  std::vector<std::byte> plain;
  compared_seconds seconds{.calls = 1};
  // Ranks wait for each other before both calls, so neither time includes late arrivals.
  auto const begun_together = [&] {
    if (compared) wait_for_all(state);
    return std::chrono::steady_clock::now();
  };
  if (compared) {
    plain.resize(result * size_of(d.type));
    if (counts.empty() && x) std::memcpy(plain.data(), x, plain.size());
    auto const begin = begun_together();
    reduce_by_mpi(state, plain.data());
    seconds.plain = seconds_since(begin);
  }
  auto const plans_before = plans.plans_made();
  auto const begin = begun_together();
  try {
    auto const made = reduce_by_rule(plans, x, state.is_aside(), place);
    stats.bytes_sent = made.bytes_sent;
    stats.seconds_codec = made.seconds_encode + made.seconds_merge + made.seconds_decode;
    stats.seconds = seconds_since(begin);
    stats.told_error = made.error;
    stats.residual = made.residual;
    stats.beyond_bound = made.is_beyond_bound();
    if (compared) {
      seconds.own = stats.seconds;
      seconds.codec = stats.seconds_codec;
      (plans.plans_made() > plans_before ? stats.first : stats.later) = seconds;
      compare(stats, x, plain.data(), result);
    }
  } catch (nonfinite_error const&) {
    left_because = "NaN or infinity, or too large for " + as.spec.text();
  } catch (memory_error const&) {
    left_because = as.takes_device ? "a buffer in a device's memory that cannot be read"
                                   : "a buffer in a device's memory (device=no)";
  } catch (std::invalid_argument const& cannot) {  // on all ranks alike
    left_because = cannot.what();
    if (!is_look)
      warn(plans.rank(), std::string(call.function) + " of " + std::to_string(call.count) +
                             " values is left to MPI: " + cannot.what());
  }
  if (only_tried && !left_because)
    std::copy(plain.begin(), plain.end(), static_cast<std::byte*>(x));
  if (is_look) return !left_because;
  record(stats, left_because);
  return !left_because;
}

void compressed_call::compare(site_stats& stats, void const* sum, void const* exact,
                              std::size_t n) const {
  switch (d.type) {
    case value_type::float32: return drop_in::compare<float>(stats, sum, exact, n);
    case value_type::int32: return drop_in::compare<std::int32_t>(stats, sum, exact, n);
    case value_type::int64: return drop_in::compare<std::int64_t>(stats, sum, exact, n);
    default: return drop_in::compare<double>(stats, sum, exact, n);
  }
}
std::size_t compressed_call::result_values() const {
  if (counts.empty()) return values();
  int rank = 0;
  PMPI_Comm_rank(call.comm, &rank);
  return static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
}

report compressed_call::reduce_by_rule(plan_cache& plans, void* x, bool is_aside,
                                       std::size_t place) const {
  auto const segment = is_aside ? short_segment_bytes : plan_options{}.segment_bytes;
  if (counts.empty())
    return plans.all_reduce(d.type, x, values(), as.spec, tensor, segment, reduce_op::sum, place,
                            is_on_device);
  return plans.reduce_scatter(d.type, x ? input() : nullptr, counts, x, as.spec, tensor, segment);
}
void compressed_call::reduce_by_mpi(communicator& state, void* x) const {
  MPI_Comm const comm = comm_of(state);
  if (counts.empty())
    mpi::require(PMPI_Allreduce(MPI_IN_PLACE, x, call.count, call.type, MPI_SUM, comm),
                 "MPI_Allreduce");
  else
    mpi::require(PMPI_Reduce_scatter(x == input() ? MPI_IN_PLACE : input(), x, counts.data(),
                                     call.type, MPI_SUM, comm),
                 "MPI_Reduce_scatter");
}

void compressed_call::record(site_stats const& stats,
                             std::optional<std::string> const& left_because) const {
  if (left_because) {
    ++so_far.calls_left;
  } else {
    ++so_far.calls_taken;
    so_far.bytes_plain += stats.bytes_plain;
    so_far.bytes_sent += stats.bytes_sent;
  }
  if (lib->reports())
    lib->journal().add(site_of(call.function, call.caller, call.type, d.ranks,
                               left_because ? "MPI" : as.spec.text(),
                               left_because ? *left_because : "rule '" + as.text() + "'"),
                       stats);
}

}  // namespace hcomp::drop_in
