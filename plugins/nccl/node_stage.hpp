#pragma once
/// @file
/// The uncompressed part of a hierarchical all-reduce, inside a node.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <hcomp/gpu/buffer.hpp>
#include <span>
#include <vector>

#include "bucket_kind.hpp"
#include "live_communicator.hpp"
#include "reduction_call.hpp"

namespace hcomp::drop_in {

/// The communicators of a rank: with the ranks of its node, and with those that have its number in
/// the other nodes. Nodes have equally many ranks.
struct node_communicators {
  live_communicator *inside, *between;
  int ranks_of_node, rank_in_node;
  int nodes, node;
  std::vector<int> rank_at;  ///< the rank with number r of node n, at [n * ranks_of_node + r]
};

/// Reduces the vectors of calls inside the node before ranks of different nodes reduce shares of
/// them, and gathers the shares afterwards. In the calls' type, on one stream.
class node_stage {
 public:
  /// Allocates memory on the current device: a copy of the vectors.
  node_stage(bucket_kind const& kind, node_communicators const& ranks);

  /// What ranks of different nodes reduce: the same calls on shares.
  bucket_kind const& shares() const { return shares_; }
  /// Enqueues the part before.
  /// @return  result of NCCL
  int before(std::span<reduction_call const> calls, cudaStream_t stream, char const*& failed);
  /// The calls for the shares, after `before`.
  std::span<reduction_call const> calls() const { return calls_; }
  /// Enqueues the part after them.
  int after(std::span<reduction_call const> calls, cudaStream_t stream, char const*& failed);

 private:
  std::size_t bytes_of_share(std::size_t i) const;
  std::byte* share(std::size_t i) const;

  node_communicators const& ranks_;
  collective_kind kind_;
  std::size_t value_bytes_;
  bucket_kind shares_;
  gpu::device_buffer memory_;
  std::vector<std::byte*> copies_;  ///< of the vector of each call: shares of all ranks of the node
  std::vector<reduction_call> calls_;
};

}  // namespace hcomp::drop_in
