#include "communicator.hpp"

#include <algorithm>
#include <chrono>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/gpu/error.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include <cuda/used_device.hpp>

namespace hcomp::drop_in {

namespace {

using nccl::detail::in_progress;
using nccl::detail::success;

void require(int result, char const* call) {
  if (result != success)
    throw std::runtime_error(std::string(call) + ": " +
                             nccl::detail::library::get().error_string(result));
}

/// "rank 1", "ranks 1, 2 and 5".
std::string ranks_text(std::vector<std::size_t> const& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  return text;
}

/// The introductions of one communicator, in device and host memory.
struct exchanged {
  gpu::device_buffer own{sizeof(introduction)}, all;
  std::vector<introduction> on_host;
  cudaStream_t stream = nullptr;
  gpu::detail::event done;

  explicit exchanged(int ranks)
      : all(static_cast<std::size_t>(ranks) * sizeof(introduction)),
        on_host(static_cast<std::size_t>(ranks)) {
    HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~exchanged() {
    if (stream) cudaStreamDestroy(stream);
  }
  exchanged(exchanged const&) = delete;
  exchanged& operator=(exchanged const&) = delete;
};

}  // namespace

std::uint64_t capture_of(cudaStream_t stream) {
  auto status = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
  HCOMP_CUDA_TRY(cudaStreamGetCaptureInfo(stream, &status, &number));
  return status == cudaStreamCaptureStatusNone ? 0 : number;
}

nccl_communicator::nccl_communicator(nccl::communicator comm) : comm_(comm) {
  auto const& nccl = nccl::detail::library::get();
  require(nccl.count(comm, &size_), "ncclCommCount");
  require(nccl.user_rank(comm, &rank_), "ncclCommUserRank");
  require(nccl.device(comm, &device_), "ncclCommCuDevice");
}

void nccl_communicator::introduce(std::span<nccl_communicator* const> all, introduction const& own,
                                  int seconds) {
  relaxed_capture const relaxed;
  auto const& nccl = nccl::detail::library::get();
  std::vector<std::unique_ptr<exchanged>> memory;
  for (auto const* one : all) {
    used_device const here(one->device_);
    memory.push_back(std::make_unique<exchanged>(one->size()));
  }
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  auto const wait = [&](std::size_t i, auto const& is_done) {
    while (!is_done()) {
      int result = success;
      nccl.async_error(all[i]->comm_, &result);
      bool const is_late = std::chrono::steady_clock::now() >= end;
      if ((result != success && result != in_progress) || is_late) {
        // Messages that are not done use the memory.
        for (auto& one : memory) static_cast<void>(one.release());
        if (!is_late) require(result, "the first collective of a communicator");
        throw std::runtime_error("some rank of " + std::to_string(all[i]->size_) +
                                 " has not answered rank " + std::to_string(all[i]->rank_) +
                                 " within " + std::to_string(seconds) +
                                 " s; preload libhcomp_nccl.so on all ranks, or set HCOMP_TIMEOUT");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  };
  for (auto& one : memory)
    HCOMP_CUDA_TRY(
        cudaMemcpyAsync(one->own.data(), &own, sizeof(own), cudaMemcpyHostToDevice, one->stream));
  require(nccl.group_start(), "ncclGroupStart");
  for (std::size_t i = 0; i < all.size(); ++i) {
    int const result = nccl.all_gather(memory[i]->own.data(), memory[i]->all.data(), sizeof(own),
                                       nccl::detail::as_bytes, all[i]->comm_, memory[i]->stream);
    if (result != in_progress) require(result, "ncclAllGather");
  }
  int const ended = nccl.group_end();
  if (ended != in_progress) require(ended, "ncclGroupEnd");
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& one = *memory[i];
    used_device const here(all[i]->device_);
    int enqueued = ended;
    wait(i, [&] {
      if (enqueued == in_progress) nccl.async_error(all[i]->comm_, &enqueued);
      return enqueued != in_progress;
    });
    one.done.record(one.stream);
    wait(i, [&] { return one.done.is_done(); });
    HCOMP_CUDA_TRY(cudaMemcpyAsync(one.on_host.data(), one.all.data(), one.all.size(),
                                   cudaMemcpyDeviceToHost, one.stream));
    HCOMP_CUDA_TRY(cudaStreamSynchronize(one.stream));
    all[i]->judge(one.on_host);
  }
}

void nccl_communicator::judge(std::span<introduction const> all) {
  std::vector<std::size_t> invalid, without, different;
  bool is_one_node = true, shares_process = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].state == introduction::has_invalid_settings) invalid.push_back(i);
    if (all[i].state == introduction::has_no_cuda_library) without.push_back(i);
    if (all[i].settings != all[0].settings) different.push_back(i);
    is_one_node &= all[i].node == all[0].node;
    for (std::size_t j = 0; j < i; ++j)
      shares_process |= all[i].node == all[j].node && all[i].process == all[j].process;
  }
  if (!invalid.empty())
    error_ = "HCOMP_CONFIG of " + ranks_text(invalid) + " is invalid";
  else if (!different.empty())
    error_ = ranks_text(different) + " and rank 0 have different HCOMP_CONFIG, or other hcomp";
  else if (!without.empty())
    error_ = ranks_text(without) + " cannot use libhcomp_cuda.so";
  else if (shares_process)
    why_left_ = "several ranks are in one process";
  else if (is_one_node)
    why_left_ = "all ranks are on one node";
  is_introduced_ = true;
}

nccl_bucket& nccl_communicator::bucket_of(bucket_kind const& kind) {
  auto found = buckets_.find(kind);
  if (found == buckets_.end()) {
    if (buckets_.size() >= most_buckets) {
      // Graphs keep theirs.
      auto oldest = buckets_.end();
      for (auto at = buckets_.begin(); at != buckets_.end(); ++at)
        if (at->first.capture == 0 &&
            (oldest == buckets_.end() || at->second.used < oldest->second.used))
          oldest = at;
      if (oldest != buckets_.end()) buckets_.erase(oldest);
    }
    // What a bucket does when it is made is no part of a graph, and done before.
    auto stream = kind.capture != 0 || !stream_ ? std::make_shared<owned_stream>() : stream_;
    if (kind.capture == 0) stream_ = stream;
    auto made = std::make_unique<nccl_bucket>(kind, size_, rank_, device_, std::move(stream));
    if (kind.capture != 0) made->wait();
    found = buckets_.emplace(kind, kept_bucket{std::move(made)}).first;
  }
  found->second.used = calls_;
  return *found->second.bucket;
}

buffer_residual* nccl_communicator::residual_of(reduction_call const& call, bool is_captured,
                                                std::size_t limit) {
  std::size_t const values =
      call.count *
      (call.kind == collective_kind::reduce_scatter ? static_cast<std::size_t>(size_) : 1);
  buffer const key{call.send, call.receive, values};
  auto found = residuals_.find(key);
  if (found == residuals_.end()) {
    std::size_t const bytes = 2 * values * sizeof(float) + sizeof(std::uint64_t);
    while (residual_bytes_ + bytes > limit) {
      auto oldest = residuals_.end();
      for (auto at = residuals_.begin(); at != residuals_.end(); ++at)
        if (!at->second.is_captured && at->second.used < calls_ &&
            (oldest == residuals_.end() || at->second.used < oldest->second.used))
          oldest = at;
      if (oldest == residuals_.end()) return nullptr;
      if (stream_) HCOMP_CUDA_TRY(cudaStreamSynchronize(stream_->get()));
      residual_bytes_ -= oldest->second.memory->bytes();
      residuals_.erase(oldest);
    }
    found = residuals_.emplace(key, kept_residual{std::make_unique<buffer_residual>(values)}).first;
    residual_bytes_ += bytes;
  }
  found->second.used = calls_;
  found->second.is_captured |= is_captured;
  return found->second.memory.get();
}

int nccl_communicator::reduce(std::span<reduction_call const> calls, bucket_kind kind,
                              std::size_t feedback_bytes, std::uint64_t& bytes_sent,
                              char const*& failed) {
  relaxed_capture const relaxed;
  used_device const here(device_);
  ++calls_;
  bool const is_captured = kind.capture != 0;
  std::vector<buffer_residual*> residuals;
  for (auto const& call : calls)
    residuals.push_back(feedback_bytes > 0 ? residual_of(call, is_captured, feedback_bytes)
                                           : nullptr);
  auto& bucket = bucket_of(kind);
  if (!is_captured) bucket.check();
  int const result = bucket.enqueue(calls, residuals, calls_, failed);
  bytes_sent = bucket.bytes_sent();
  return result;
}

}  // namespace hcomp::drop_in
