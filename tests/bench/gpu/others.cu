/// @file
/// CUDA's and CUB's own speed: casts, fixed-length encoding and atomic additions. In a separate
/// file, because the PTX machine does not execute CUB's kernels.

#include <cuda_runtime.h>

#include <cuda_fp16.h>
#include <cstdint>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_select.cuh>
#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/collective/sparse/detail/sparse_phases.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <span>

#include "fixed_length.cuh"
#include "measure.cuh"

namespace gpu_bench {
namespace {

using namespace hcomp;

__global__ void fill(float* x, std::size_t n, float share) {
  std::size_t const step = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += step) {
    auto const hash = static_cast<std::uint32_t>(mix(i));
    float const value = static_cast<float>(hash & 0xffff) * 0x1p-15f - 1;
    x[i] = static_cast<float>(hash >> 16) < share * 65536 ? value : 0;
  }
}
__global__ void to_half(float const* x, std::size_t n, __half* y) {
  std::size_t const step = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += step)
    y[i] = __float2half_rn(x[i]);
}
/// Only additions of 8 bytes at random places.
__global__ void add_anywhere(unsigned long long* cells, std::size_t count, std::size_t additions) {
  std::size_t const step = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < additions; i += step)
    atomicAdd(cells + (mix(i) >> 32) * count / (std::size_t{1} << 32), 1ull);
}
struct is_not_zero {
  __device__ bool operator()(float x) const { return x != 0; }
};

/// Peeling of a sketch, compared with atomic additions at random places: every marked value is
/// added to 3 cells and removed from them.
void measure_peeling(std::size_t turns, vectors const& v) {
  gpu::stream_executor executor;
  detail::sparse_phases<lossless_sparse<std::uint32_t>, gpu::stream_executor> phases(
      {.strategies = {.dense = false, .packed = false}}, v.values, {}, executor);
  phases.mark(std::span<float const>(v.floats(), v.values), reduce_op::sum);
  phases.look();
  double const peeling = seconds(turns, [&] { phases.unite(0); });  // synchronizes with the host
  std::size_t const cells = phases.lanes(), marked = phases.choice().marked;
  gpu::device_buffer const counters(cells * sizeof(std::uint64_t));
  HCOMP_CUDA_TRY(cudaMemset(counters.data(), 0, counters.size()));
  double const adding = seconds(turns, [&] {
    add_anywhere<<<4096, 256>>>(reinterpret_cast<unsigned long long*>(counters.data()), cells,
                                3 * marked);
  });
  auto const n = static_cast<double>(marked);
  double const plain = 3 * n / adding;
  auto const print = [&](char const* what, double took, double additions) {
    std::printf("%-44s %10.3f %8.2f G/s %6.2f of plain\n", what, 1e3 * took,
                1e-9 * additions / took, additions / took / plain);
  };
  print("plain kernel: 8 bytes added at random places", adding, 3 * n);
  print("lhc peel, values in and out of 3 cells", peeling, 6 * n);
}

/// A copy reads and writes the same number of bytes. Most kernels are more one-sided.
void measure_one_direction(table& stats, std::size_t turns, vectors const& v) {
  auto const values = static_cast<double>(v.x.size());
  stats.add("cudaMemset, writes alone",
            seconds(turns, [&] { HCOMP_CUDA_TRY(cudaMemsetAsync(v.y.data(), 1, v.y.size())); }),
            values);
  std::size_t bytes = 0;
  auto const largest = [&](void* scratch) {
    HCOMP_CUDA_TRY(cub::DeviceReduce::Max(scratch, bytes, v.floats(), v.others(), v.values));
  };
  largest(nullptr);
  gpu::device_buffer scratch(bytes);
  stats.add("cub::DeviceReduce, reads alone", seconds(turns, [&] { largest(scratch.data()); }),
            values);
}

}  // namespace

void measure_others(table& stats, std::size_t turns, vectors const& v, double share) {
  double const values = static_cast<double>(v.values) * sizeof(float);
  measure_one_direction(stats, turns, v);
  fill<<<4096, 256>>>(v.floats(), v.values, 1);
  stats.add("plain kernel: float to half",
            seconds(turns,
                    [&] {
                      to_half<<<4096, 256>>>(v.floats(), v.values,
                                             reinterpret_cast<__half*>(v.y.data()));
                    }),
            1.5 * values);
  for (float const bound : {1e-2f, 1e-4f}) {
    fixed_length::coder coder(v.values / 32 * 32, bound);
    double const encoding = seconds(turns, [&] { coder.encode(v.floats()); });
    auto const coded = static_cast<double>(coder.bytes());
    char name[64];
    std::snprintf(name, sizeof(name), "fixed length, %.2f bytes per value", 4 * coded / values);
    stats.add(std::string(name) + " encode", encoding, values + coded);
    stats.add(std::string(name) + " decode", seconds(turns, [&] { coder.decode(v.others()); }),
              values + coded);
  }
  gpu::device_buffer count(sizeof(std::uint64_t));
  std::size_t bytes = 0;
  auto const select = [&](void* scratch) {
    HCOMP_CUDA_TRY(cub::DeviceSelect::If(scratch, bytes, v.floats(), v.others(),
                                         reinterpret_cast<std::uint64_t*>(count.data()), v.values,
                                         is_not_zero{}));
  };
  select(nullptr);
  gpu::device_buffer scratch(bytes);
  fill<<<4096, 256>>>(v.floats(), v.values, static_cast<float>(share));
  stats.add("cub::DeviceSelect, " + std::to_string(static_cast<int>(100 * share)) + " % kept",
            seconds(turns, [&] { select(scratch.data()); }), (1 + share) * values);
  measure_peeling(turns, v);
}

}  // namespace gpu_bench
