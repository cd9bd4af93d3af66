/// @file
/// All-reduces of two ranks that share the GPU and its bus, compared with the bus time of their
/// messages.

#include <cuda_runtime.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/transport/in_process.hpp>
#include <span>
#include <string>
#include <vector>

#include "measure.cuh"

namespace gpu_bench {
namespace {

using namespace hcomp;

constexpr int ranks = 2;

/// Bytes per second.
struct rates {
  double bus;   ///< through pinned memory, in both directions at once, of each
  double host;  ///< between pinned buffers, with one thread per rank
};

double bus_rate(std::size_t turns) {
  std::size_t const bytes = std::size_t{64} << 20;
  gpu::pinned_buffer const here(bytes), more_on_host(bytes);
  gpu::device_buffer const on_device(bytes), more_on_device(bytes);
  cudaStream_t out{}, in{};
  HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking));
  HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking));
  std::vector<double> all;
  for (std::size_t turn = 0; turn < turns + 1; ++turn) {
    auto const begin = std::chrono::steady_clock::now();
    HCOMP_CUDA_TRY(
        cudaMemcpyAsync(here.data(), on_device.data(), bytes, cudaMemcpyDeviceToHost, out));
    HCOMP_CUDA_TRY(cudaMemcpyAsync(more_on_device.data(), more_on_host.data(), bytes,
                                   cudaMemcpyHostToDevice, in));
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    if (turn > 0) all.push_back(took.count());
  }
  HCOMP_CUDA_TRY(cudaStreamDestroy(out));
  HCOMP_CUDA_TRY(cudaStreamDestroy(in));
  return static_cast<double>(bytes) / median(all);
}

/// Rate of the additional copies between ranks that are threads.
double host_rate(std::size_t turns) {
  std::size_t const bytes = std::size_t{64} << 20;
  std::vector<double> all;
  std::barrier<> together(ranks);
  run_ranks(ranks, [&](in_process& transport) {
    gpu::pinned_buffer const from(bytes), to(bytes);
    for (std::size_t turn = 0; turn < turns + 1; ++turn) {
      together.arrive_and_wait();
      auto const begin = std::chrono::steady_clock::now();
      std::memcpy(to.data(), from.data(), bytes);
      together.arrive_and_wait();
      std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
      if (transport.rank() == 0 && turn > 0) all.push_back(took.count());
    }
  });
  return ranks * static_cast<double>(bytes) / median(all);
}

/// Median time of an all-reduce, and the bus and host times of both ranks' messages.
template <class C>
void measure_reduction(table& stats, std::size_t turns, C const& codec, rates limit) {
  std::size_t const values = stats.found().values;
  std::barrier<> together(ranks);
  std::vector<double> all;
  std::uint64_t sent = 0;
  run_ranks(ranks, [&](in_process& transport) {
    cudaStream_t stream{};
    HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
      gpu::stream_executor executor(stream);
      host_staged<in_process, gpu::stream_executor> over(transport, executor);
      plan sum(values, codec, over, executor);
      gpu::device_buffer const memory(values * sizeof(float));
      std::vector<float> x(values);
      for (std::size_t i = 0; i < values; ++i) x[i] = 1e-3f * static_cast<float>(mix(i) % 2001) - 1;
      for (std::size_t turn = 0; turn < turns + 2; ++turn) {
        executor.wait(executor.write(memory.data(), x.data(), memory.size()));
        together.arrive_and_wait();
        auto const begin = std::chrono::steady_clock::now();
        auto const report =
            sum.all_reduce(std::span(reinterpret_cast<float*>(memory.data()), values),
                           {.step = turn, .op = reduce_op::mean});
        executor.synchronize();
        together.arrive_and_wait();
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
        if (transport.rank() == 0 && turn >= 2) all.push_back(took.count());
        if (transport.rank() == 0) sent = report.bytes_sent;
      }
    }
    HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
  });
  double const messages = ranks * static_cast<double>(sent);
  stats.add({C::name, median(all), messages / limit.bus, messages / limit.host});
}

}  // namespace

void measure_reductions(table& stats, std::size_t turns) {
  rates const limit{bus_rate(turns), host_rate(turns)};
  std::printf(
      "sums of %d ranks on this GPU; its bus copies %.1f GB/s both ways at once, and the host "
      "%.1f GB/s by %d threads\n",
      ranks, 1e-9 * limit.bus, 1e-9 * limit.host, ranks);
  std::printf("%-44s %10s %10s %10s %8s\n", "", "ms", "bus, ms", "host, ms", "of most");
  measure_reduction(stats, turns, float_cast<float>{}, limit);
  measure_reduction(stats, turns, float_cast<float16>{}, limit);
  measure_reduction(stats, turns, sign<float>{}, limit);
  measure_reduction(stats, turns, fit(thc<float>{}, ranks), limit);
  measure_reduction(stats, turns, inceptionn({.prescale = -6}), limit);
  measure_reduction(stats, turns, error_bounded({.bound = 1e-3, .ranks = ranks}), limit);
}

}  // namespace gpu_bench
