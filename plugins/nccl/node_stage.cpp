#include "node_stage.hpp"

#include <hcomp/gpu/error.hpp>

namespace hcomp::drop_in {

namespace {

using nccl::detail::success;

}  // namespace

node_stage::node_stage(bucket_kind const& kind, node_communicators const& ranks)
    : ranks_(ranks), kind_(kind.kind), value_bytes_(size_of(kind.type)), shares_(kind) {
  auto const local = static_cast<std::size_t>(ranks.ranks_of_node);
  // Shares of an all-reduce; a reduce-scatter has one per rank already.
  if (kind_ == collective_kind::all_reduce)
    for (auto& count : shares_.counts) count = multiple_of_64((count + local - 1) / local);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < shares_.counts.size(); ++i)
    bytes += multiple_of_64(local * bytes_of_share(i));
  memory_ = gpu::device_buffer(bytes);
  auto* at = memory_.data();
  for (std::size_t i = 0; i < shares_.counts.size(); ++i) {
    copies_.push_back(at);
    at += multiple_of_64(local * bytes_of_share(i));
  }
}

std::size_t node_stage::bytes_of_share(std::size_t i) const {
  auto const parts = kind_ == collective_kind::reduce_scatter ? ranks_.nodes : 1;
  return static_cast<std::size_t>(parts) * shares_.counts[i] * value_bytes_;
}

std::byte* node_stage::share(std::size_t i) const {
  return copies_[i] + static_cast<std::size_t>(ranks_.rank_in_node) * bytes_of_share(i);
}

int node_stage::before(std::span<reduction_call const> calls, cudaStream_t stream,
                       char const*& failed) {
  auto const& nccl = nccl::detail::library::get();
  auto const local = static_cast<std::size_t>(ranks_.ranks_of_node);
  failed = "ncclReduceScatter inside the node";
  calls_.clear();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    auto const& call = calls[i];
    auto const copy = [&](std::byte* to, std::size_t first, std::size_t count) {
      HCOMP_CUDA_TRY(
          cudaMemcpyAsync(to, static_cast<std::byte const*>(call.send) + first * value_bytes_,
                          count * value_bytes_, cudaMemcpyDeviceToDevice, stream));
    };
    if (kind_ == collective_kind::all_reduce) {
      std::size_t const bytes = call.count * value_bytes_;
      copy(copies_[i], 0, call.count);
      HCOMP_CUDA_TRY(
          cudaMemsetAsync(copies_[i] + bytes, 0, local * bytes_of_share(i) - bytes, stream));
    } else {
      // Rank r of this node reduces the parts for the ranks with number r of all nodes.
      auto* to = copies_[i];
      for (int number = 0; number < ranks_.ranks_of_node; ++number)
        for (int node = 0; node < ranks_.nodes; ++node) {
          auto const rank = static_cast<std::size_t>(node * ranks_.ranks_of_node + number);
          copy(to, static_cast<std::size_t>(ranks_.rank_at[rank]) * call.count, call.count);
          to += call.count * value_bytes_;
        }
    }
    if (ranks_.inside->is_ended()) return nccl::detail::remote_error;
    int const result = nccl.reduce_scatter(copies_[i], share(i), bytes_of_share(i) / value_bytes_,
                                           call.type, call.op, ranks_.inside->get(), stream);
    if (int const code = ranks_.inside->settled(result); code != success) return code;
    auto one = call;
    one.send = share(i);
    one.receive = kind_ == collective_kind::all_reduce ? share(i) : call.receive;
    one.count = shares_.counts[i];
    one.comm = ranks_.between->get();
    one.stream = stream;
    calls_.push_back(one);
  }
  return success;
}

int node_stage::after(std::span<reduction_call const> calls, cudaStream_t stream,
                      char const*& failed) {
  if (kind_ == collective_kind::reduce_scatter) return success;
  auto const& nccl = nccl::detail::library::get();
  failed = "ncclAllGather inside the node";
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (ranks_.inside->is_ended()) return nccl::detail::remote_error;
    int const result = nccl.all_gather(share(i), copies_[i], shares_.counts[i], calls[i].type,
                                       ranks_.inside->get(), stream);
    if (int const code = ranks_.inside->settled(result); code != success) return code;
    HCOMP_CUDA_TRY(cudaMemcpyAsync(calls[i].receive, copies_[i], calls[i].count * value_bytes_,
                                   cudaMemcpyDeviceToDevice, stream));
  }
  return success;
}

}  // namespace hcomp::drop_in
