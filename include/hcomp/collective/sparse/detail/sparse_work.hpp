#pragma once
/// @file
/// The interface of sparse reductions for engines.

#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/sparse/detail/shard_work.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <span>

namespace hcomp::detail {

/// Work of a codec and an executor, whose memory holds the vectors: by shards, or on complete
/// vectors in two phases. The order of the phases' calls is mark, sum_index, look, unite, encode,
/// sum_lanes and decode.
class sparse_work {
 public:
  virtual ~sparse_work() = default;

  virtual std::unique_ptr<shard_work> by_shards(shard_layout const& layout) = 0;

  /// Called once, before all other calls of the two phases.
  /// @param transport  must outlive this
  virtual void connect(any_transport& transport) = 0;

  virtual void mark(std::span<float const> x, reduce_op op) = 0;
  /// Replaces the index by the union of all ranks' indices.
  /// @throws wire_error  it was damaged in transfer
  virtual report sum_index(call_options const& call) = 0;
  /// A fingerprint of the union.
  virtual std::uint64_t look() = 0;
  /// Chooses a strategy.
  /// @throws nonfinite_error  by the plan's policy, and where lanes cannot carry NaN and infinity
  /// @throws wire_error       the index is not a union
  virtual void unite(std::uint64_t key) = 0;
  virtual sparse_choice const& choice() const = 0;
  virtual void encode(std::span<float const> x, std::uint64_t key) = 0;
  /// Reduces the lanes.
  virtual report sum_lanes(call_options const& call) = 0;
  virtual void decode(std::span<float> x, std::uint64_t key) = 0;
};

/// Settings of a sparse_engine.
struct sparse_engine_settings {
  codec_terms codec;
  encoded_layout layout;  ///< in words of the index
  sparse_strategies strategies;
  memory_space space = memory_space::host;  ///< of the vectors
};

/// The vector of one call.
struct sparse_values {
  template <class Work>
  sparse_values(Work const& work, float* values, no_feedback<float> const&)
      : x(values, work.layout().values) {}

  std::span<float> x;
};

/// The collectives of a plan with a Sparse codec.
class sparse_collective_engine : public collective_engine<sparse_values> {
 public:
  using collective_engine::collective_engine;

  /// The choice of the last all_reduce.
  virtual sparse_choice const& choice() const = 0;
};

}  // namespace hcomp::detail
