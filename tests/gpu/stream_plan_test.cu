/// @file
/// Plans over a stream-ordered transport: calls that only enqueue, and their CUDA graphs.

#include <doctest/doctest.h>

#include <barrier>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/reproducible/reproducible.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/encoded_parts.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/gpu/error_feedback.hpp>
#include <hcomp/gpu/in_process_stream.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/op/block_work.hpp>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <support/all_or_few.hpp>
#include <support/enqueued_plans.hpp>
#include <support/ptx/calls_now.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// The device's part of one rank.
struct device_rank {
  cudaStream_t stream = nullptr;
  gpu::stream_executor executor;
  gpu::in_process_stream transport;
  gpu::device_buffer memory;

  device_rank(in_process& ranks, std::size_t values)
      : stream(new_stream()),
        executor(stream),
        transport(ranks, stream),
        memory(values * sizeof(float)) {}
  device_rank(device_rank const&) = delete;
  device_rank& operator=(device_rank const&) = delete;
  ~device_rank() { cudaStreamDestroy(stream); }

  std::span<float> x() const {
    return {reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float)};
  }
  void set(std::vector<float> const& values) {
    executor.wait(executor.write(memory.data(), values.data(), memory.size()));
  }
  std::vector<float> get() {
    std::vector<float> values(x().size());
    executor.wait(executor.read(values.data(), memory.data(), memory.size()));
    return values;
  }
};

/// A rank that throws does not keep the other ranks at their barrier.
struct leaves_barrier {
  std::barrier<>& all;
  int before = std::uncaught_exceptions();

  ~leaves_barrier() {
    if (std::uncaught_exceptions() > before) all.arrive_and_drop();
  }
};

/// Calls of all ranks between two points at which every rank waits.
struct counted_calls {
  std::barrier<>& all;
  ptx::calls before;

  explicit counted_calls(std::barrier<>& all) : all(all) {
    all.arrive_and_wait();
    before = calls_now();
    all.arrive_and_wait();
  }
  ptx::calls end() const {
    all.arrive_and_wait();
    auto const now = calls_now();
    all.arrive_and_wait();
    return {now.waits - before.waits, now.allocations - before.allocations};
  }
};

template <class F> void for_each_codec(int ranks, F const& f) {
  auto const all = static_cast<std::uint32_t>(ranks);
  f(identity<float>());
  f(float_cast<float16>());
  f(float_cast<bfloat16>());
  f(fit(sign<>{}, all));
  f(fit(sign_count<>{}, all));
  f(fit(thc<float>{}, all));
  f(fit(reproducible<float>{}, all));
}

}  // namespace

TEST_CASE(
    "gpu: stream-ordered calls give the bits of hosts; later ones neither wait nor allocate") {
  for (int const ranks : all_or_few<std::vector<int>>({1, 2, 3, 4}, {2, 3}))
    for (char const* const name : {"ring", "direct"})
      for_each_codec(ranks, [&]<class C>(C const& codec) {
        std::size_t const values = all_or_few(100'001, 9'001);
        CAPTURE(std::string(C::name));
        CAPTURE(ranks);
        CAPTURE(name);
        plan_options const options{.algorithm = algorithm::from(name)};
        auto x = uniform_vectors(ranks, values, 8);
        auto const wanted = summed_on_host(codec, x, options);
        std::barrier all(ranks);
        x = on_ranks(x, [&](in_process& transport, auto& mine) {
          leaves_barrier const at_end{all};
          device_rank device(transport, mine.size());
          plan sum(mine.size(), codec, device.transport, device.executor, options);
          device.set(mine);
          sum.all_reduce(device.x(), {.step = 0});
          counted_calls const counted(all);
          for (std::uint64_t step = 1; step < 3; ++step) sum.all_reduce(device.x(), {.step = step});
          auto const calls = counted.end();
          CHECK(calls.waits == 0);
          CHECK(calls.allocations == 0);
          sum.check();
          mine = device.get();
        });
        for (std::size_t rank = 0; rank < x.size(); ++rank)
          CHECK(first_difference(x[rank], wanted[rank]) == nowhere);
      });
}

TEST_CASE("gpu: the counts of the test above include waits and allocations") {
  if (!on_machine()) return;
  std::barrier all(1);
  cudaStream_t stream = nullptr;
  HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    gpu::stream_executor executor(stream);
    counted_calls const counted(all);
    executor.synchronize();
    gpu::device_buffer const memory(100);
    std::vector<std::byte> bytes(100);
    HCOMP_CUDA_TRY(cudaMemset(memory.data(), 0, 100));
    HCOMP_CUDA_TRY(cudaMemcpy(bytes.data(), memory.data(), 100, cudaMemcpyDeviceToHost));
    executor.wait(executor.read(bytes.data(), memory.data(), 100));
    auto const calls = counted.end();
    CHECK(calls.waits == 4);  // the last line waits twice
    CHECK(calls.allocations == 1);
  }
  HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
}

TEST_CASE("gpu: a CUDA graph of a stream-ordered call, replayed, gives the bytes of the call") {
  constexpr int ranks = 2;
  std::size_t const values = all_or_few(100'001, 9'001);
  for_each_codec(ranks, [&]<class C>(C const& codec) {
    CAPTURE(std::string(C::name));
    auto const x = uniform_vectors(ranks, values, 8);
    std::barrier all(ranks);
    std::vector<cudaStream_t> streams(ranks);
    cudaGraphExec_t graph = nullptr;
    on_ranks(x, [&](in_process& transport, auto& mine) {
      leaves_barrier const at_end{all};
      auto const rank = static_cast<std::size_t>(transport.rank());
      device_rank device(transport, values);
      streams[rank] = device.stream;
      plan sum(values, codec, device.transport, device.executor);
      gpu::error_feedback<float> feedback(values);
      auto const call = [&] { sum.all_reduce(device.x(), feedback, {.step = 5}); };
      std::vector<std::vector<float>> wanted;
      for (int round = 0; round < 3; ++round) {
        device.set(mine);
        call();
        sum.check();
        wanted.push_back(device.get());
      }
      feedback.reset();
      all.arrive_and_wait();
      cudaEvent_t event = nullptr;
      HCOMP_CUDA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      if (rank == 0) {
        HCOMP_CUDA_TRY(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeRelaxed));
        HCOMP_CUDA_TRY(cudaEventRecord(event, device.stream));
        HCOMP_CUDA_TRY(cudaStreamWaitEvent(streams[1], event, 0));
      }
      all.arrive_and_wait();
      call();
      all.arrive_and_wait();
      if (rank == 0) {
        HCOMP_CUDA_TRY(cudaEventRecord(event, streams[1]));
        HCOMP_CUDA_TRY(cudaStreamWaitEvent(device.stream, event, 0));
        cudaGraph_t made = nullptr;
        HCOMP_CUDA_TRY(cudaStreamEndCapture(device.stream, &made));
        HCOMP_CUDA_TRY(cudaGraphInstantiateWithFlags(&graph, made, 0));
        HCOMP_CUDA_TRY(cudaGraphDestroy(made));
      }
      all.arrive_and_wait();  // no work of the streams while they are captured
      for (auto const& one : wanted) {
        device.set(mine);
        all.arrive_and_wait();
        if (rank == 0) {
          HCOMP_CUDA_TRY(cudaGraphLaunch(graph, device.stream));
          device.executor.synchronize();
        }
        all.arrive_and_wait();
        sum.check();
        CHECK(first_difference(device.get(), one) == nowhere);
      }
      HCOMP_CUDA_TRY(cudaEventDestroy(event));
      if (rank == 0) HCOMP_CUDA_TRY(cudaGraphExecDestroy(graph));
    });
  });
}

TEST_CASE("gpu: encoded_parts give the bits of plans, and their steps neither wait nor allocate") {
  constexpr int ranks = 3;
  std::size_t const values = all_or_few(100'001, 9'001);
  for_each_codec(ranks, [&]<class C>(C const& codec) {
    CAPTURE(std::string(C::name));
    auto const x = uniform_vectors(ranks, values, 8);
    auto const wanted = on_ranks(x, [&](in_process& transport, auto& mine) {
      reference_executor executor;
      plan(values, codec, transport, executor, {.algorithm = {algorithm_kind::aggregator}})
          .all_reduce(std::span(mine), {.step = 3, .op = reduce_op::mean});
    });
    std::barrier all(1);
    in_process_world world(1);
    in_process alone(world, 0);
    device_rank device(alone, ranks * values);
    std::vector<float> together;
    for (auto const& one : x) together.insert(together.end(), one.begin(), one.end());
    device.set(together);
    auto const x_of = [&](int rank) {
      return device.x().subspan(static_cast<std::size_t>(rank) * values, values);
    };
    using parts = encoded_parts<C, gpu::stream_executor>;
    std::vector<std::unique_ptr<parts>> of;
    for (int rank = 0; rank < ranks; ++rank)
      of.push_back(std::make_unique<parts>(values, ranks, rank, codec, device.executor));
    std::size_t const sent = of[0]->part_bytes(), reduced = of[0]->reduced_bytes(),
                      words = of[0]->statistics_words();
    gpu::device_buffer const out(ranks * ranks * sent), in(ranks * sent), sums(ranks * reduced),
        statistics(ranks * words * sizeof(std::uint32_t));
    auto* const first = reinterpret_cast<std::uint32_t*>(statistics.data());
    auto const copy = [&](std::byte* to, std::byte const* from, std::size_t bytes) {
      HCOMP_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, device.stream));
    };
    draw_key const key{.step = 3};
    counted_calls const counted(all);
    for (int r = 0; r < ranks; ++r)
      of[static_cast<std::size_t>(r)]->measure(x_of(r),
                                               first + static_cast<std::size_t>(r) * words);
    for (std::size_t r = 1; r < ranks; ++r)
      device.executor.for_each_block((words + unite_statistics::run - 1) / unite_statistics::run,
                                     unite_statistics{first, first + r * words, words});
    for (std::size_t r = 0; r < ranks; ++r)
      of[r]->encode(x_of(static_cast<int>(r)), key, first, out.data() + r * ranks * sent);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t s = 0; s < ranks; ++s)
        copy(in.data() + s * sent, out.data() + (s * ranks + r) * sent, sent);
      of[r]->merge(in.data(), sums.data() + r * reduced);
    }
    for (std::size_t r = 0; r < ranks; ++r)
      of[r]->decode(sums.data(), x_of(static_cast<int>(r)), key, reduce_op::mean);
    auto const calls = counted.end();
    CHECK(calls.waits == 0);
    CHECK(calls.allocations == 0);
    for (auto const& one : of) one->check();
    auto const found = device.get();
    for (std::size_t r = 0; r < ranks; ++r)
      CHECK(first_difference(
                std::vector<float>(found.begin() + static_cast<std::ptrdiff_t>(r * values),
                                   found.begin() + static_cast<std::ptrdiff_t>((r + 1) * values)),
                wanted[r]) == nowhere);
  });
}

TEST_CASE("gpu: check() throws NaN's error on all ranks alike, and x and feedback are unchanged") {
  std::size_t const values = 9'001;
  auto x = uniform_vectors(2, values, 8);
  x[1][5000] = std::numeric_limits<float>::quiet_NaN();
  auto const before = x;
  std::vector<outcome> checked(2);
  x = on_ranks(x, [&](in_process& transport, auto& mine) {
    device_rank device(transport, values);
    plan sum(values, sign<>{}, device.transport, device.executor);
    gpu::error_feedback<float> feedback(values);
    auto const state = feedback.save();
    device.set(mine);
    sum.all_reduce(device.x(), feedback);
    checked[static_cast<std::size_t>(transport.rank())] = outcome_of([&] { sum.check(); });
    CHECK(feedback.save() == state);
    mine = device.get();
    device.set(std::vector<float>(values, 1.0f));
    sum.all_reduce(device.x(), feedback);
    sum.check();
    CHECK(device.get() == std::vector<float>(values, 2.0f));
  });
  CAPTURE(to_text(checked));
  CHECK(all_ended_alike(checked, "nonfinite_error"));
  for (std::size_t rank = 0; rank < x.size(); ++rank)
    CHECK(first_difference(x[rank], before[rank]) == nowhere);
}
