#pragma once
/// @file
/// Plans of Sparse codecs. Include it where such a plan is made.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/native_lanes.hpp>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sparse.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/sparse/detail/shard_values.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/collective/sparse/detail/sparse_phases.hpp>
#include <hcomp/collective/sparse/detail/sparse_work.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#if !defined(HCOMP_COMPILED)
#include <hcomp/collective/sparse/detail/sparse_engine.hpp>
#endif

namespace hcomp::detail {

#if defined(HCOMP_COMPILED)  // see make_engine.hpp
class sparse_engine;
extern template std::unique_ptr<sparse_collective_engine>
make_engine<sparse_engine, sparse_collective_engine>(sparse_engine_settings const&, sparse_work&,
                                                     any_transport&, plan_options const&);
#endif

/// The work of a sparse engine that depends on the codec and the executor.
template <Sparse C, Executor E> class sparse_codec_work final : public sparse_work {
  using lane_type = typename C::lane_type;
  using index_codec = native_lanes<std::uint64_t, native_operation::bit_or>;

 public:
  /// @throws std::invalid_argument  too many values, no strategy is allowed, or as lhc
  sparse_codec_work(C const& codec, std::size_t values, int ranks, E& executor,
                    plan_options const& options)
      : codec_(codec),
        layout_{checked(values), 64, 0, 0},
        executor_(&executor),
        options_(options),
        phases_(codec, values,
                {.ranks = static_cast<std::uint32_t>(ranks), .nonfinite = options.nonfinite},
                executor) {}

  E& executor() const { return *executor_; }
  encoded_layout const& layout() const { return layout_; }
  C const& codec() const { return codec_; }
  /// Makes the work that depends on the transport, which must outlive this. Called once.
  sparse_engine_settings connect(any_transport& transport) {
    bool const by_shards = options_.algorithm.kind == algorithm_kind::direct &&
                           (codec_.strategies.dense || codec_.strategies.packed);
    shards_.emplace(codec_, shards_of(layout_.values, transport), options_, *executor_);
    if (!by_shards) {
      transport_ = &transport;
      options_.check = false;  // the engine compares the arguments
      index_plan_.emplace(sparse_index::words(layout_.values), index_codec{}, transport, *executor_,
                          options_);
    }
    return {terms_of(codec_, sizeof(float), std::numeric_limits<std::uint32_t>::max()),
            layout_,
            E::space,
            by_shards,
            sizeof(lane_type),
            &*shards_};
  }

  report sum_index(std::span<float const> x, reduce_op op, call_options const& call,
                   std::uint64_t* print) override {
    stopwatch watch;
    report stats;
    auto const index = phases_.mark(x, op);
    watch.add_to(stats.seconds_encode);
    stats += index_plan_->all_reduce(index, call);
    watch.skip();
    if (print || DeviceExecutor<E>) {
      auto const found = phases_.look();
      if (print) *print = found;
    }
    watch.add_to(stats.seconds_communicate);
    return stats;
  }
  sparse_choice const& unite(std::uint64_t key) override {
    phases_.unite(key);
    return phases_.choice();
  }
  report sum_lanes(std::span<float const> x, std::uint64_t key, call_options const& call) override {
    stopwatch watch;
    allocate_messages();
    phases_.encode_lanes(x, lanes_, key);
    report stats;
    watch.add_to(stats.seconds_encode);
    return stats += lane_plan_->all_reduce(lanes_, call);
  }
  void decode(std::span<float> x, std::uint64_t key) override {
    phases_.decode_lanes(lanes_, x, key);
  }

 private:
  static std::size_t checked(std::size_t values) {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    if (values > most)
      throw std::invalid_argument(std::string(C::name) + ": " + std::to_string(values) +
                                  " values, there is room for " + std::to_string(most));
    return values;
  }
  /// Makes the lanes of one call, and the plan that reduces them.
  void allocate_messages() {
    std::size_t const count = phases_.lanes();
    if (!memory_ || memory_->size() < count * sizeof(lane_type))
      memory_.emplace(count * sizeof(lane_type));
    if (!lane_plan_ || lane_plan_->values() != count)
      lane_plan_.emplace(count, lane_sum<lane_type>{}, *transport_, *executor_, options_);
    lanes_ = {reinterpret_cast<lane_type*>(memory_->data()), count};
  }

  C codec_;
  encoded_layout layout_;  ///< in words of the index
  E* executor_;
  plan_options options_;
  sparse_phases<C, E> phases_;
  std::optional<shard_values<C, E>> shards_;

  // For the two phases.
  any_transport* transport_ = nullptr;
  std::span<lane_type> lanes_;
  std::optional<typename E::buffer> memory_;
  std::optional<plan<index_codec, any_transport, E>> index_plan_;
  std::optional<plan<lane_sum<lane_type>, any_transport, E>> lane_plan_;
};

template <Sparse C, class E> struct plan_parts<C, E> {
  using work = sparse_codec_work<C, E>;
  using engine = sparse_collective_engine;
  template <class F> using values = sparse_values;

  static std::unique_ptr<engine> make(work& of, any_transport& transport,
                                      plan_options const& options) {
    return make_engine<sparse_engine, engine>(of.connect(transport), static_cast<sparse_work&>(of),
                                              transport, options);
  }
};

}  // namespace hcomp::detail
