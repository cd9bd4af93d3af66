#pragma once
/// @file
/// Times the codec operations of a collective, with the work that its engine calls.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/codec/block_header.hpp>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/codec/sign/detail/sampling_tree.hpp>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/engine/detail/sampled_bits.hpp>
#include <hcomp/collective/engine/detail/variable_rate_work.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::detail {

inline double median(std::vector<double> seconds) {
  auto const middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

/// Ordinary values of both signs in random order.
template <class V> struct fill_block {
  V* x;
  encoded_layout layout;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    std::size_t const first = b * layout.block_values;
    for (int i = group.worker(); i < layout.values_in(b); i += Group::workers) {
      std::size_t const at = first + static_cast<std::size_t>(i);
      x[at] = static_cast<V>(static_cast<float>(mix(at) % 2001) / 1000.0f - 1.0f);
    }
    group.sync();
  }
};

/// Measures the costs of a codec. Every cost is the median of 3 batches, each the mean over
/// repetitions: ranks that share a core take turns, and single repetitions may be too short to
/// include that.
struct codec_probe {
  using task = std::function<void()>;

  int ranks;
  std::size_t values;
  double seconds;    ///< approximate time per cost
  task line_up;      ///< returns when all ranks have called it, so that they work at the same time
  task synchronize;  ///< waits for the executor
  double call = 0;   ///< seconds per use of the executor

  double per_value(double of_all) const {
    return std::max(0.0, of_all - call) / static_cast<double>(values);
  }

  /// Seconds of `work`, each time after `prepare`.
  double timed(task const& prepare, task const& work) const {
    line_up();
    prepare();
    work();
    synchronize();  // the first run touches the memory
    std::vector<double> batches;
    while (batches.size() < 3) {
      double worked = 0, spent = 0;
      int repetitions = 0;
      stopwatch batch;
      do {
        prepare();
        stopwatch watch;
        work();
        synchronize();
        watch.add_to(worked);
        batch.add_to(spent);
        ++repetitions;
      } while (spent < seconds / 3);
      batches.push_back(worked / repetitions);
    }
    return median(std::move(batches));
  }
  double timed(task const& work) const {
    return timed([] {}, work);
  }

  /// @param cost     has the sizes
  /// @param encoded  receives the encoded vector of one rank
  codec_cost of_blocks(codec_cost cost, block_engine_settings const& made_for, code_work& work,
                       value_work& x, any_buffer const& encoded) const {
    auto const all = made_for.layout.all();
    auto const other = work.allocate(made_for.layout.bytes());
    auto const statistics = work.allocate(made_for.statistics_words * sizeof(std::uint32_t));
    auto* const words = made_for.statistics_words > 0
                            ? reinterpret_cast<std::uint32_t*>(statistics.data())
                            : nullptr;
    auto const encode = [&](any_buffer const& to, std::uint32_t rank, std::uint32_t weight) {
      x.encode(all, to.data(), {0, rank, weight, 0, words});
      work.synchronize();
    };
    cost.call = call;
    if (words) cost.measure = per_value(timed([&] { x.measure(words); }));
    encode(other, 1, 1);
    cost.encode = per_value(timed([&] { encode(encoded, 0, 1); }));
    std::uint32_t const most = std::min<std::uint32_t>(
        {4, made_for.codec.max_summands - 1, static_cast<unsigned>(ranks) - 1});
    for (std::uint32_t weight = 1; weight <= most; ++weight)  // the weight grows with every hop
      cost.merge +=
          per_value(timed([&] { encode(encoded, 0, weight); },
                          [&] { work.merge(all, encoded.data(), other.data(), any_rank); })) /
          most;
    if (made_for.is_narrow) {
      auto const narrow = work.allocate(made_for.layout.bytes());
      auto const change = [&](std::uint32_t weight, double& narrowing, double& widening) {
        encode(encoded, 0, weight);
        std::size_t bytes = 0;
        narrowing = per_value(
            timed([&] { bytes = work.narrow(all, encoded.data(), narrow.data(), weight); }));
        widening = per_value(timed([&] {
          work.widen(all, {narrow.data(), bytes}, nullptr, encoded.data(), weight);
        }));
      };
      change(1, cost.narrow_one, cost.widen_one);
      change(std::min(static_cast<std::uint32_t>(ranks), made_for.codec.max_summands), cost.narrow,
             cost.widen);
    }
    encode(encoded, 0, 1);
    cost.decode = per_value(timed([&] { x.decode(all, encoded.data(), reduce_op::mean, false); }));
    return cost;
  }

  /// Measures the additional work of algorithm sampled, per rank.
  /// @param encoded  encoded vector of one rank; overwritten
  template <Executor E>
  void selection(codec_cost& cost, encoded_layout const& layout, E& executor,
                 std::byte* encoded) const {
    auto const size = static_cast<std::size_t>(ranks);
    auto const header = load<block_header>(encoded);
    auto const tree = sampling::tree_of(std::vector<std::uint32_t>(size, 1));
    auto const lots = sampling::lots_of({}, size);
    std::vector<std::uint32_t> counts(layout.blocks() * size);
    cost.pack =
        per_value(timed([&] {
          executor.for_each_block(
              layout.blocks(),
              pack_owned_bits{layout, {tree.data(), lots, size, 0}, 0, encoded, counts.data()});
        })) /
        ranks;
    std::vector<std::size_t> starts(counts.size());
    std::size_t end = 0;
    for (std::size_t r = 0; r < size; ++r)
      for (std::size_t b = 0; b < layout.blocks(); ++b) {
        starts[b * size + r] = end;
        end += (counts[b * size + r] + 7) / 8;
      }
    std::vector<std::byte> const messages(end + 16);
    cost.unpack = per_value(timed([&] {
                    executor.for_each_block(layout.blocks(),
                                            unpack_owned_bits{layout,
                                                              {tree.data(), lots, size, header.key},
                                                              header,
                                                              messages.data(),
                                                              starts.data(),
                                                              encoded});
                  })) /
                  ranks;
  }

  /// The size is that of the longest encoded vector.
  codec_cost of_variable_rate(algorithm_set algorithms,
                              variable_rate_engine_settings const& made_for,
                              variable_rate_work& work, variable_rate_values& x) const {
    value_range const all{0, values};
    work.reserve(values, 0, made_for.merges_encoded);
    bool const is_fallback = made_for.fits_calls && work.fit(x.measure(), ranks);
    if (is_fallback) {
      work.refine(false);
      work.reserve(values, 0, made_for.merges_encoded);
    }
    std::size_t const most_bytes = work.capacity(values);
    auto const encoded = work.allocate(most_bytes), sum = work.allocate(most_bytes);
    std::size_t bytes = 0, longest = 0;
    encoded_findings none;
    auto const encode = [&] {
      work.start();
      if (made_for.fits_calls) work.fit(x.measure(), ranks);
      if (is_fallback) work.refine(false);
      x.encode(all, false, false, {encoded.data(), most_bytes});
      bytes = work.end(0, none);
    };
    codec_cost cost;
    cost.encode = per_value(timed(encode));
    longest = bytes;
    std::span<std::byte const> const made(encoded.data(), bytes);
    if (ranks > 1)
      cost.merge = per_value(timed([&] {
        std::span const out(sum.data(), most_bytes);
        made_for.merges_encoded ? work.merge(made, made, values, false, out)
                                : x.add_and_encode(all, false, made, false, out);
        longest = std::max(longest, work.end(0, none));
      }));
    cost.decode = per_value(timed([&] { x.decode(all, made, false, encoded_by::another, 0); }));
    cost.block_values = 1024;
    cost.block_bytes = std::max<std::size_t>(1, (longest * 1024 + values - 1) / values);
    cost.block_unit = made_for.layout.block_values;
    cost.algorithms = algorithms;
    cost.algorithms.remove(
        algorithm_kind::aggregator);  // it sends uncompressed results, see variable_rate_engine
    return cost;
  }
};

/// @param line_up  see codec_probe
/// @throws std::invalid_argument  ranks < 1, or no values to measure with
template <Executor E>
codec_probe probe_on(E& executor, int ranks, std::size_t values, double seconds,
                     codec_probe::task line_up) {
  if (ranks < 1 || values < 1)
    throw std::invalid_argument(error_text(
        {"measure_codec: ", values, " values, ", ranks, " ranks; at least 1 is needed of both"}));
  codec_probe probe{ranks, values, seconds, std::move(line_up), [&] { executor.synchronize(); }};
  probe.call = probe.timed([&] { executor.for_each_block(2, any_block_work{}); });
  return probe;
}

/// @param probe  made for this executor
template <Summable C, Executor E>
codec_cost measured_cost(C const& codec, E& executor, codec_probe const& probe) {
  using V = typename C::value_type;
  using parts = plan_parts<C, E>;
  // full blocks, all at once
  typename parts::work work(codec, probe.values, probe.ranks, executor,
                            {.algorithm = {algorithm_kind::sampled},
                             .segment_bytes = std::numeric_limits<std::size_t>::max()});
  typename E::buffer memory(probe.values * sizeof(V));
  auto* const x = reinterpret_cast<V*>(memory.data());
  encoded_layout const layout = work.layout();
  executor.for_each_block(layout.blocks(), fill_block<V>{x, layout});
  executor.synchronize();
  no_feedback<V> nothing(probe.values);
  typename parts::template values<no_feedback<V>> of_x(work, x, nothing);
  if constexpr (HomomorphicSum<C>) {
    auto const encoded = work.allocate(layout.bytes());
    auto cost = probe.of_blocks(size_of(codec), work.settings(), work, of_x, encoded);
    if constexpr (DeviceExecutor<E>)
      cost.algorithms.remove(algorithm_kind::sampled);  // `selection` works in host memory
    else if constexpr (SampledSign<C>)
      if (probe.ranks > 1 && static_cast<std::size_t>(probe.ranks) <= sampling::max_ranks)
        probe.selection(cost, layout, executor, encoded.data());
    return cost;
  } else {
    return probe.of_variable_rate(algorithms_of<C>(), work.settings(), work, of_x);
  }
}

}  // namespace hcomp::detail
