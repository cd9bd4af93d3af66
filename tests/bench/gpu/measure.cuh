#pragma once
/// @file
/// Timing with a GPU's own clock, and the table of results.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/error.hpp>
#include <optional>
#include <string>
#include <vector>

#include "stats.hpp"

namespace gpu_bench {

inline double median(std::vector<double> all) {
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

/// Median seconds of the work that `f` enqueues on the default stream; `prepare` is not timed.
template <class F, class P> double seconds(std::size_t turns, F const& f, P const& prepare) {
  cudaEvent_t begin{}, end{};
  HCOMP_CUDA_TRY(cudaEventCreate(&begin));
  HCOMP_CUDA_TRY(cudaEventCreate(&end));
  std::vector<double> all;
  for (std::size_t turn = 0; turn < turns + 2; ++turn) {  // the first turns wake the device up
    prepare();
    HCOMP_CUDA_TRY(cudaEventRecord(begin));
    f();
    HCOMP_CUDA_TRY(cudaEventRecord(end));
    HCOMP_CUDA_TRY(cudaEventSynchronize(end));
    float milliseconds = 0;
    HCOMP_CUDA_TRY(cudaEventElapsedTime(&milliseconds, begin, end));
    if (turn >= 2) all.push_back(1e-3 * static_cast<double>(milliseconds));
  }
  HCOMP_CUDA_TRY(cudaEventDestroy(begin));
  HCOMP_CUDA_TRY(cudaEventDestroy(end));
  return median(all);
}

template <class F> double seconds(std::size_t turns, F const& f) {
  return seconds(turns, f, [] {});
}

/// Prints results relative to the copy, and keeps them.
class table {
 public:
  table(std::size_t values, double copy_rate) : found_{values, copy_rate, {}, {}} {
    std::printf("%-44s %10s %10s %8s\n", "", "ms", "GB/s", "of copy");
  }
  void add(std::string const& work, double took, double bytes,
           std::optional<bool> is_as_on_host = {}) {
    std::printf("%-44s %10.3f %10.1f %8.2f%s\n", work.c_str(), 1e3 * took, 1e-9 * bytes / took,
                bytes / took / found_.copy_rate,
                is_as_on_host == false ? "  NOT THE BYTES OF THE HOST" : "");
    std::fflush(stdout);
    found_.works.push_back({work, took, bytes, is_as_on_host});
  }
  void add(reduction_stats const& sum) {
    std::printf("%-44s %10.3f %10.3f %10.3f %8.2f\n", sum.codec.c_str(), 1e3 * sum.seconds,
                1e3 * sum.bus_seconds, 1e3 * sum.host_seconds, sum.of_limit());
    std::fflush(stdout);
    found_.sums.push_back(sum);
  }
  size_stats const& found() const { return found_; }

 private:
  size_stats found_;
};

struct vectors {
  std::size_t values;
  hcomp::gpu::device_buffer x, y;
  explicit vectors(std::size_t n) : values(n), x(n * sizeof(float)), y(n * sizeof(float)) {}
  float* floats() const { return reinterpret_cast<float*>(x.data()); }
  float* others() const { return reinterpret_cast<float*>(y.data()); }
};

/// Measures alternatives to hcomp. @param share  fraction of nonzero values, for selecting them
void measure_others(table& stats, std::size_t turns, vectors const& v, double share);

/// Measures plans of ranks that share the device.
void measure_reductions(table& stats, std::size_t turns);

}  // namespace gpu_bench
