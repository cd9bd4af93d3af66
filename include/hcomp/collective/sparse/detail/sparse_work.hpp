#pragma once
/// @file
/// The interface of sparse reductions for engines. That of reductions by shards is shard_work.

#include <cstddef>
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
#include <span>

namespace hcomp::detail {

/// Work of a codec and an executor on complete vectors, whose index is reduced before their lanes.
/// The executor's memory holds the vectors. The order of calls is sum_index, unite, sum_lanes and
/// decode.
class sparse_work {
 public:
  /// Marks x, and unites the index with those of all ranks.
  /// @param op     of the lanes
  /// @param print  receives a fingerprint of the union; or null
  /// @throws wire_error  it was damaged in transfer
  virtual report sum_index(std::span<float const> x, reduce_op op, call_options const& call,
                           std::uint64_t* print) = 0;
  /// Chooses a strategy.
  /// @throws nonfinite_error  by the plan's policy, and where lanes cannot carry NaN and infinity
  /// @throws wire_error       the index is not a union
  virtual sparse_choice const& unite(std::uint64_t key) = 0;
  /// Encodes the lanes of x, and reduces them.
  virtual report sum_lanes(std::span<float const> x, std::uint64_t key,
                           call_options const& call) = 0;
  virtual void decode(std::span<float> x, std::uint64_t key) = 0;

 protected:
  ~sparse_work() = default;
};

/// Settings of a sparse_engine.
struct sparse_engine_settings {
  codec_terms codec;
  encoded_layout layout;         ///< in words of the index
  memory_space space;            ///< of the vectors
  bool reduces_by_shards;        ///< all_reduce works by shards
  std::size_t lane_bytes;        ///< of messages to owners
  shard_work* shards = nullptr;  ///< must outlive the engine
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
  sparse_choice const& choice() const { return choice_; }

 protected:
  sparse_choice choice_;
};

}  // namespace hcomp::detail
