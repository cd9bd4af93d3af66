#pragma once
/// @file
/// All-reduce of uncompressed values between ranks that share a node. Linux.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/simd.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/node/addition.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace hcomp::node {

/// Memory for a shared_memory_plan. Null on all ranks alike if the transport has one rank, or its
/// ranks do not share a node, or the node has no memory to share. Collective. Waits of its users
/// have no timeout, as over MPI; a rank that ends is a transport_error. The transport must outlive
/// the result.
inline std::shared_ptr<collectives> make_shared_memory(any_transport& transport, tag_t tag = 0) {
  if (transport.size() == 1) return nullptr;
  auto made = collectives::make(transport, tag, std::chrono::milliseconds(0));
  if (!made) return nullptr;
  if (transport.can_wait_until()) made->wait_over(&transport);
  return std::make_shared<collectives>(std::move(*made));
}

/// Whether plans of this codec use a shared_memory_plan where they can: for uncompressed values, if
/// no other algorithm than the default and no checksums are requested.
/// @param node_of  the nodes on which the caller places the ranks; empty: those that they run on
inline bool uses_shared_memory(codec_info const& codec, plan_options const& options,
                               std::vector<std::uint64_t> const& node_of = {}) {
  bool const are_several_nodes =
      std::adjacent_find(node_of.begin(), node_of.end(), std::not_equal_to<>()) != node_of.end();
  return codec.is_uncompressed && options.algorithm == algorithm{} && !options.checksum &&
         !are_several_nodes;
}

/// A plan for uncompressed values whose ranks share a node. All-reduces pass through shared memory,
/// without messages and headers: report::messages is message_memory::shared. Values are added in
/// rank order; 16-bit floats are added in float. Where the kernel allows it (process_vm_readv),
/// ranks read long vectors from each other's memory instead of copying them.
///
/// Arguments, errors and promises are those of hcomp::plan, whose place it takes. A plan over the
/// transport makes calls with weights or error feedback, reduce-scatters and all-gathers.
/// Memory: that of both plans, and with nonfinite_policy::throw_error this rank's share of the
/// vector.
/// Cost of an all-reduce: that of collectives, and a record of each rank.
template <class V> class shared_memory_plan {
 public:
  using value_type = V;

  /// @param by_messages  the plan whose place this plan takes
  /// @param options      of `by_messages`
  /// @param memory       one plan at a time uses it
  shared_memory_plan(any_plan<V> by_messages, plan_options const& options, any_transport& transport,
                     std::shared_ptr<collectives> memory)
      : by_messages_(std::move(by_messages)),
        options_(options),
        transport_(&transport),
        memory_(std::move(memory)),
        layout_{.values = by_messages_.values(),
                .block_values = 4096,
                .block_bytes = 0,
                .last_block_bytes = 0} {
    terms_.name = by_messages_.codec();
    terms_.value_bytes = sizeof(V);
    terms_.max_summands = std::numeric_limits<std::uint32_t>::max();
    terms_.is_lossless = true;
    reads_others_ = values() * sizeof(V) > most_in_slots && memory_->can_read_others();
    if (options.nonfinite == nonfinite_policy::throw_error) sums_.resize(share_of_each());
    if (reads_others_) {
      others_.resize(piece() * static_cast<std::size_t>(memory_->size() - 1));
      addresses_.resize(static_cast<std::size_t>(memory_->size()));
    }
  }

  shared_memory_plan(shared_memory_plan const&) = delete;
  shared_memory_plan& operator=(shared_memory_plan const&) = delete;

  std::size_t values() const { return layout_.values; }
  value_range shard() const { return by_messages_.shard(); }
  std::size_t shard_alignment() const { return by_messages_.shard_alignment(); }

  report all_reduce(std::span<V> x, call_options const& call = {}) {
    return run(operation::all_reduce, x, no_feedback<V>(x.size()), call,
               [&] { return by_messages_.all_reduce(x, call); });
  }
  report all_reduce(std::span<V> x, error_feedback<V>& feedback, call_options const& call = {}) {
    return run(operation::all_reduce, x, feedback, call,
               [&] { return by_messages_.all_reduce(x, feedback, call); });
  }
  report all_reduce(std::span<V> x, global_compensation<V>& feedback,
                    call_options const& call = {}) {
    return run(operation::all_reduce, x, feedback, call,
               [&] { return by_messages_.all_reduce(x, feedback, call); });
  }
  report reduce_scatter(std::span<V> x, call_options const& call = {}) {
    return run(operation::reduce_scatter, x, no_feedback<V>(x.size()), call,
               [&] { return by_messages_.reduce_scatter(x, call); });
  }
  report reduce_scatter(std::span<V> x, error_feedback<V>& feedback,
                        call_options const& call = {}) {
    return run(operation::reduce_scatter, x, feedback, call,
               [&] { return by_messages_.reduce_scatter(x, feedback, call); });
  }
  report all_gather(std::span<V> x, call_options const& call = {}) {
    return run(operation::all_gather, x, no_feedback<V>(x.size()), call,
               [&] { return by_messages_.all_gather(x, call); });
  }

 private:
  using operation = hcomp::detail::operation;
  using findings = hcomp::detail::encoded_findings;

  /// What each rank passes to a call.
  struct record {
    hcomp::detail::call_record call;
    std::uint64_t needs_messages;
  };

  /// Longer vectors are read from the memory of their ranks. Slots are faster while they fit into
  /// the caches of both cores.
  static constexpr std::size_t most_in_slots = 1024 * 1024;
  /// Values that are read at once from each rank.
  std::size_t piece() const {
    constexpr std::size_t least = 16 * 1024, most = 128 * 1024;
    auto const others = static_cast<std::size_t>(memory_->size() - 1);
    return std::max(least, most / others) / sizeof(V) / 64 * 64;
  }

  /// @param by_messages  makes the call if memory does not
  template <class F, class Call>
  report run(operation what, std::span<V> x, F const& feedback, call_options const& call,
             Call const& by_messages) {
    hcomp::detail::float_environment const environment;
    hcomp::detail::stopwatch watch;
    auto const given =
        hcomp::detail::arguments_of(static_cast<host_executor*>(nullptr), x, feedback);
    record const mine{
        hcomp::detail::describe(what, given, values(), terms_, options_, call,
                                call.key(calls_++, transport_->group())),
        what != operation::all_reduce || given.feedback != nullptr || call.weight != 1};
    bool const is_sound = mine.call.refused == hcomp::detail::complaint::none;
    bool const is_short = is_sound && x.size_bytes() <= collectives::most_for_all;
    double const divisor = call.op == reduce_op::mean ? transport_->size() : 1;
    report stats{.messages = message_memory::shared,
                 .weight = static_cast<std::uint64_t>(transport_->size())};
    bool is_shared = false;
    memory_->exchange(mine, std::span<V const>(is_short ? x : std::span<V>()),
                      [&](auto const& record_of, auto const& values_of) {
                        is_shared = agree(mine, record_of);
                        watch.add_to(stats.seconds_agree);
                        if (is_shared && is_short) add_at_once(what, x, divisor, values_of);
                      });
    if (!is_shared) return by_messages();
    if (!is_short) add_in_parts(what, x, divisor);
    stats.seconds_communicate = stats.seconds_agree;
    watch.add_to(stats.seconds_merge);
    return stats;
  }

  /// Compares the ranks' records. Returns whether the call needs no messages.
  template <class RecordOf> bool agree(record const& mine, RecordOf const& record_of) const {
    bool are_equal = mine.call.refused == hcomp::detail::complaint::none;
    for (int r = 0; r < transport_->size(); ++r)
      are_equal &= std::memcmp(&record_of(r), &mine, sizeof mine) == 0;
    if (are_equal) return !mine.needs_messages;
    std::vector<hcomp::detail::call_record> all;
    bool needs_messages = false;
    for (int r = 0; r < transport_->size(); ++r) {
      all.push_back(record_of(r).call);
      needs_messages |= record_of(r).needs_messages != 0;
    }
    hcomp::detail::require_agreement(terms_, all);
    return !needs_messages;
  }

  /// Every rank adds all values.
  template <class ValuesOf>
  void add_at_once(operation what, std::span<V> x, double divisor, ValuesOf const& values_of) {
    if (options_.nonfinite != nonfinite_policy::throw_error)
      return add(transport_->size(), x.size(), divisor, x.data(), values_of);
    alignas(64) V sums[collectives::most_for_all / sizeof(V)];
    add(transport_->size(), x.size(), divisor, sums, values_of);
    require_finite(what, findings_in({sums, x.size()}, 0));
    std::copy_n(sums, x.size(), x.data());
  }
  void add_in_parts(operation what, std::span<V> x, double divisor) {
    if (reads_others_ && add_by_reading(what, x, divisor)) return;
    if (options_.nonfinite != nonfinite_policy::throw_error) return memory_->all_reduce(x, divisor);
    // x must stay unchanged until all ranks know that the result is finite.
    std::size_t const each = share_of_each();
    std::size_t const mine = std::min(x.size(), static_cast<std::size_t>(memory_->rank()) * each);
    findings found;
    memory_->reduce_scatter(std::span<V const>(x), each, std::span(sums_), divisor,
                            [&](std::size_t first, std::size_t count) {
                              found.merge(findings_in({sums_.data() + first, count}, mine + first));
                            });
    memory_->exchange(found, std::span<V const>(), [&](auto const& found_of, auto const&) {
      findings all;
      for (int r = 0; r < memory_->size(); ++r) all.merge(found_of(r));
      require_finite(what, all);
    });
    std::copy_n(sums_.data(), std::min(each, x.size() - mine), x.data() + mine);
    memory_->all_gather(x, each);
  }

  /// Every rank reads its share of all vectors, and then the other shares of the result, from the
  /// memory of their ranks. Returns false on all ranks alike, with x unchanged, if a vector is in
  /// memory that cannot be read.
  bool add_by_reading(operation what, std::span<V> x, double divisor) {
    bool const may_throw = options_.nonfinite == nonfinite_policy::throw_error;
    int const rank = memory_->rank(), size = memory_->size();
    auto const share = [&](int r) {
      std::size_t const each = share_of_each();
      std::size_t const first = std::min(x.size(), static_cast<std::size_t>(r) * each);
      return x.subspan(first, std::min(each, x.size() - first));
    };
    auto const mine = share(rank);
    auto const offset = static_cast<std::size_t>(mine.data() - x.data());
    all_meet(reinterpret_cast<std::uint64_t>(x.data()),
             [&](int r, std::uint64_t its) { addresses_[static_cast<std::size_t>(r)] = its; });
    auto const address_of = [&](int r) { return addresses_[static_cast<std::size_t>(r)]; };
    std::uint64_t is_refused = 0;
    V probe;
    for (int r = 0; r < size; ++r)
      for (std::size_t const i : {std::size_t{0}, x.size() - 1})
        is_refused |= !read(r, address_of(r) + i * sizeof(V), {&probe, 1});
    bool is_possible = true;
    all_meet(is_refused, [&](int, std::uint64_t its) { is_possible &= its == 0; });
    if (!is_possible) return false;

    // Nobody else reads this share of x before it is the result.
    std::size_t added = 0;
    try {
      findings found, all;
      while (added < mine.size()) {
        std::size_t const count = std::min(piece(), mine.size() - added);
        auto const other = [&](int r) {
          return std::span(others_).subspan(static_cast<std::size_t>(r - (r > rank)) * piece(),
                                            count);
        };
        for (int r = 0; r < size; ++r)
          if (r != rank) must_read(r, address_of(r) + (offset + added) * sizeof(V), other(r));
        V* const result = mine.data() + added;
        if (may_throw) std::copy_n(result, count, sums_.data() + added);
        add(size, count, divisor, result,
            [&](int r) -> V const* { return r == rank ? result : other(r).data(); });
        added += count;
        if (may_throw) found.merge(findings_in({result, count}, offset + added - count));
      }
      all_meet(found, [&](int, findings const& its) { all.merge(its); });
      require_finite(what, all);
    } catch (...) {
      if (may_throw) std::copy_n(sums_.data(), added, mine.data());
      throw;
    }
    for (int i = 1; i < size; ++i) {
      int const r = (rank + i) % size;
      auto const its = share(r);
      must_read(r, address_of(r) + static_cast<std::size_t>(its.data() - x.data()) * sizeof(V),
                its);
    }
    all_meet(std::uint64_t{0}, [](int, std::uint64_t) {});  // all have read this rank's memory
    return true;
  }
  /// Calls use(rank, its record) for all ranks.
  template <class Record, class Use> void all_meet(Record const& mine, Use const& use) {
    memory_->exchange(mine, std::span<V const>(), [&](auto const& record_of, auto const&) {
      for (int r = 0; r < memory_->size(); ++r) use(r, record_of(r));
    });
  }
  bool read(int r, std::uint64_t from, std::span<V> to) const {
    return memory_->read(r, from, std::as_writable_bytes(to));
  }
  /// @throws transport_error  on all ranks
  void must_read(int r, std::uint64_t from, std::span<V> to) {
    if (read(r, from, to)) return;
    auto const text = hcomp::detail::error_text({"rank ", r, " failed: its memory is gone"});
    memory_->fail(r, text);
    throw transport_error(r, text);
  }

  /// Values per rank in an all-reduce, in whole cache lines.
  std::size_t share_of_each() const {
    auto const ranks = static_cast<std::size_t>(transport_->size());
    return ((values() + ranks - 1) / ranks + 63) / 64 * 64;
  }
  void require_finite(operation what, findings const& found) const {
    hcomp::detail::require_sound(to_text(what), terms_.name, found, options_.nonfinite, layout_);
  }
  /// @param first  position of the results in the vector
  findings findings_in(std::span<V const> results, std::size_t first) const {
    findings found;
    if (are_finite(results)) return found;
    for (std::size_t i = 0, counted = findings::nowhere; i < results.size(); ++i) {
      std::size_t const block = (first + i) / layout_.block_values;
      if (block == counted || is_finite(summand(results[i]))) continue;
      counted = block;
      found.nonfinite = std::min<std::uint64_t>(found.nonfinite, block);
      ++found.nonfinite_blocks;
    }
    return found;
  }
  /// Kernel for run_at: the bits of the largest magnitude, without a sign.
  struct largest_bits {
    using word = std::conditional_t<sizeof(V) == 2, std::int16_t,
                                    std::conditional_t<sizeof(V) == 4, std::int32_t, std::int64_t>>;
    std::span<V const> x;

    template <int> [[gnu::always_inline]] word run() const {
      word most = 0;
      for (V const value : x)
        most = std::max(
            most, static_cast<word>(same_bits<word>(value) & std::numeric_limits<word>::max()));
      return most;
    }
  };
  static bool are_finite(std::span<V const> x) {
    auto const infinity = static_cast<V>(std::numeric_limits<accumulator_t<V>>::infinity());
    return run_at(best_simd_level(), largest_bits{x}) <
           same_bits<typename largest_bits::word>(infinity);
  }

  any_plan<V> by_messages_;
  plan_options options_;
  any_transport* transport_;
  std::shared_ptr<collectives> memory_;
  encoded_layout layout_;  ///< for error texts
  hcomp::detail::codec_terms terms_;
  std::vector<V> sums_;  ///< this rank's share of the result, or of x before the result
  bool reads_others_ = false;
  std::vector<V> others_;  ///< of a piece
  std::vector<std::uint64_t> addresses_;
  std::uint64_t calls_ = 0;
};

/// A shared_memory_plan in the place of `plan`; `plan` itself if `memory` is null.
/// @param options, transport  of `plan`
template <class V>
any_plan<V> in_shared_memory(any_plan<V> plan, plan_options const& options,
                             hcomp::detail::kept_transport transport,
                             std::shared_ptr<collectives> memory) {
  if (!memory) return plan;
  auto const codec = plan.codec();
  auto body = std::make_unique<hcomp::detail::some_plan<shared_memory_plan<V>>>(
      std::move(plan), options, *transport, std::move(memory));
  return {codec, std::move(transport), std::move(body)};
}

}  // namespace hcomp::node
