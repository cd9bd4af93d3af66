#pragma once
/// @file
/// Reduces sparse vectors by shards, or by an index and then lanes. One implementation for all
/// codecs, executors and transports.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sparse/detail/mark_list.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/call_session.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/sparse/detail/shard_exchange.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/collective/sparse/detail/sparse_work.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <stdexcept>
#include <string>

namespace hcomp::detail {

/// Compares the indices of all ranks.
struct union_summary {
  std::uint64_t lowest, highest;  ///< fingerprint
  std::uint64_t damaged;          ///< 1: some rank received damage

  void unite(union_summary const& other) {
    lowest = std::min(lowest, other.lowest);
    highest = std::max(highest, other.highest);
    damaged |= other.damaged;
  }
};

/// Reduces sparse vectors of one size over one transport, with the promises of `plan`.
///
/// With algorithm direct all_reduce works by shards, unless only sketches are allowed. With other
/// algorithms it has two phases. reduce_scatter and all_gather always work by shards.
class sparse_engine final : public sparse_collective_engine {
 public:
  /// @param work  must outlive the engine, like the transport
  /// @throws std::invalid_argument  a transport that cannot reach the executor's memory
  sparse_engine(sparse_engine_settings const& made_for, sparse_work& work, any_transport& transport,
                plan_options const& options)
      : sparse_collective_engine(made_for.codec, made_for.layout, transport, options,
                                 made_for.space),
        work_(&work),
        is_on_device_(made_for.space == memory_space::device),
        by_shards_(options.algorithm.kind == algorithm_kind::direct &&
                   (made_for.strategies.dense || made_for.strategies.packed)),
        shards_(shards_of(made_for.layout.values, transport),
                work.by_shards(shards_of(made_for.layout.values, transport)), transport, options) {
    if (!by_shards_) work.connect(transport);
  }

  block_range shard_blocks() const override { return shards_.shard().words; }
  /// The choice of the last all_reduce.
  sparse_choice const& choice() const override { return choice_; }

  report all_reduce(call_arguments const& given, sparse_values& values,
                    call_options const& call) override {
    auto stats = start(operation::all_reduce, given, call);
    if (by_shards_)
      reduce_by_shards(values.x, call, stats);
    else
      reduce_in_phases(values.x, call, stats);
    return session_.done(stats);
  }

  report reduce_scatter(call_arguments const& given, sparse_values& values,
                        call_options const& call) override {
    auto stats = start(operation::reduce_scatter, given, call);
    go_by_shards(stats);
    auto const found = shards_.add_up(values.x, call.op, session_.key(), false, stats);
    session_.finish(found, findings::of_parts, layout_, stats);
    stopwatch watch;
    shards_.read_sums(values.x);
    watch.add_to(stats.seconds_decode);
    return session_.done(stats);
  }

  report all_gather(call_arguments const& given, sparse_values& values,
                    call_options const& call) override {
    auto stats = start(operation::all_gather, given, call);
    go_by_shards(stats);
    auto const found = shards_.gather(values.x, session_.key(), stats);
    session_.finish(found, findings::of_parts, layout_, stats);
    stopwatch watch;
    shards_.read(values.x);
    watch.add_to(stats.seconds_decode);
    return session_.done(stats);
  }

 private:
  static shard_layout shards_of(std::size_t values, any_transport const& transport) {
    return {values, static_cast<std::size_t>(transport.size()),
            static_cast<std::size_t>(transport.rank())};
  }

  report start(operation what, call_arguments const& given, call_options const& call) {
    auto const stats = session_.start(what, given, call);
    session_.require_weights_of_one();
    return stats;
  }

  // ---- by shards ----------------------------------------------------------------------------
  void go_by_shards(report& stats) const {
    if (is_on_device_) stats.messages = message_memory::host_staged;
  }
  void reduce_by_shards(std::span<float> x, call_options const& call, report& stats) {
    go_by_shards(stats);
    auto found = shards_.add_up(x, call.op, session_.key(), true, stats);
    found.merge(shards_.give_sums(session_.key(), stats));
    session_.finish(found, findings::of_parts, layout_, stats);
    stopwatch watch;
    shards_.write(x);
    watch.add_to(stats.seconds_decode);
    choice_ = {.strategy = shards_.packed() ? sparse_strategy::packed : sparse_strategy::dense,
               .values = x.size(),
               .marked = shards_.marked(),
               .index_bytes = sparse::mark_map_bytes(x.size()),
               .dense_bytes = x.size() * sizeof(float),
               .packed_bytes = shards_.marked() * sizeof(float)};
  }

  // ---- in two phases ------------------------------------------------------------------------
  void reduce_in_phases(std::span<float> x, call_options call, report& stats) {
    stopwatch watch;
    work_->mark(x, call.op);
    watch.add_to(stats.seconds_encode);
    call.op = reduce_op::sum;
    // the plans of the phases may be new, and would use the keys of earlier calls again
    if (!call.step) call.step = session_.earlier_calls();
    unite(call, stats);
    watch.skip();
    try {
      work_->unite(session_.key());
    } catch (wire_error const& error) {  // other ranks may have found no fault
      revoke(transport(), error.what());
    }
    choice_ = work_->choice();
    work_->encode(x, session_.key());
    watch.add_to(stats.seconds_encode);
    stats += work_->sum_lanes(call);
    if (auto const wrong = missing_ranks(stats); !wrong.empty()) end_on_all(wrong);
    watch.skip();
    work_->decode(x, session_.key());
    watch.add_to(stats.seconds_decode);
  }
  /// Every rank must count once in each of the two phases; empty if it does.
  std::string missing_ranks(report const& stats) {
    if (stats.weight == static_cast<std::uint64_t>(transport().size())) return {};
    return std::string(session_.codec().name) + ": a sum of " + std::to_string(stats.weight) +
           " ranks' values, there are " + std::to_string(transport().size()) + " ranks";
  }
  /// With checksums all ranks have compared their findings.
  [[noreturn]] void end_on_all(std::string const& why) {
    if (options().checksum) throw wire_error(why);
    revoke(transport(), why);
  }

  /// Unites the index. A rank that has received damage, or has another index than the other ranks,
  /// must not continue without them, nor they without it.
  void unite(call_options const& call, report& stats) {
    std::string damage;
    try {
      stats += work_->sum_index(call);
      damage = missing_ranks(stats);
    } catch (wire_error const& error) {
      damage = error.what();
    }
    bool const compares = options().check && transport().size() > 1;
    stopwatch watch;
    std::uint64_t const print = compares || is_on_device_ ? work_->look() : 0;
    if (compares) {
      union_summary all{print, print, damage.empty() ? 0u : 1u};
      session_.unite(all, [](union_summary& a, union_summary const& b) { a.unite(b); });
      if (damage.empty() && (all.damaged || all.lowest != all.highest))
        damage = std::string(session_.codec().name) + ": the index of " +
                 std::to_string(layout_.values) + " values was damaged on its way to some rank";
    }
    watch.add_to(stats.seconds_communicate);
    if (damage.empty()) return;
    if (compares) throw wire_error(damage);
    revoke(transport(), damage);
  }

  sparse_work* work_;
  bool is_on_device_;
  bool by_shards_;
  shard_exchange shards_;
  sparse_choice choice_;
};

}  // namespace hcomp::detail
