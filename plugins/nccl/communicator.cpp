#include "communicator.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <hcomp/core/error.hpp>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/detail/event.hpp>
#include <hcomp/gpu/error.hpp>
#include <stdexcept>
#include <thread>
#include <utility>
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
  gpu::device_buffer own{sizeof(introduction)}, all, greetings;
  std::vector<introduction> on_host;
  cudaStream_t stream = nullptr;
  gpu::detail::event done;

  explicit exchanged(int ranks)
      : all(static_cast<std::size_t>(ranks) * sizeof(introduction)),
        greetings(static_cast<std::size_t>(ranks)),
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

nccl_communicator::nccl_communicator(nccl::communicator comm) : live_(comm) {
  auto const& nccl = nccl::detail::library::get();
  require(nccl.count(comm, &size_), "ncclCommCount");
  require(nccl.user_rank(comm, &rank_), "ncclCommUserRank");
  require(nccl.device(comm, &device_), "ncclCommCuDevice");
}

void nccl_communicator::introduce(
    std::span<nccl_communicator* const> all, introduction const& own,
    std::function<bool(double, nccl_communicator const&)> const& is_late) {
  relaxed_capture const relaxed;
  auto const& nccl = nccl::detail::library::get();
  std::vector<std::unique_ptr<exchanged>> memory;
  for (auto const* one : all) {
    used_device const here(one->device_);
    memory.push_back(std::make_unique<exchanged>(one->size()));
  }
  auto const begin = std::chrono::steady_clock::now();
  auto const fail = [&](std::string const& why) {
    // Messages that are not done use the memory.
    for (auto& one : memory) static_cast<void>(one.release());
    for (auto* one : all) {
      one->error_ = why;
      one->is_introduced_ = true;
    }
    throw std::runtime_error(why);
  };
  auto const require_all = [&](int result, char const* call) {
    if (result != success && result != in_progress)
      fail(std::string(call) + ": " + nccl.error_string(result));
  };
  auto const wait = [&](nccl_communicator& one, auto const& is_done) {
    while (!is_done()) {
      require_all(one.live_.state(), "the first collective of a communicator");
      std::chrono::duration<double> const waited = std::chrono::steady_clock::now() - begin;
      if (is_late(waited.count(), one))
        fail("some rank of " + std::to_string(one.size_) + " has not answered rank " +
             std::to_string(one.rank_) + " within HCOMP_TIMEOUT; preload libhcomp_nccl.so on all");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  };
  for (auto& one : memory)
    HCOMP_CUDA_TRY(
        cudaMemcpyAsync(one->own.data(), &own, sizeof(own), cudaMemcpyHostToDevice, one->stream));
  require_all(nccl.group_start(), "ncclGroupStart");
  int refused = success;
  auto const attempt = [&](int result) {
    if (refused == success && result != in_progress) refused = result;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& one = *memory[i];
    auto const comm = all[i]->live_.get();
    // Every pair exchanges a byte: NCCL connects ranks in their first messages, on the host.
    for (int hop = 1; hop < all[i]->size_; ++hop) {
      int const to = (all[i]->rank_ + hop) % all[i]->size_;
      int const from = (all[i]->rank_ + all[i]->size_ - hop) % all[i]->size_;
      attempt(nccl.send(one.own.data(), 1, nccl::detail::as_bytes, to, comm, one.stream));
      attempt(nccl.receive(one.greetings.data() + from, 1, nccl::detail::as_bytes, from, comm,
                           one.stream));
    }
    attempt(nccl.all_gather(one.own.data(), one.all.data(), sizeof(own), nccl::detail::as_bytes,
                            comm, one.stream));
  }
  int const ended = nccl.group_end();
  require_all(refused, "ncclAllGather");
  require_all(ended, "ncclGroupEnd");
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& one = *memory[i];
    used_device const here(all[i]->device_);
    int enqueued = ended;
    wait(*all[i], [&] {
      if (enqueued == in_progress) enqueued = all[i]->live_.state();
      return enqueued != in_progress;
    });
    require_all(enqueued, "ncclAllGather");
    one.done.record(one.stream);
    wait(*all[i], [&] { return one.done.is_done(); });
    require_all(all[i]->live_.settled(success), "ncclAllGather");  // not ended meanwhile
    HCOMP_CUDA_TRY(cudaMemcpyAsync(one.on_host.data(), one.all.data(), one.all.size(),
                                   cudaMemcpyDeviceToHost, one.stream));
    HCOMP_CUDA_TRY(cudaStreamSynchronize(one.stream));
    all[i]->judge(one.on_host);
  }
  try {
    make_nodes(all);
  } catch (std::exception const& error) {
    for (auto* one : all) one->error_ = error.what();
    throw;
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
    error_ = "invalid settings on " + ranks_text(invalid);
  else if (!different.empty())
    error_ = "HCOMP_CONFIG, or the version of hcomp, on " + ranks_text(different) +
             " differs from that on rank 0";
  else if (!without.empty())
    error_ = ranks_text(without) + " cannot use libhcomp_cuda.so";
  else if (shares_process)
    why_left_ = "several ranks are in one process";
  else if (is_one_node)
    why_left_ = "all ranks are on one node";
  is_introduced_ = true;
  if (error_.empty() && !why_left_) find_nodes(all);
}

void nccl_communicator::find_nodes(std::span<introduction const> all) {
  std::vector<std::vector<int>> nodes;
  std::map<std::uint64_t, std::size_t> known;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].wants_nodes == 0) return;
    auto const [at, is_new] = known.emplace(all[rank].node, nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[at->second].push_back(static_cast<int>(rank));
  }
  node_communicators found{};
  found.nodes = static_cast<int>(nodes.size());
  found.ranks_of_node = static_cast<int>(nodes.front().size());
  if (found.ranks_of_node == 1) return;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].size() != nodes.front().size()) return;
    for (std::size_t number = 0; number < nodes[node].size(); ++number)
      if (nodes[node][number] == rank_) {
        found.node = static_cast<int>(node);
        found.rank_in_node = static_cast<int>(number);
      }
    found.rank_at.insert(found.rank_at.end(), nodes[node].begin(), nodes[node].end());
  }
  nodes_ = std::move(found);
}

void nccl_communicator::make_nodes(std::span<nccl_communicator* const> all) {
  std::vector<nccl_communicator*> with;
  for (auto* const one : all)
    if (one->has_nodes()) with.push_back(one);
  if (with.empty()) return;
  // A group splits each communicator once: NCCL's splits of one communicator share its sockets.
  std::vector<std::unique_ptr<live_communicator>> inside_of(with.size()), between_of(with.size());
  for (auto& inside :
       split(with, [](auto const& nodes) { return std::pair(nodes.node, nodes.rank_in_node); }))
    inside_of[inside.first] = std::move(inside.second);
  for (auto& between :
       split(with, [](auto const& nodes) { return std::pair(nodes.rank_in_node, nodes.node); }))
    between_of[between.first] = std::move(between.second);
  for (std::size_t i = 0; i < with.size(); ++i) {
    auto& one = *with[i];
    std::lock_guard const lock(one.nodes_mutex_);
    one.inside_ = std::move(inside_of[i]);
    one.between_ = std::move(between_of[i]);
    one.nodes_.inside = one.inside_.get();
    one.nodes_.between = one.between_.get();
    if (!one.live_.is_ended()) continue;
    // Another thread has aborted the communicator, and has not seen these.
    for (auto* const part : {one.inside_.get(), one.between_.get()}) {
      part->end();
      nccl::detail::library::get().abort(part->get());
    }
    throw std::runtime_error("the communicator is being ended");
  }
  connect_nodes(with);
}

template <class F>
std::vector<std::pair<std::size_t, std::unique_ptr<live_communicator>>> nccl_communicator::split(
    std::span<nccl_communicator* const> with, F const& color_and_key) {
  auto const& nccl = nccl::detail::library::get();
  // After an error, NCCL may still write to it.
  auto made = std::make_unique<std::vector<nccl::communicator>>(with.size());
  auto const require_all = [&](int result) {
    if (result == success || result == in_progress) return;
    static_cast<void>(made.release());
    require(result, "ncclCommSplit");
  };
  require_all(nccl.group_start());
  int refused = success;
  for (std::size_t i = 0; i < with.size(); ++i) {
    auto const [color, key] = color_and_key(with[i]->nodes_);
    int const result = with[i]->live_.is_ended()
                           ? int{nccl::detail::remote_error}
                           : nccl.split(with[i]->live_.get(), color, key, &(*made)[i], nullptr);
    if (refused == success && result != in_progress) refused = result;
  }
  int const ended = nccl.group_end();
  require_all(refused);
  require_all(ended);
  std::vector<std::pair<std::size_t, std::unique_ptr<live_communicator>>> all;
  for (std::size_t i = 0; i < with.size(); ++i) {
    require_all(with[i]->live_.settled(ended));
    auto one = std::make_unique<live_communicator>((*made)[i]);
    require_all(one->settled(ended));
    all.emplace_back(i, std::move(one));
  }
  return all;
}

void nccl_communicator::connect_nodes(std::span<nccl_communicator* const> with) {
  auto const& nccl = nccl::detail::library::get();
  std::vector<std::unique_ptr<exchanged>> memory;
  for (auto const* one : with) {
    used_device const here(one->device_);
    memory.push_back(std::make_unique<exchanged>(one->size_));
  }
  auto const require_all = [&](int result) {
    if (result == success || result == in_progress) return;
    for (auto& one : memory) static_cast<void>(one.release());
    require(result, "the first messages of nodes");
  };
  require_all(nccl.group_start());
  int refused = success;
  auto const attempt = [&](int result) {
    if (refused == success && result != in_progress) refused = result;
  };
  for (std::size_t i = 0; i < with.size(); ++i) {
    auto& one = *memory[i];
    auto const& nodes = with[i]->nodes_;
    auto* const bytes = one.all.data();
    for (int hop = 1; hop < nodes.nodes; ++hop) {
      int const to = (nodes.node + hop) % nodes.nodes;
      int const from = (nodes.node + nodes.nodes - hop) % nodes.nodes;
      attempt(nccl.send(one.own.data(), 1, nccl::detail::as_bytes, to, nodes.between->get(),
                        one.stream));
      attempt(nccl.receive(one.greetings.data() + from, 1, nccl::detail::as_bytes, from,
                           nodes.between->get(), one.stream));
    }
    attempt(nccl.all_gather(one.own.data(), bytes, 1, nccl::detail::as_bytes, nodes.inside->get(),
                            one.stream));
    attempt(nccl.reduce_scatter(bytes, bytes + nodes.rank_in_node, 1, nccl::detail::as_bytes,
                                nccl::detail::op_sum, nodes.inside->get(), one.stream));
  }
  int const ended = nccl.group_end();
  require_all(refused);
  require_all(ended);
  for (std::size_t i = 0; i < with.size(); ++i) {
    auto& one = *memory[i];
    used_device const here(with[i]->device_);
    for (auto* const part : {with[i]->nodes_.between, with[i]->nodes_.inside})
      require_all(part->settled(ended));
    one.done.record(one.stream);
    while (!one.done.is_done()) {
      for (auto* const part : {with[i]->nodes_.between, with[i]->nodes_.inside})
        require_all(part->state());
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void nccl_communicator::end(bool is_abort) {
  auto const& nccl = nccl::detail::library::get();
  std::lock_guard const lock(nodes_mutex_);
  for (auto* const one : {inside_.get(), between_.get()})
    if (one) one->end();
  if (!is_abort) {
    for (auto* const one : {inside_.get(), between_.get()})
      if (one) nccl.destroy(one->get());
    return;
  }
  // An abort waits for the work of its stream, which waits for messages of the other communicators.
  std::vector<std::thread> aborts;
  for (auto* const one : {inside_.get(), between_.get()})
    if (one) aborts.emplace_back([&nccl, one] { nccl.abort(one->get()); });
  aborts_ = std::move(aborts);
}

void nccl_communicator::await_end() {
  for (auto& one : aborts_) one.join();
  aborts_.clear();
}

int nccl_communicator::state_of_nodes() {
  std::lock_guard const lock(nodes_mutex_);
  for (auto* const one : {inside_.get(), between_.get()})
    if (one && !one->is_ended())
      if (int const state = one->state(); state != success && state != in_progress) return state;
  return success;
}

bool nccl_communicator::is_idle() const {
  relaxed_capture const relaxed;
  bool const is_idle =
      std::ranges::all_of(buckets_, [](auto const& one) { return one.second.bucket->is_idle(); });
  gpu::detail::forget_last_error();
  return is_idle;
}

void nccl_communicator::drop_oldest_bucket(std::size_t most) {
  // Graphs keep theirs.
  auto const is_kept = [](auto const& one) { return one.first.capture != 0; };
  std::size_t const eager =
      buckets_.size() - static_cast<std::size_t>(std::ranges::count_if(buckets_, is_kept));
  if (eager <= most) return;
  auto oldest = buckets_.end();
  for (auto at = buckets_.begin(); at != buckets_.end(); ++at)
    if (!is_kept(*at) && (oldest == buckets_.end() || at->second.used < oldest->second.used))
      oldest = at;
  buckets_.erase(oldest);
}

nccl_bucket& nccl_communicator::bucket_of(bucket_kind const& kind) {
  auto found = buckets_.find(kind);
  if (found == buckets_.end()) {
    if (kind.capture == 0) drop_oldest_bucket(most_buckets - 1);
    // What a bucket does when it is made is no part of a graph, and done before.
    auto stream = kind.capture != 0 || !stream_ ? std::make_shared<owned_stream>() : stream_;
    if (kind.capture == 0) stream_ = stream;
    auto const make = [&] {
      if (!kind.is_hierarchical)
        return std::make_unique<nccl_bucket>(kind, size_, rank_, device_, stream);
      auto inside = std::make_unique<node_stage>(kind, nodes_);
      auto const shares = inside->shares();
      return std::make_unique<nccl_bucket>(shares, nodes_.nodes, nodes_.node, device_, stream,
                                           std::move(inside));
    };
    std::unique_ptr<nccl_bucket> made;
    try {
      made = make();
    } catch (gpu::cuda_error const&) {
      // Without memory on one rank, all wait: that of other sizes is free.
      while (std::ranges::any_of(buckets_, [](auto const& one) { return one.first.capture == 0; }))
        drop_oldest_bucket(0);
      made = make();
    }
    if (kind.capture != 0) made->wait();
    found = buckets_.emplace(kind, kept_bucket{std::move(made)}).first;
  }
  found->second.used = calls_;
  return *found->second.bucket;
}

buffer_residual* nccl_communicator::residual_of(reduction_call const& call, std::size_t values,
                                                bool is_captured, std::size_t limit) {
  buffer const key{call.send, call.receive, values};
  auto found = residuals_.find(key);
  if (found == residuals_.end()) {
    std::size_t const bytes = 2 * values * sizeof(float) + sizeof(std::uint64_t);
    while (residual_bytes_ + bytes > limit) {
      auto oldest = residuals_.end();
      for (auto at = residuals_.begin(); at != residuals_.end(); ++at)
        if (!at->second.is_captured &&
            (oldest == residuals_.end() || at->second.used < oldest->second.used))
          oldest = at;
      // Buffers in turn would drop each other's residuals before they are used.
      if (oldest == residuals_.end() || calls_ - oldest->second.used < 8 * residuals_.size())
        return nullptr;
      if (stream_) HCOMP_CUDA_TRY(cudaStreamSynchronize(stream_->get()));
      residual_bytes_ -= oldest->second.memory->bytes();
      residuals_.erase(oldest);
    }
    try {
      found =
          residuals_.emplace(key, kept_residual{std::make_unique<buffer_residual>(values)}).first;
    } catch (gpu::cuda_error const&) {
      return nullptr;
    }
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
  kind.is_hierarchical = kind.is_hierarchical && has_nodes();
  auto& bucket = bucket_of(kind);
  std::vector<buffer_residual*> residuals;
  for (std::size_t i = 0; i < calls.size(); ++i)
    residuals.push_back(feedback_bytes > 0 ? residual_of(calls[i], bucket.values_of_call(i),
                                                         is_captured, feedback_bytes)
                                           : nullptr);
  // Ranks learn of damage at different times: the call is made all the same, and fails afterwards.
  std::exception_ptr damage;
  if (!is_captured)
    for (auto const& [other, kept] : buckets_) try {
        kept.bucket->check();
      } catch (wire_error const&) {
        damage = std::current_exception();
      }
  auto& comm = kind.is_hierarchical ? *between_ : live_;
  int const result = bucket.enqueue(comm, calls, residuals, calls_, failed);
  bytes_sent = bucket.bytes_sent();
  if (damage) std::rethrow_exception(damage);
  return result;
}

}  // namespace hcomp::drop_in
