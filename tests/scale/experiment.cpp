#include "experiment.hpp"

#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/model.hpp>
#include <hcomp/mpi/transport.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>

#include "cluster.hpp"
#include "costs.hpp"
#include "simulated_executor.hpp"

namespace scale {
namespace {

using vector = std::vector<float>;

/// Fills x with +1 and -1, different on every rank; a quarter, a half or three quarters are +1.
void draw(vector& x, int rank) {
  for (std::size_t first = 0; first < x.size(); first += 64) {
    auto const word = [&](std::uint64_t i) {
      return hcomp::mix(hcomp::mix(first + i) + static_cast<std::uint64_t>(rank));
    };
    std::uint64_t const a = word(0), b = word(1), kind = first / 64 % 3;
    std::uint64_t const bits = kind == 0 ? a & b : kind == 1 ? a : a | b;
    for (std::size_t i = 0; i < std::min<std::size_t>(64, x.size() - first); ++i)
      x[first + i] = static_cast<float>(bits >> i & 1) * 2 - 1;
  }
}

/// Checks the sum of vectors from `draw`. Returns the error in words, or an empty text.
std::string fault_of(hcomp::identity<>, vector const& sum, vector const& exact, int) {
  auto const [wrong, right] = std::ranges::mismatch(sum, exact);
  if (wrong == sum.end()) return "";
  return fmt::format("value {} is {} instead of {}", wrong - sum.begin(), *wrong, *right);
}
/// One bit per value: P times the sign of a randomly drawn rank. Its mean is the sum. Over all
/// values both differ by less than 6 standard deviations.
std::string fault_of(hcomp::sign<>, vector const& sum, vector const& exact, int ranks) {
  double difference = 0, variance = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double const s = sum[i], e = exact[i], p = ranks;
    if (std::abs(s) != p) return fmt::format("value {} is {} instead of {} or {}", i, s, p, -p);
    difference += s - e;
    variance += p * p - e * e;
  }
  if (std::abs(difference) <= 6 * std::sqrt(variance)) return "";
  return fmt::format("all values together are off by {}, {} standard deviations", difference,
                     difference / std::sqrt(variance));
}

/// The error from rounding, at the ranks and on every hop, is that of independent vectors. The
/// error from truncation is the same fraction for equal vectors as for one vector.
std::string fault_of(hcomp::thc<> const& codec, hcomp::algorithm const& how, vector const& sum,
                     vector const& exact, int ranks) {
  double off = 0, energy = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double const s = sum[i], e = exact[i];
    off += (s - e) * (s - e);
    energy += e * e;
  }
  auto const& table = codec.table();
  double const expected = (table.rounding_error + hop_error(codec, how, ranks)) * ranks *
                          static_cast<double>(sum.size());
  if (off <= 1.2 * expected + 1.5 * table.truncation_error * energy) return "";
  return fmt::format("all values together are off by {}, of {}; {} were expected", off, energy,
                     expected);
}

/// Messages contain a header and the bits drawn from their rank, per block rounded up to bytes.
/// Returns the allowed difference of one rank's bytes from the mean: 6 standard deviations, with
/// even draws and 2 bytes in place of the rounding's 0.3.
double spread_of_sampled_bytes(std::size_t values, std::size_t blocks, int ranks) {
  double const bits = std::sqrt(static_cast<double>(values) / ranks);
  double const rounding = 2 * std::sqrt(static_cast<double>(blocks));
  return (ranks - 1) * 6 * (bits / 8 + rounding);
}

/// Returns thc with the parameters of the options, or with defaults if they do not name it.
hcomp::thc<> thc_of(options const& o) {
  bool const is_used = std::ranges::count(o.codecs, "thc") > 0;
  return hcomp::thc<>({.hop_bits = o.hop_bits})
      .fitted(is_used ? static_cast<std::uint32_t>(o.ranks) : 1);
}

/// Shared state of all ranks. Ranks run one at a time, so it needs no locks.
class experiment {
 public:
  experiment(options const& o, cluster const& nodes)
      : options_(o),
        costs_(read_costs(o.costs)),
        cluster_(nodes),
        thc_(thc_of(o)),
        exact_(o.values) {
    for (auto const& codec : o.codecs)
      for (auto const& name : o.algorithms)
        if (name != "sampled" || codec == "sign")
          outcomes_.push_back({name, codec, 0, 0, 0, 0, {}});
  }

  std::vector<outcome> const& outcomes() const { return outcomes_; }

  /// The body of a rank.
  void run_rank() {
    hcomp::mpi::transport transport(MPI_COMM_WORLD, hcomp::mpi::waiting::block);
    vector x(options_.values);
    draw(x, transport.rank());
    for (std::size_t i = 0; i < x.size(); ++i) exact_[i] += x[i];
    for (auto& result : outcomes_)
      if (result.codec == "identity")
        sum(hcomp::identity<>{}, transport, x, result);
      else if (result.codec == "sign")
        sum(hcomp::sign<>{}, transport, x, result);
      else
        sum(thc_, transport, x, result);
  }

 private:
  template <class C>
  void sum(C const& codec, hcomp::mpi::transport& transport, vector& x, outcome& result) {
    int const rank = transport.rank(), ranks = transport.size();
    auto const how = hcomp::algorithm::from(result.algorithm);
    auto cost = hcomp::size_of(codec);  // size as configured, cost as measured
    for (auto const seconds : hcomp::detail::codec_times)
      cost.*seconds = costs_.of(result.codec).*seconds;
    simulated_executor executor(cost);
    hcomp::plan all(options_.values, codec, transport, executor, {.algorithm = how});
    draw(x, rank);

    cluster_.line_up();
    double const start = cluster::now();
    auto const report = all.all_reduce(x, {.seed = 1});
    result.seconds = std::max(result.seconds, cluster::now() - start);

    if (rank == 0) {
      result.hops = report.hops;
      result.bytes_sent = report.bytes_sent;
      result.predicted =
          hcomp::predicted_seconds(how, ranks, options_.values, cost, options_.link());
    }
    check_hops_and_bytes(codec, how, rank, report, result);
    bool const same = hcomp::digest(std::span(x), transport).same();
    if (rank == 0 && !same) result.faults.push_back("the ranks hold different bits");
    if (rank != 0) return;
    std::string fault;
    if constexpr (hcomp::HopRounding<C>)
      fault = fault_of(codec, how, x, exact_, ranks);
    else
      fault = fault_of(codec, x, exact_, ranks);
    if (!fault.empty()) result.faults.push_back(fault);
  }

  template <class C>
  void check_hops_and_bytes(C const& codec, hcomp::algorithm const& how, int rank,
                            hcomp::report const& report, outcome& result) const {
    int const ranks = options_.ranks;
    auto const layout = hcomp::layout_of(codec, options_.values, how.sharers(ranks));
    bool const by_sampling = how.kind == hcomp::algorithm_kind::sampled;
    // sampled selection sends to all other ranks in one hop; its report counts the messages
    int const hops = by_sampling ? ranks - 1 : hcomp::hops_of(how, ranks);
    bool const all_chunks_have_blocks = by_sampling || layout.blocks() >= std::size_t(ranks);
    if (all_chunks_have_blocks ? report.hops != hops : report.hops > hops)
      result.faults.push_back(
          fmt::format("rank {}: {} hops instead of {}", rank, report.hops, hops));

    bool const decodes_on_arrival =
        how.merges() && !hcomp::make_schedule(how, rank, ranks).reduces_all &&
        options_.values * sizeof(float) >= hcomp::plan_options{}.decode_on_arrival_bytes;
    std::size_t const record =
        hcomp::statistics_words(codec, layout) * sizeof(std::uint32_t) +
        (decodes_on_arrival ? sizeof(hcomp::detail::sealed<hcomp::detail::findings_summary>) : 0);
    auto const bytes = hcomp::bytes_sent_per_rank(codec, options_.values, rank, ranks, {how}) +
                       hcomp::agreement_bytes_per_rank(ranks) +
                       static_cast<std::uint64_t>(hcomp::detail::agreement_steps(ranks)) * record;
    double const off = static_cast<double>(report.bytes_sent) - static_cast<double>(bytes);
    double const allowed =
        by_sampling ? spread_of_sampled_bytes(layout.values, layout.blocks(), ranks) : 0;
    if (std::abs(off) > allowed)
      result.faults.push_back(
          fmt::format("rank {}: {} bytes sent instead of {}", rank, report.bytes_sent, bytes));
  }

  options const& options_;
  hcomp::cost_table costs_;
  cluster const& cluster_;
  hcomp::thc<> thc_;
  vector exact_;  ///< sum of the vectors of all ranks
  std::vector<outcome> outcomes_;
};

}  // namespace

std::vector<outcome> run(options const& o) {
  cluster nodes(o.ranks, o.link(), o.rendezvous);
  experiment all(o, nodes);
  nodes.run([&] { all.run_rank(); });
  return all.outcomes();
}

}  // namespace scale
