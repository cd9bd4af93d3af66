/// @file
/// What codecs reach of a GPU's memory, and what one would take instead, in one run.
///
/// Codes of fixed length, casts and cub::DeviceSelect are what one would take instead. Shares are
/// of the rate at which the device copies (read + write), times the bytes that the kernel must
/// move: values once, codes once.

#include <cuda_runtime.h>

#include <cuda_fp16.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cub/device/device_select.cuh>
#include <fixed_length.cuh>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/sparse/lossless.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/detail/sparse_phases.hpp>
#include <hcomp/collective/variable_rate_coder.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/gpu/error_feedback.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/op/block_work.hpp>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace hcomp;

/// Median seconds of what `f` gives to the default stream; `prepare` is not counted.
template <class F, class P> double seconds(int turns, F const& f, P const& prepare) {
  cudaEvent_t begin{}, end{};
  HCOMP_CUDA_TRY(cudaEventCreate(&begin));
  HCOMP_CUDA_TRY(cudaEventCreate(&end));
  std::vector<double> all;
  for (int turn = -2; turn < turns; ++turn) {  // the first wake the device up
    prepare();
    HCOMP_CUDA_TRY(cudaEventRecord(begin));
    f();
    HCOMP_CUDA_TRY(cudaEventRecord(end));
    HCOMP_CUDA_TRY(cudaEventSynchronize(end));
    float milliseconds = 0;
    HCOMP_CUDA_TRY(cudaEventElapsedTime(&milliseconds, begin, end));
    if (turn >= 0) all.push_back(1e-3 * static_cast<double>(milliseconds));
  }
  HCOMP_CUDA_TRY(cudaEventDestroy(begin));
  HCOMP_CUDA_TRY(cudaEventDestroy(end));
  std::nth_element(all.begin(), all.begin() + turns / 2, all.end());
  return all[static_cast<std::size_t>(turns / 2)];
}

template <class F> double seconds(int turns, F const& f) {
  return seconds(turns, f, [] {});
}

/// Figures against the copy.
class table {
 public:
  explicit table(double copy_rate) : copy_rate_(copy_rate) {
    std::printf("%-44s %10s %10s %8s\n", "", "ms", "GB/s", "of copy");
  }
  void print(std::string const& what, double took, double bytes) const {
    std::printf("%-44s %10.3f %10.1f %8.2f\n", what.c_str(), 1e3 * took, 1e-9 * bytes / took,
                bytes / took / copy_rate_);
  }
  /// Atomic additions instead of bytes, against `plain` of them in a second.
  static void print_additions(std::string const& what, double took, double additions,
                              double plain) {
    std::printf("%-44s %10.3f %8.2f G/s %6.2f of plain\n", what.c_str(), 1e3 * took,
                1e-9 * additions / took, additions / took / plain);
  }

 private:
  double copy_rate_;
};

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
/// Additions of 8 bytes at random places, and nothing else.
__global__ void add_anywhere(unsigned long long* cells, std::size_t count, std::size_t additions) {
  std::size_t const step = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < additions; i += step)
    atomicAdd(cells + (mix(i) >> 32) * count / (std::size_t{1} << 32), 1ull);
}
struct is_not_zero {
  __device__ bool operator()(float x) const { return x != 0; }
};

struct vectors {
  std::size_t values;
  gpu::device_buffer x, y;
  explicit vectors(std::size_t n) : values(n), x(n * sizeof(float)), y(n * sizeof(float)) {}
  float* floats() const { return reinterpret_cast<float*>(x.data()); }
};

template <class C>
void measure_codec(table const& figures, int turns, vectors const& v, C const& codec) {
  gpu::stream_executor executor;
  auto const layout = layout_of(codec, v.values);
  gpu::device_buffer mine(layout.bytes()), other(layout.bytes());
  double const values = static_cast<double>(v.values) * sizeof(float);
  double const code = static_cast<double>(layout.bytes());
  std::string const name(C::name);
  auto const encode = [&](gpu::device_buffer const& to, std::uint32_t rank) {
    executor.for_each_block(
        layout.blocks(),
        encode_blocks<C, float const*>{codec, layout, v.floats(), to.data(), {7, rank, 1, 0}});
  };
  encode(other, 1);
  figures.print(name + " encode", seconds(turns, [&] { encode(mine, 0); }), values + code);
  gpu::error_feedback<float> residual(v.values);
  auto const view = residual.view(v.floats());
  figures.print(name + " encode, error feedback",
                seconds(turns,
                        [&] {
                          executor.for_each_block(
                              layout.blocks(), encode_with_feedback<C, decltype(view)>{
                                                   codec, layout, view, mine.data(), {7, 0, 1, 0}});
                        }),
                3 * values + code);
  auto const fresh = [&] { encode(mine, 0); };  // nothing is merged twice
  figures.print(name + " merge",
                seconds(
                    turns,
                    [&] {
                      executor.for_each_block(layout.blocks(),
                                              merge_blocks<C>{codec, mine.data(), other.data()});
                    },
                    fresh),
                3 * code);
  fresh();
  figures.print(
      name + " decode",
      seconds(turns,
              [&] {
                executor.for_each_block(
                    layout.blocks(),
                    decode_blocks<C>{codec, layout, 0, mine.data(),
                                     reinterpret_cast<float*>(v.y.data()), reduction::mean});
              }),
      values + code);
}

void measure_inceptionn(table const& figures, int turns, vectors const& v, int prescale) {
  hcomp::inceptionn const codec({.prescale = prescale});
  gpu::stream_executor executor;
  variable_rate_coder<inceptionn, gpu::stream_executor> coder(v.values, executor);
  gpu::device_buffer memory(codec.capacity(v.values));
  std::span const code(memory.data(), memory.size());
  std::span const x(v.floats(), v.values), y(reinterpret_cast<float*>(v.y.data()), v.values);
  auto const encode = [&] { coder.encode(codec, x, code); };
  double const encoding = seconds(turns, encode);
  double const coded = static_cast<double>(coder.bytes(codec));
  double const bytes = static_cast<double>(x.size_bytes()) + coded;
  char name[64];
  std::snprintf(name, sizeof(name), "inceptionn, %.2f bytes per value",
                coded / static_cast<double>(v.values));
  figures.print(std::string(name) + " encode", encoding, bytes);
  figures.print(std::string(name) + " decode",
                seconds(turns, [&] { coder.decode(codec, code, y); }), bytes);
}

/// The phases of a sum of sparse vectors.
void measure_sparse(table const& figures, int turns, vectors const& v) {
  gpu::stream_executor executor;
  detail::sparse_phases<lossless<>, gpu::stream_executor> phases(
      {.ways = {.dense = false, .sketched = false}}, v.values, {}, executor);
  std::span const x(v.floats(), v.values);
  std::span const lanes(reinterpret_cast<float*>(v.y.data()), v.values);
  auto const mark = [&] { phases.mark(x, reduction::sum); };
  double const marking = seconds(turns, mark);
  double const index = static_cast<double>(v.values) / 8, values = 32 * index;
  figures.print("sparse index", marking, values + index);
  double const looking = seconds(turns, [&] { phases.look(); });  // the host waits
  figures.print("sparse index read", looking, index);
  phases.unite(0);
  auto const packed = static_cast<double>(phases.lanes() * sizeof(float));
  double const packing = seconds(turns, [&] { phases.encode_lanes(x, lanes, 0); });
  figures.print("sparse pack", packing, index + 2 * packed);
  figures.print("sparse index and pack", marking + looking + packing, values + index + packed);
  gpu::device_buffer const back(v.values * sizeof(float));
  figures.print(
      "sparse unpack",
      seconds(turns,
              [&] {
                phases.decode_lanes(lanes, {reinterpret_cast<float*>(back.data()), v.values}, 0);
              }),
      values + index + packed);
}

/// A sketch of the same vector, of fixed-point lanes: for every value that is marked 3 cells are
/// read and written.
void measure_sketch(table const& figures, int turns, vectors const& v) {
  using lane = std::uint32_t;
  gpu::stream_executor executor;
  detail::sparse_phases<lossless<lane>, gpu::stream_executor> phases(
      {.ways = {.dense = false, .packed = false}}, v.values, {}, executor);
  std::span const x(v.floats(), v.values);
  auto const mark = [&] {
    phases.mark(x, reduction::sum);
    phases.look();
  };
  double const marking = seconds(turns, mark);
  double const peeling = seconds(turns, [&] { phases.unite(0); });  // the host waits
  std::size_t const cells = phases.lanes(), marked = phases.choice().marked;
  gpu::device_buffer const memory(cells * sizeof(lane)), counters(cells * sizeof(std::uint64_t));
  std::span const lanes(reinterpret_cast<lane*>(memory.data()), cells);
  auto const encode = [&] { phases.encode_lanes(x, lanes, 0); };
  double const encoding = seconds(turns, encode);
  std::span const y(reinterpret_cast<float*>(v.y.data()), v.values);
  double const reading = seconds(
      turns, [&] { phases.decode_lanes(lanes, y, 0); }, encode);  // the host waits

  auto const n = static_cast<double>(marked);
  double const values = static_cast<double>(v.values) * sizeof(float), index = values / 32;
  double const touched = 3 * 2 * sizeof(lane) * n;
  figures.print("lhc sketch encode", encoding, index + sizeof(float) * n + touched);
  figures.print("lhc index and sketch encode", marking + encoding, values + index + touched);
  figures.print("lhc sketch read", reading,
                values + sizeof(detail::lhc::value_claim) * n + touched);
  HCOMP_CUDA_TRY(cudaMemset(counters.data(), 0, counters.size()));
  double const adding = seconds(turns, [&] {
    add_anywhere<<<4096, 256>>>(reinterpret_cast<unsigned long long*>(counters.data()), cells,
                                3 * marked);
  });
  double const plain = 3 * n / adding;
  table::print_additions("plain kernel: 8 bytes added at random places", adding, 3 * n, plain);
  table::print_additions("lhc peel, values in and out of 3 cells", peeling, 6 * n, plain);
}

/// What one would write or call without hcomp.
void measure_others(table const& figures, int turns, vectors const& v, double share) {
  double const values = static_cast<double>(v.values) * sizeof(float);
  figures.print("plain kernel: float to half",
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
    figures.print(std::string(name) + " encode", encoding, values + coded);
    figures.print(std::string(name) + " decode",
                  seconds(turns, [&] { coder.decode(reinterpret_cast<float*>(v.y.data())); }),
                  values + coded);
  }
  gpu::device_buffer count(sizeof(std::uint64_t));
  std::size_t bytes = 0;
  auto const select = [&](void* scratch) {
    HCOMP_CUDA_TRY(cub::DeviceSelect::If(
        scratch, bytes, v.floats(), reinterpret_cast<float*>(v.y.data()),
        reinterpret_cast<std::uint64_t*>(count.data()), v.values, is_not_zero{}));
  };
  select(nullptr);
  gpu::device_buffer scratch(bytes);
  fill<<<4096, 256>>>(v.floats(), v.values, static_cast<float>(share));
  figures.print("cub::DeviceSelect, " + std::to_string(static_cast<int>(100 * share)) + " % kept",
                seconds(turns, [&] { select(scratch.data()); }), (1 + share) * values);
  measure_sparse(figures, turns, v);
  measure_sketch(figures, turns, v);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Codecs on a GPU against the rate at which it copies");
  std::size_t values = std::size_t{1} << 26;
  int turns = 21;
  double share = 0.05;
  app.add_option("--values", values, "floats")->check(CLI::Range(1, 1 << 30));
  app.add_option("--turns", turns, "measurements, of which the median is printed")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--share", share, "of values that are not zero, for selecting them")
      ->check(CLI::Range(0.0, 1.0));
  CLI11_PARSE(app, argc, argv);
  if (gpu::device_count() == 0) {
    std::puts("Skipped: there is no GPU");
    return 77;
  }
  cudaDeviceProp device{};
  HCOMP_CUDA_TRY(cudaGetDeviceProperties(&device, 0));
  vectors const v(values);
  fill<<<4096, 256>>>(v.floats(), values, 1);
  double const bytes = static_cast<double>(v.x.size());
  double const copy = seconds(turns, [&] {
    HCOMP_CUDA_TRY(cudaMemcpyAsync(v.y.data(), v.x.data(), v.x.size(), cudaMemcpyDeviceToDevice));
  });
  std::printf("%s, %zu floats, medians of %d\n", device.name, values, turns);
  table const figures(2 * bytes / copy);
  figures.print("copy", copy, 2 * bytes);
  measure_codec(figures, turns, v, sign<>{0.5f});
  measure_codec(figures, turns, v, fit(sign_count<>{0.5f}, 8));
  measure_codec(figures, turns, v, fit(thc<>{}, 4));
  measure_codec(figures, turns, v, float_cast<float16>{});
  measure_codec(figures, turns, v, float_cast<bfloat16>{});
  for (int const prescale : {0, -6}) measure_inceptionn(figures, turns, v, prescale);
  measure_others(figures, turns, v, share);
}
