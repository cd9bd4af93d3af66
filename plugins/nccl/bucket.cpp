#include "bucket.hpp"

#include <algorithm>
#include <hcomp/core/half.hpp>
#include <hcomp/gpu/error.hpp>
#include <set>
#include <stdexcept>
#include <utility>

namespace hcomp::drop_in {

namespace {

using nccl::detail::in_progress;
using nccl::detail::success;

nccl::detail::library const& library() { return nccl::detail::library::get(); }

}  // namespace

buffer_residual::buffer_residual(std::size_t count)
    : values(count * sizeof(float)),
      pending(count * sizeof(float)),
      withheld(sizeof(std::uint64_t)) {
  // Not on the default stream: the program may be capturing it.
  owned_stream const stream;
  for (auto const* one : {&values, &withheld})
    HCOMP_CUDA_TRY(cudaMemsetAsync(one->data(), 0, one->size(), stream.get()));
  HCOMP_CUDA_TRY(cudaStreamSynchronize(stream.get()));
}

owned_stream::owned_stream() {
  HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}
owned_stream::~owned_stream() { cudaStreamDestroy(stream_); }

nccl_bucket::nccl_bucket(bucket_kind const& kind, int ranks, int rank, int device,
                         std::shared_ptr<owned_stream> stream, std::unique_ptr<node_stage> inside)
    : kind_(kind),
      ranks_(ranks),
      rank_(rank),
      stream_(std::move(stream)),
      place_{device, stream_->get()},
      inside_(std::move(inside)) {
  std::vector<std::size_t> values;
  for (std::size_t const count : kind.counts)
    values.insert(values.end(),
                  kind.kind == collective_kind::reduce_scatter ? std::size_t(ranks) : 1, count);
  coder_ = loaded_cuda_library().make_bucket({kind.codec, values, ranks, rank}, place_);
  sizes_ = coder_->sizes();
  vectors_.resize(values.size());
  auto const all = static_cast<std::size_t>(ranks);
  if (is_wide()) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < kind.counts.size(); ++i) sum += multiple_of_64(values_of_call(i));
    wide_ = gpu::device_buffer(sum * sizeof(float));
    auto* at = reinterpret_cast<float*>(wide_.data());
    for (std::size_t i = 0; i < kind.counts.size(); ++i) {
      wide_of_call_.push_back(at);
      at += multiple_of_64(values_of_call(i));
    }
  }
  statistics_ =
      gpu::device_buffer((multiple_of_64(sizes_.statistics_words) + all * sizes_.statistics_words) *
                         sizeof(std::uint32_t));
  out_ = gpu::device_buffer(all * sizes_.part_bytes);
  in_ = gpu::device_buffer(all * sizes_.part_bytes);
  reduced_ = gpu::device_buffer(sizes_.reduced_bytes);
  if (kind.kind == collective_kind::all_reduce)
    all_ = gpu::device_buffer(all * sizes_.reduced_bytes);
}

nccl_bucket::~nccl_bucket() { wait(); }

std::uint32_t* nccl_bucket::united() const {
  return reinterpret_cast<std::uint32_t*>(statistics_.data()) +
         multiple_of_64(sizes_.statistics_words);
}

std::size_t nccl_bucket::values_of_call(std::size_t i) const {
  auto const parts = kind_.kind == collective_kind::reduce_scatter ? ranks_ : 1;
  return kind_.counts[i] * static_cast<std::size_t>(parts);
}

std::size_t nccl_bucket::bytes_sent() const {
  auto const others = static_cast<std::size_t>(ranks_ - 1);
  std::size_t bytes = others * sizes_.part_bytes;
  if (kind_.kind == collective_kind::all_reduce) bytes += others * sizes_.reduced_bytes;
  // Statistics travel around a ring: gathered once, maxima twice.
  auto const statistics = sizes_.statistics_words * sizeof(std::uint32_t);
  auto const ring = sizes_.gathers ? others * statistics
                                   : 2 * others * statistics / static_cast<std::size_t>(ranks_);
  return bytes + ring;
}

void nccl_bucket::set_vectors(std::span<reduction_call const> calls, bool results) {
  std::size_t v = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    auto const& call = calls[i];
    if (kind_.kind == collective_kind::all_reduce) {
      auto* const own = results ? call.receive : const_cast<void*>(call.send);
      vectors_[v++].x = is_wide() ? wide_of_call_[i] : static_cast<float*>(own);
      continue;
    }
    auto* const whole =
        is_wide() ? wide_of_call_[i] : static_cast<float*>(const_cast<void*>(call.send));
    for (int part = 0; part < ranks_; ++part, ++v) {
      vectors_[v].x = whole + static_cast<std::size_t>(part) * call.count;
      // The other parts do not change.
      if (results && part == rank_ && !is_wide()) vectors_[v].x = static_cast<float*>(call.receive);
    }
  }
}

int nccl_bucket::exchange(live_communicator& comm, char const*& failed) {
  auto const& nccl = library();
  auto const attempt = [&](char const* name, int result) {
    failed = name;
    return comm.settled(result);
  };
  auto const peer_part = [](gpu::device_buffer const& of, int peer, std::size_t bytes) {
    return of.data() + static_cast<std::size_t>(peer) * bytes;
  };
  HCOMP_CUDA_TRY(cudaMemcpyAsync(peer_part(in_, rank_, sizes_.part_bytes),
                                 peer_part(out_, rank_, sizes_.part_bytes), sizes_.part_bytes,
                                 cudaMemcpyDeviceToDevice, stream_->get()));
  if (comm.is_ended()) return nccl::detail::remote_error;
  failed = "ncclGroupStart";
  if (int const result = nccl.group_start(); result != success) return result;
  int refused = success;
  for (int hop = 1; hop < ranks_ && refused == success; ++hop) {
    int const to = (rank_ + hop) % ranks_, from = (rank_ + ranks_ - hop) % ranks_;
    refused = nccl.send(peer_part(out_, to, sizes_.part_bytes), sizes_.part_bytes,
                        nccl::detail::as_bytes, to, comm.get(), stream_->get());
    if (refused == success || refused == in_progress)
      refused = nccl.receive(peer_part(in_, from, sizes_.part_bytes), sizes_.part_bytes,
                             nccl::detail::as_bytes, from, comm.get(), stream_->get());
    if (refused == in_progress) refused = success;  // until the end of the group
  }
  int const ended = attempt("ncclGroupEnd", nccl.group_end());
  if (refused != success) failed = "ncclSend or ncclRecv";
  return refused != success ? refused : ended;
}

int nccl_bucket::enqueue(live_communicator& comm, std::span<reduction_call const> calls,
                         std::span<buffer_residual* const> residuals, std::uint64_t step,
                         char const*& failed) {
  std::set<cudaStream_t> streams;
  for (auto const& call : calls) streams.insert(call.stream);
  for (auto const theirs : streams) {
    begin_.record(theirs);
    begin_.hold(stream_->get());
  }
  // Also after an error: work that is enqueued uses the program's buffers.
  auto const join = [&] {
    end_.record(stream_->get());
    for (auto const theirs : streams) end_.hold(theirs);
  };
  int result = success;
  try {
    auto const stream = stream_->get();
    if (inside_) result = inside_->before(calls, stream, failed);
    if (result == success)
      result = run(comm, inside_ ? inside_->calls() : calls, residuals, step, failed);
    if (inside_ && result == success) result = inside_->after(calls, stream, failed);
  } catch (...) {
    join();
    throw;
  }
  join();
  return result;
}

int nccl_bucket::run(live_communicator& comm, std::span<reduction_call const> calls,
                     std::span<buffer_residual* const> residuals, std::uint64_t step,
                     char const*& failed) {
  auto const& nccl = library();
  auto const& cuda = loaded_cuda_library();
  auto const stream = stream_->get();
  if (is_wide())
    for (std::size_t i = 0; i < calls.size(); ++i)
      cuda.widen(calls[i].send, kind_.type == value_type::float16, wide_of_call_[i],
                 values_of_call(i), place_);
  std::size_t v = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::size_t const parts = vectors_.size() / calls.size();
    for (std::size_t part = 0; part < parts; ++part, ++v) {
      auto& one = vectors_[v];
      one.number = v;
      auto* const residual = residuals[i];
      auto const at = [&](gpu::device_buffer const& of) {
        return residual ? reinterpret_cast<float*>(of.data()) + part * calls[i].count : nullptr;
      };
      one.residual = residual ? at(residual->values) : nullptr;
      one.pending = residual ? at(residual->pending) : nullptr;
      one.withheld =
          residual ? reinterpret_cast<std::uint64_t*>(residual->withheld.data()) : nullptr;
    }
  }

  set_vectors(calls, false);
  auto* const own = reinterpret_cast<std::uint32_t*>(statistics_.data());
  if (sizes_.statistics_words > 0) {
    coder_->measure(vectors_.data(), own);
    if (comm.is_ended()) return nccl::detail::remote_error;
    failed = sizes_.gathers ? "ncclAllGather" : "ncclAllReduce";
    int const result = sizes_.gathers ? nccl.all_gather(own, united(), sizes_.statistics_words,
                                                        nccl::detail::as_uint32, comm.get(), stream)
                                      : nccl.all_reduce(own, united(), sizes_.statistics_words,
                                                        nccl::detail::as_uint32,
                                                        nccl::detail::op_max, comm.get(), stream);
    if (int const code = comm.settled(result); code != success) return code;
  }
  coder_->encode(vectors_.data(), step, united(), out_.data());
  if (int const result = exchange(comm, failed); result != success) return result;
  coder_->merge(in_.data(), reduced_.data());
  set_vectors(calls, true);
  auto const op = calls.front().op == nccl::detail::op_avg ? reduce_op::mean : reduce_op::sum;
  if (kind_.kind == collective_kind::all_reduce) {
    failed = "ncclAllGather";
    if (comm.is_ended()) return nccl::detail::remote_error;
    int const result = nccl.all_gather(reduced_.data(), all_.data(), sizes_.reduced_bytes,
                                       nccl::detail::as_bytes, comm.get(), stream);
    if (int const code = comm.settled(result); code != success) return code;
    coder_->decode(all_.data(), false, vectors_.data(), step, op);
  } else {
    coder_->decode(reduced_.data(), true, vectors_.data(), step, op);
  }
  if (is_wide())
    for (std::size_t i = 0; i < calls.size(); ++i) {
      auto const skipped = kind_.kind == collective_kind::reduce_scatter
                               ? static_cast<std::size_t>(rank_) * calls[i].count
                               : 0;
      cuda.narrow(wide_of_call_[i] + skipped, calls[i].receive, kind_.type == value_type::float16,
                  calls[i].count, place_);
    }
  return success;
}

}  // namespace hcomp::drop_in
