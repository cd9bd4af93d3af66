#pragma once
/// @file
/// Sums of sparse vectors by hcomp's own collectives: what is zero on all ranks does not travel.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/sparse_lanes.hpp>
#include <hcomp/codec/native_lanes.hpp>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sparse_index.hpp>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/detail/call_check.hpp>
#include <hcomp/collective/detail/call_session.hpp>
#include <hcomp/collective/detail/codec_terms.hpp>
#include <hcomp/collective/detail/shard_exchange.hpp>
#include <hcomp/collective/detail/sparse_phases.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/collective/plan.hpp>
#include <hcomp/collective/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/code_layout.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace hcomp {

/// Settings of a sparse_plan; equal on all ranks.
struct sparse_plan_options {
  sparse_ways ways = {};    ///< of which sketches serve all_reduce alone, and not by `direct`
  lhc_options sketch = {};  ///< if it comes to that
  /// Here `direct`, which sends least; in a plan_options of your own name it too. nonfinite is as
  /// for sparse_options; narrow means nothing here.
  plan_options plan = {.how = {algorithm_kind::direct}};
};

namespace detail {

/// What the ranks of a sparse_plan must agree on, as plans compare codecs.
template <class Lane> struct sparse_terms {
  static constexpr char const* name = "sparse_plan";
  static constexpr std::uint8_t tag = std::is_same_v<Lane, float> ? 23
                                      : sizeof(Lane) == 4         ? 24
                                                                  : 25;

  sparse_ways ways;
  lhc_options sketch;

  std::array<double, 4> parameters() const {
    return {ways.dense * 4.0 + ways.packed * 2.0 + ways.sketched, ways.worthwhile,
            sketch.cells_per_value, static_cast<double>(sketch.attempts)};
  }
};

/// What all ranks' unions of indices have in common.
struct union_summary {
  std::uint64_t lowest, highest;  ///< fingerprint
  std::uint64_t damaged;          ///< 1: some rank met damage

  void unite(union_summary const& other) {
    lowest = std::min(lowest, other.lowest);
    highest = std::max(highest, other.highest);
    damaged |= other.damaged;
  }
};

}  // namespace detail

/// Everything that sums sparse vectors of one size over one transport, as `plan` does dense ones.
///
///     hcomp::sparse_plan<std::uint32_t, hcomp::loopback, hcomp::host_executor> sum(
///         gradient.size(), transport, executor);
///     sum.all_reduce(gradient);   // and sum.choice().text() tells how
///     sum.reduce_scatter(other);  // of which sum.owned() is this rank's,
///     sum.all_gather(other);      // until all ranks have all shards
///
/// Algorithm direct: ranks send the owner of every shard what they have of it, and owners send the
/// sums to all, each time the values that are not zero and where they are, in as few bytes as that
/// takes. Others: two all_reduce of a plan, first of an index of a bit per value, then of the
/// values that are not zero on some rank.
///
/// Fixed point (Lane std::uint32_t or std::uint64_t) is exact: the same bits by every algorithm,
/// way and order, from all_reduce and reduce_scatter alike. Floats have the same bits on all ranks:
/// by direct, and in shards of reduce_scatter, added up in the order of the ranks; by others as
/// plans add them, but whose value comes first depends on where the packed array is cut. With
/// algorithm doubling it does not, and without sketches sums equal those of plan<identity<float>>.
///
/// Transport and executor are used, not owned, and must outlive the plan. One call at a time.
/// Weights must be 1. Where x is on a device (DeviceExecutor) bits, bytes and choice are those of
/// hosts, also with ranks of either kind in one sum; but sketches take fixed point: floats without
/// packing are refused. Shards go through host memory, where headers, marks and checksums are
/// written and checked. The host waits where bytes leave and where their number must be known: for
/// the marks of x, of sums, and what sums have of NaN and infinity; by an index for 24 bytes that
/// say what it has, and where plans do; of a sketch some times: every 24 rounds in which it is
/// found out what can be read, and for the check.
/// @tparam Lane  float, std::uint32_t or std::uint64_t, as for sparse_union
/// Memory: by direct 2 lanes and 2 floats per value, of which only what is not zero is touched, and
/// some bits; on devices 2 lanes and some bits, a lane more per value of the shard, and in pinned
/// host memory what hosts have; otherwise an index, the lanes of one call, and a plan for as many,
/// which is made anew when their number changes; and where sketches are chosen, 8 bytes per cell
/// and per value in them, of the largest so far. Nothing else is allocated after the first call.
template <class Lane, Transport T, Executor E> class sparse_plan {
 public:
  using value_type = float;
  using lane_type = Lane;

  /// @param values  of every vector to be summed, below 2^32
  /// @throws std::invalid_argument  too many values, no way is allowed, or as plan and lhc
  sparse_plan(std::size_t values, T& transport, E& executor,
              sparse_plan_options const& options = {})
      : options_(options),
        executor_(&executor),
        transport_(transport),
        session_(detail::terms_of(detail::sparse_terms<Lane>{options.ways, options.sketch},
                                  sizeof(float), std::numeric_limits<std::uint32_t>::max()),
                 checked(values, options), transport_, options.plan, E::space),
        phases_(values, options_for(reduction::sum), options.ways, options.sketch, executor),
        index_(sparse_index::words(values), {}, transport_, executor, inner_options()),
        layout_{values, 64, 0, 0},
        shards_(values, transport_, executor, options.ways, options.plan) {}
  sparse_plan(sparse_plan const&) = delete;
  sparse_plan& operator=(sparse_plan const&) = delete;

  std::size_t values() const { return layout_.values; }
  sparse_plan_options const& options() const { return options_; }
  /// Of the last all_reduce: what was sent, and why.
  sparse_choice const& choice() const { return choice_; }

  /// The values of which this rank holds the sum after `reduce_scatter`, and that it gives in
  /// `all_gather`: as many as others have, in whole words of 64.
  value_range owned() const {
    auto const mine = shards_.shard();
    return {mine.first, mine.count};
  }

  /// All ranks own as many values where this times the ranks divides them.
  std::size_t part_unit() const { return 64; }

  /// Sum `x` over all ranks, in place: the index of what is not zero on some rank, then the values
  /// by the way that takes fewest bytes.
  ///
  /// @param x  values() values; on return the same bits on all ranks
  /// @throws std::invalid_argument  wrong size, misaligned, or a weight that is not 1;
  ///                                memory_error: x is not in the executor's memory
  /// @throws disagreement_error     ranks passed different sizes, settings, lanes, steps, ...
  /// @throws nonfinite_error        NaN or infinity on some rank, as sparse_options says, or with
  ///                                floats and throw_error a sum that overflows
  /// @throws wire_error             damaged or contradicting messages met
  /// @throws transport_error        a peer failed; the transport must not be used again
  /// All but the last come on all ranks alike, and then x is unchanged. Only by algorithms other
  /// than direct damage to the lanes on their last way is noticed by its receivers alone, unless
  /// options.plan.checksum is on; their x is unchanged. With options.plan.check off a wrong
  /// argument, or by other algorithms a damaged index, is noticed only by the rank that has it, and
  /// others may wait for it.
  ///
  /// Cost: direct: 2 (P - 1) messages; of a shard they have a byte, or 4 with the value, per value
  /// that is not zero and 1 / 32 bit per value, or at most one bit per value; and log2 P small
  /// messages before and after, with fixed point another time. Others: two all_reduce of plans, of
  /// a bit per value and of the lanes that choice() tells, and log2 P small messages between them.
  report all_reduce(std::span<float> x, call_options const& call = {}) {
    if (by_shards()) return all_reduce_by_shards(x, call);
    auto figures = start(detail::operation::all_reduce, x, call);
    detail::stopwatch watch;
    auto const words = phases_.mark(x, call.result);
    watch.add_to(figures.seconds_encode);
    unite(words, call, figures);
    watch.skip();
    phases_.unite(session_.stream());
    choice_ = phases_.choice();
    auto const lanes = room_for(phases_.lanes());
    phases_.encode_lanes(x, lanes, session_.stream());
    watch.add_to(figures.seconds_encode);
    figures += lane_plan_->all_reduce(lanes, inner_call(call));
    watch.skip();
    phases_.decode_lanes(lanes, x, session_.stream());
    watch.add_to(figures.seconds_decode);
    return session_.done(figures);
  }

  /// Sums of sparse vectors lose nothing that could be fed back.
  /// @throws std::invalid_argument  always, on all ranks alike, unless an argument is wrong besides
  template <Feedback<float> F>
  report all_reduce(std::span<float> x, F& feedback, call_options const& call = {}) {
    return session_.refuse_feedback(detail::operation::all_reduce,
                                    detail::arguments_of(executor_, x, feedback), call);
  }
  template <Feedback<float> F>
  report reduce_scatter(std::span<float> x, F& feedback, call_options const& call = {}) {
    return session_.refuse_feedback(detail::operation::reduce_scatter,
                                    detail::arguments_of(executor_, x, feedback), call);
  }

  /// Sum over all ranks, but leave each rank only the sum of its `owned()` in x; the rest of x
  /// keeps its values. What a sharded optimizer needs.
  ///
  /// Every rank sends every owner what it has of the owner's shard: a bit per value and the values
  /// that are not zero here, or all values where that takes less. That needs no union, no sketch
  /// and no algorithm.
  /// Errors as for all_reduce, those of damage too on all ranks alike.
  /// Cost: P - 1 messages straight to their owners, together (P - 1) / P of this rank's bits and
  /// values and 32 bytes each; and log2 P small messages before and after.
  report reduce_scatter(std::span<float> x, call_options const& call = {}) {
    auto figures = start_by_shards(detail::operation::reduce_scatter, x, call);
    auto const numbers = agree_on_units(x, call, figures);
    auto const found = shards_.add_up(numbers, x, session_.stream(), false, figures);
    session_.finish(found, detail::findings::of_parts, layout_, figures);
    detail::stopwatch watch;
    shards_.read_sums(numbers, x);
    watch.add_to(figures.seconds_decode);
    return session_.done(figures);
  }

  /// Give every rank all ranks' `owned()` of x, as they are, bit for bit: what an optimizer made of
  /// the sums of reduce_scatter. Zeros travel too, since parameters are not sparse.
  ///
  /// Errors as for reduce_scatter; but NaN and infinity are refused only if
  /// options.plan.nonfinite is throw_error, whatever the lanes, and only where they would travel.
  /// Cost: P - 1 messages straight to the others, each of this rank's shard and 32 bytes; and
  /// log2 P small messages before and after.
  report all_gather(std::span<float> x, call_options const& call = {}) {
    auto figures = start_by_shards(detail::operation::all_gather, x, call);
    auto const found = shards_.gather(x, session_.stream(), figures);
    session_.finish(found, detail::findings::of_parts, layout_, figures);
    detail::stopwatch watch;
    shards_.read(x);
    watch.add_to(figures.seconds_decode);
    return session_.done(figures);
  }

 private:
  static constexpr char const* name = "sparse_plan";

  static std::size_t checked(std::size_t values, sparse_plan_options const& options) {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    if (values > most)
      throw std::invalid_argument("sparse_plan: " + std::to_string(values) +
                                  " values, there is room for " + std::to_string(most));
    if (options.plan.how.kind == algorithm_kind::owner)
      throw std::invalid_argument(std::string(name) +
                                  " has no algorithm 'owner'; it has: ring, "
                                  "torus, direct, doubling, aggregator");
    return values;
  }
  sparse_options options_for(reduction result) const {
    return {static_cast<std::uint32_t>(ranks()), result, options_.plan.nonfinite};
  }
  /// Of the plans in here: what they would compare is compared before.
  plan_options inner_options() const {
    auto inner = options_.plan;
    inner.check = false;
    return inner;
  }
  static call_options inner_call(call_options call) {
    call.result = reduction::sum;
    return call;
  }

  any_transport& transport() const { return session_.transport(); }
  tag_t tag() const { return options_.plan.tag; }
  int ranks() const { return transport().size(); }

  report start(detail::operation what, std::span<float> x, call_options const& call) {
    auto const figures = session_.start(
        what, detail::arguments_of(executor_, x, no_feedback<float>(x.size())), call);
    for (int r = 0; r < ranks(); ++r)
      if (auto const weight = session_.weight_of(r); weight != 1)
        throw std::invalid_argument(std::string(name) + ": rank " + std::to_string(r) +
                                    " has weight " + std::to_string(weight) +
                                    ", sums of sparse vectors know only 1");
    return figures;
  }

  /// The union of all ranks' words in their place. Then a rank that has met damage in the index, or
  /// has another one than the others, must not go on without them, nor they without it.
  void unite(std::span<std::uint64_t> words, call_options const& call, report& figures) {
    std::string damage;
    try {
      figures += index_.all_reduce(words, inner_call(call));
    } catch (wire_error const& error) {
      damage = error.what();
    }
    bool const compares = options_.plan.check && ranks() > 1;
    detail::stopwatch watch;
    std::uint64_t const print = compares || DeviceExecutor<E> ? phases_.look() : 0;
    if (compares) {
      detail::union_summary all{print, print, damage.empty() ? 0u : 1u};
      unite_records(transport(), tag(), all,
                    [](auto& a, detail::union_summary const& b) { a.unite(b); });
      if (damage.empty() && (all.damaged || all.lowest != all.highest))
        damage = std::string(name) + ": the index of " + std::to_string(values()) +
                 " values was damaged on its way to some rank";
    }
    watch.add_to(figures.seconds_communicate);
    if (!damage.empty()) throw wire_error(damage);
  }

  /// Lanes of one call, and the plan that sums them.
  std::span<Lane> room_for(std::size_t count) {
    if (!lanes_ || lanes_->size() < count * sizeof(Lane)) lanes_.emplace(count * sizeof(Lane));
    if (!lane_plan_ || lane_plan_->values() != count)
      lane_plan_.emplace(count, lane_sum<Lane>{}, session_.transport(), *executor_,
                         inner_options());
    return {reinterpret_cast<Lane*>(lanes_->data()), count};
  }

  bool is_direct() const { return options_.plan.how.kind == algorithm_kind::direct; }
  bool by_shards() const { return is_direct() && (options_.ways.dense || options_.ways.packed); }
  report start_by_shards(detail::operation what, std::span<float> x, call_options const& call) {
    auto figures = start(what, x, call);
    if constexpr (DeviceExecutor<E>) figures.messages = message_memory::staged;
    return figures;
  }
  report all_reduce_by_shards(std::span<float> x, call_options const& call) {
    auto figures = start_by_shards(detail::operation::all_reduce, x, call);
    auto const numbers = agree_on_units(x, call, figures);
    auto found = shards_.add_up(numbers, x, session_.stream(), true, figures);
    found.merge(shards_.give_sums(numbers, session_.stream(), figures));
    session_.finish(found, detail::findings::of_parts, layout_, figures);
    detail::stopwatch watch;
    shards_.write(x);
    watch.add_to(figures.seconds_decode);
    choice_ = {.way = shards_.packed() ? sparse_way::packed : sparse_way::dense,
               .values = values(),
               .marked = shards_.marked(),
               .index_bytes = detail::mark_map_bytes(values()),
               .dense_bytes = values() * sizeof(float),
               .packed_bytes = shards_.marked() * sizeof(float)};
    return session_.done(figures);
  }

  /// What lanes are; depends on all ranks, unless they are floats.
  detail::lhc_numbers<Lane> agree_on_units(std::span<float const> x, call_options const& call,
                                           report& figures) {
    if constexpr (std::is_same_v<Lane, float>) {
      return detail::agreed_numbers<Lane>(name, 0, options_for(call.result));
    } else {
      detail::stopwatch watch;
      auto exponents = shards_.mark(x);
      watch.add_to(figures.seconds_encode);
      unite_records(transport(), tag(), exponents, [](auto& a, auto const& b) {
        for (std::size_t i = 0; i < a.size(); ++i) a[i] |= b[i];
      });
      watch.add_to(figures.seconds_communicate);
      return detail::agreed_numbers<Lane>(
          name, static_cast<std::uint32_t>(detail::largest_of(exponents.data())),
          options_for(call.result));
    }
  }

  sparse_plan_options options_;
  E* executor_;
  detail::erased_transport<T> transport_;
  detail::call_session session_;
  detail::sparse_phases<Lane, E> phases_;
  plan<native_lanes<std::uint64_t, native_operation::bit_or>, any_transport, E> index_;
  std::optional<plan<lane_sum<Lane>, any_transport, E>> lane_plan_;
  std::optional<typename E::buffer> lanes_;
  sparse_choice choice_;

  code_layout layout_;  ///< in words of the index, for messages about a shard
  detail::shard_exchange<Lane, E> shards_;
};

}  // namespace hcomp
