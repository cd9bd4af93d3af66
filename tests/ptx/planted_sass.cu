/// @file
/// Kernels with good and with bad machine code, for sass_planted.py. Never run.

#include <cstddef>
#include <hcomp/gpu/stream_executor.hpp>

namespace {

/// Eight independent loads.
struct loads_together {
  float const* x;
  float* y;
  template <class Group> __device__ void operator()(Group group, std::size_t) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += x[group.worker() + 128 * k];
    y[group.worker()] = sum;
  }
};

/// The address of each load comes from the load before it.
struct loads_in_a_chain {
  unsigned const* x;
  unsigned* y;
  template <class Group> __device__ void operator()(Group group, std::size_t) const {
    auto at = static_cast<unsigned>(group.worker());
#pragma unroll
    for (int k = 0; k < 8; ++k) at = x[at];
    y[group.worker()] = at;
  }
};

/// A per-thread array with indices known only at run time.
struct array_at_run_time {
  unsigned const* x;
  unsigned* y;
  template <class Group> __device__ void operator()(Group group, std::size_t block) const {
    unsigned counts[64] = {};
    for (std::size_t k = 0; k < block; ++k) ++counts[x[k] % 64];
    y[group.worker()] = counts[y[group.worker()] % 64];
  }
};

}  // namespace

int main() {
  hcomp::gpu::stream_executor executor;
  executor.for_each_block(1, loads_together{});
  executor.for_each_block(1, loads_in_a_chain{});
  executor.for_each_block(1, array_at_run_time{});
}
