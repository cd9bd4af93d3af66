#pragma once
/// @file
/// Reduces sparse vectors by shards, or by an index and then lanes. One implementation for all
/// codecs, executors and transports.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/call_session.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/sparse/detail/shard_exchange.hpp>
#include <hcomp/collective/sparse/detail/sparse_work.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <string>
#include <utility>

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
        reduces_by_shards_(made_for.reduces_by_shards),
        shards_(made_for, transport, options) {}

  block_range shard_blocks() const override { return shards_.shard().words; }

  report all_reduce(call_arguments const& given, sparse_values& values,
                    call_options const& call) override {
    if (reduces_by_shards_) return by_shards(operation::all_reduce, given, values, call);
    auto stats = start(operation::all_reduce, given, call);
    reduce_in_phases(values.x, call, stats);
    return session_.done(stats);
  }
  report reduce_scatter(call_arguments const& given, sparse_values& values,
                        call_options const& call) override {
    return by_shards(operation::reduce_scatter, given, values, call);
  }
  report all_gather(call_arguments const& given, sparse_values& values,
                    call_options const& call) override {
    return by_shards(operation::all_gather, given, values, call);
  }

 private:
  report start(operation what, call_arguments const& given, call_options const& call) {
    auto const stats = session_.start(what, given, call);
    session_.require_weights_of_one();
    return stats;
  }

  report by_shards(operation what, call_arguments const& given, sparse_values& values,
                   call_options const& call) {
    auto stats = start(what, given, call);
    if (is_on_device_) stats.messages = message_memory::host_staged;
    auto const found = shards_.run(what, values.x, call.op, session_.key(), stats);
    session_.finish(found, findings::of_parts, layout_, stats);
    stopwatch watch;
    shards_.write();
    watch.add_to(stats.seconds_decode);
    if (what == operation::all_reduce) choice_ = shards_.choice();
    return session_.done(stats);
  }

  // ---- in two phases ------------------------------------------------------------------------
  void reduce_in_phases(std::span<float> x, call_options call, report& stats) {
    reduce_op const op = std::exchange(call.op, reduce_op::sum);
    // the plans of the phases may be new, and would use the keys of earlier calls again
    if (!call.step) call.step = session_.earlier_calls();
    unite(x, op, call, stats);
    stopwatch watch;
    try {
      choice_ = work_->unite(session_.key());
    } catch (wire_error const& error) {  // other ranks may have found no fault
      revoke(transport(), error.what());
    }
    watch.add_to(stats.seconds_encode);
    stats += work_->sum_lanes(x, session_.key(), call);
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

  /// Unites the index, and compares it, also without options.check: the lengths of later messages
  /// depend on it. After damage on one rank no rank may continue.
  void unite(std::span<float const> x, reduce_op op, call_options const& call, report& stats) {
    bool const compares = transport().size() > 1;
    std::uint64_t print = 0;
    std::string damage;
    try {
      stats += work_->sum_index(x, op, call, compares ? &print : nullptr);
      damage = missing_ranks(stats);
    } catch (wire_error const& error) {
      damage = error.what();
    }
    stopwatch watch;
    if (compares) {
      union_summary all{print, print, damage.empty() ? 0u : 1u};
      session_.unite(all, [](union_summary& a, union_summary const& b) { a.unite(b); });
      if (damage.empty() && (all.damaged || all.lowest != all.highest))
        damage = std::string(session_.codec().name) + ": the index of " +
                 std::to_string(layout_.values) + " values was damaged on its way to some rank";
    }
    watch.add_to(stats.seconds_communicate);
    if (!damage.empty()) throw wire_error(damage);
  }

  sparse_work* work_;
  bool is_on_device_;
  bool reduces_by_shards_;
  shard_exchange shards_;
};

}  // namespace hcomp::detail
