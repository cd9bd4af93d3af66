/// @file
/// Tests the PTX machine with tiny kernels. Each kernel has one mistake, which the machine must
/// name or which must give a wrong result. A correct twin of each kernel must cause no message.

#include <dlfcn.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/error.hpp>
#include <string>
#include <support/process.hpp>
#include <support/ptx/stats.hpp>
#include <vector>

namespace {

using hcomp::gpu::device_buffer;
using hcomp::gpu::pinned_buffer;

constexpr int threads = 128;

/// `count` zeros on the device.
template <class T> class zeros {
 public:
  explicit zeros(std::size_t count) : memory_(count * sizeof(T)), count_(count) {
    HCOMP_CUDA_TRY(cudaMemset(memory_.data(), 0, memory_.size()));
  }
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    HCOMP_CUDA_TRY(
        cudaMemcpy(values.data(), memory_.data(), memory_.size(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  device_buffer memory_;
  std::size_t count_;
};

// ---- Barriers and scratch -----------------------------------------------------------------------

template <bool is_right> __global__ void reverse(int* out) {
  __shared__ int scratch[threads];
  scratch[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (is_right) __syncthreads();
  out[threadIdx.x] = scratch[threads - 1 - threadIdx.x];
}
template <bool is_right> bool check_reverse() {
  zeros<int> const out(threads);
  reverse<is_right><<<1, threads>>>(out.data());
  return out.host()[3] == threads - 4;
}

template <bool is_right> __global__ void wait_for_some(int* out) {
  if (is_right || threadIdx.x < 64) __syncthreads();
  out[threadIdx.x] = 1;
}
template <bool is_right> bool check_wait_for_some() {
  zeros<int> const out(threads);
  wait_for_some<is_right><<<1, threads>>>(out.data());
  return out.host()[threads - 1] == 1;
}

/// Each half of the threads reverses its own part, and synchronizes only with itself.
template <bool is_right> __global__ void reverse_halves(int* out) {
  __shared__ int scratch[threads];
  auto const i = threadIdx.x, last = i < 64 ? 63u : threads + 63u;
  for (int turn = 0; turn < 2; ++turn) {
    if (i < 64)
      asm volatile("bar.sync 1, 64;" ::: "memory");
    else
      asm volatile("bar.sync 2, 64;" ::: "memory");
    scratch[i] = static_cast<int>(i) + turn;
    if (i < 64)
      asm volatile("bar.sync 1, 64;" ::: "memory");
    else
      asm volatile("bar.sync 2, 64;" ::: "memory");
    out[i] = scratch[(is_right ? last : threads - 1) - i];
  }
  __syncthreads();
  out[i] += scratch[threads - 1 - i];
}
template <bool is_right> bool check_reverse_halves() {
  zeros<int> const out(threads);
  reverse_halves<is_right><<<1, threads>>>(out.data());
  return out.host()[3] == 61 + threads - 3;
}

template <bool is_right> __global__ void add_scratch(int* out) {
  __shared__ int scratch[threads];
  if (is_right || threadIdx.x % 2 == 0) scratch[threadIdx.x] = 1;
  __syncthreads();
  int sum = 0;
  for (int const one : scratch) sum += one;
  out[threadIdx.x] = sum;
}
template <bool is_right> bool check_add_scratch() {
  zeros<int> const out(threads);
  add_scratch<is_right><<<1, threads>>>(out.data());
  static_cast<void>(out.host());
  return true;  // for any sum
}

// ---- Warps --------------------------------------------------------------------------------------

template <bool is_right> __global__ void exchange(int* out) {
  int value = static_cast<int>(threadIdx.x);
  if (threadIdx.x % 32 < 16) value = __shfl_xor_sync(is_right ? 0xffffu : 0xffffffffu, value, 1);
  out[threadIdx.x] = value;
}
template <bool is_right> bool check_exchange() {
  zeros<int> const out(threads);
  exchange<is_right><<<1, threads>>>(out.data());
  return out.host()[6] == 7;
}

/// The sum of a warp's numbers, for which the lanes must synchronize. Before Volta, lanes of a warp
/// ran in lockstep.
template <bool is_right> __global__ void fold(int* out) {
  __shared__ int scratch[32];
  auto const lane = threadIdx.x;
  scratch[lane] = 1;
  for (unsigned half = 16; half > 0; half /= 2) {
    if (is_right) __syncwarp();
    int const other = lane < half ? scratch[lane + half] : 0;
    if (is_right) __syncwarp();
    scratch[lane] += other;
  }
  if (lane == 0) *out = scratch[0];
}
template <bool is_right> bool check_fold() {
  zeros<int> const out(1);
  fold<is_right><<<1, 32>>>(out.data());
  return !is_right || out.host()[0] == 32;
}

// ---- Addresses ----------------------------------------------------------------------------------

template <bool is_right> __global__ void fill(int* out, std::size_t count) {
  std::size_t const i = blockIdx.x * std::size_t{threads} + threadIdx.x;
  if (!is_right || i < count) out[i] = 1;
}
template <bool is_right> bool check_fill() {
  zeros<int> const out(300);
  fill<is_right><<<3, threads>>>(out.data(), 300);
  return out.host()[299] == 1;
}
template <bool is_right> __global__ void fetch_last(int const* x, int* out) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(x + (is_right ? 299 : 300)));
  *out = 1;
}
template <bool is_right> bool check_fetch_last() {
  zeros<int> const x(300), out(1);
  fetch_last<is_right><<<1, 1>>>(x.data(), out.data());
  return out.host()[0] == 1;
}
bool check_fill_after_free() {
  int* freed = nullptr;
  {
    zeros<int> const out(300);
    freed = out.data();
  }
  fill<true><<<3, threads>>>(freed, 300);
  HCOMP_CUDA_TRY(cudaDeviceSynchronize());
  return true;
}

__global__ void load_four(float const* x, float* out) {
  float4 const four = *reinterpret_cast<float4 const*>(x);
  *out = four.x + four.y + four.z + four.w;
}
template <bool is_right> bool check_load_four() {
  zeros<float> const x(8), out(1);
  load_four<<<1, 1>>>(x.data() + (is_right ? 4 : 1), out.data());
  return out.host()[0] == 0;
}

/// A byte address of 16 bits loses 16 bits of an index of 32 bits.
template <class Index> __global__ void write_rows(std::uint32_t* out, std::uint32_t rows) {
  std::uint32_t const i = blockIdx.x * threads + threadIdx.x;
  constexpr Index row = 65536;
  if (i < rows) out[i * row / row] = i;
}
template <class Index> bool check_write_rows() {
  constexpr std::uint32_t rows = 65536 + threads;
  zeros<std::uint32_t> const out(rows);
  write_rows<Index><<<rows / threads, threads>>>(out.data(), rows);
  return sizeof(Index) == 4 || out.host()[rows - 1] == rows - 1;
}

// ---- Blocks and streams -------------------------------------------------------------------------

template <bool is_right> __global__ void count_blocks(unsigned* out) {
  if (threadIdx.x > 0) return;
  if (is_right)
    atomicAdd(out, 1u);
  else
    *out += 1;
}
template <bool is_right> bool check_count_blocks() {
  zeros<unsigned> const out(1);
  count_blocks<is_right><<<9, threads>>>(out.data());
  return out.host()[0] == 9;
}

/// All threads also count in shared memory.
__global__ void count_threads(unsigned* out) {
  __shared__ unsigned count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1u);
  __syncthreads();
  if (threadIdx.x == 0) *out = count;
}
bool check_count_threads() {
  zeros<unsigned> const out(1);
  count_threads<<<1, threads>>>(out.data());
  return out.host()[0] == threads;
}

template <bool is_right> bool check_wait() {
  zeros<int> const out(threads);
  pinned_buffer const pinned(threads * sizeof(int));
  auto const* const found = reinterpret_cast<int const volatile*>(pinned.data());
  cudaStream_t stream = nullptr;
  HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  HCOMP_CUDA_TRY(cudaDeviceSynchronize());  // until the zeros are written
  fill<true><<<1, threads, 0, stream>>>(out.data(), threads);
  HCOMP_CUDA_TRY(
      cudaMemcpyAsync(pinned.data(), out.data(), pinned.size(), cudaMemcpyDeviceToHost, stream));
  if (is_right) HCOMP_CUDA_TRY(cudaStreamSynchronize(stream));
  bool const is_one = found[0] == 1;
  HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
  return is_one;
}

__global__ void wait_for_ever(unsigned* flag) {
  while (atomicAdd(flag, 0u) == 0) {
  }
}
bool check_wait_for_ever() {
  zeros<unsigned> const flag(1);
  wait_for_ever<<<1, 1>>>(flag.data());
  return flag.host()[0] != 0;
}

// ---- Functions of the host as compiled by nvcc --------------------------------------------------

template <bool is_right> __global__ void find_lowest(std::uint32_t const* x, int* out) {
  *out = is_right ? __ffs(static_cast<int>(*x)) - 1 : std::countr_zero(*x);
}
template <bool is_right> bool check_find_lowest() {
  zeros<std::uint32_t> const x(1);
  zeros<int> const out(1);
  std::uint32_t const value = 40;
  HCOMP_CUDA_TRY(cudaMemcpy(x.data(), &value, sizeof(value), cudaMemcpyHostToDevice));
  find_lowest<is_right><<<1, 1>>>(x.data(), out.data());
  return out.host()[0] == 3;
}

// ---- Counters -----------------------------------------------------------------------------------

__global__ void copy_bytes_of(std::uint8_t const* x, std::uint8_t* out) {
  for (unsigned i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = x[4 * threadIdx.x + i];
}
__global__ void copy_words(std::uint32_t const* x, std::uint32_t* out, unsigned stride) {
  out[threadIdx.x] = x[threadIdx.x * stride];
}
/// Lane 0 alone, or all lanes.
__global__ void multiply(std::uint32_t* out, bool alone) {
  if (alone && threadIdx.x > 0) return;
  std::uint32_t product = 1;
  for (std::uint32_t i = 0; i < *out; ++i) product *= product + i;
  out[1 + threadIdx.x] = product;
}
__global__ void look_up(std::uint32_t const* x, std::uint32_t* out) {
  std::uint32_t mine[threads];
  for (unsigned i = 0; i < threads; ++i) mine[i] = x[i];
  *out = mine[x[0]] + mine[x[1]];
}
template <class F> hcomp::ptx::stats stats_of(F const& launch) {
  auto* const take =
      reinterpret_cast<decltype(&hcomp_ptx_take_stats)>(dlsym(RTLD_DEFAULT, HCOMP_PTX_TAKE_STATS));
  hcomp::ptx::stats found;
  take(&found);
  launch();
  HCOMP_CUDA_TRY(cudaDeviceSynchronize());
  take(&found);
  return found;
}
bool check_sectors() {
  zeros<std::uint32_t> const x(8 * threads), out(threads);
  auto const bytes = stats_of([&] {
    copy_bytes_of<<<1, threads>>>(reinterpret_cast<std::uint8_t*>(x.data()),
                                  reinterpret_cast<std::uint8_t*>(out.data()));
  });
  auto const words = stats_of([&] { copy_words<<<1, threads>>>(x.data(), out.data(), 1); });
  auto const far = stats_of([&] { copy_words<<<1, threads>>>(x.data(), out.data(), 8); });
  constexpr unsigned least = threads * 4 / 32;
  return bytes.loaded_sectors == 4 * least && bytes.stored_sectors == 4 * least &&
         words.loaded_sectors == least && words.stored_sectors == least &&
         far.loaded_sectors == threads && far.stored_sectors == least &&
         far.loaded_bytes == threads * 4;
}
bool check_issued() {
  zeros<std::uint32_t> const out(1 + 32);
  HCOMP_CUDA_TRY(cudaMemset(out.data(), 1, 2));  // 257 iterations
  auto const all = stats_of([&] { multiply<<<1, 32>>>(out.data(), false); });
  auto const one = stats_of([&] { multiply<<<1, 32>>>(out.data(), true); });
  return all.issued == all.instructions && one.issued > 0.9 * static_cast<double>(all.issued) &&
         one.instructions < one.issued / 16;
}
/// The compiler may combine four accesses into one.
bool check_local() {
  zeros<std::uint32_t> const x(threads), out(1);
  auto const local = stats_of([&] { look_up<<<1, 1>>>(x.data(), out.data()); }).local;
  auto const none = stats_of([&] { copy_words<<<1, 1>>>(x.data(), out.data(), 1); }).local;
  return local >= threads / 4 + 2 && local <= threads + 2 && none == 0;
}

// ---- Expected outcomes --------------------------------------------------------------------------

constexpr char const* wrong = "the result is wrong";

struct trial {
  char const* name;
  bool (*run)();         ///< returns whether the result is right
  char const* expected;  ///< part of the output; null: no output, and the result is right
};
constexpr trial trials[] = {
    {"barrier", check_reverse<true>, nullptr},
    {"missing barrier", check_reverse<false>, "race: read after write, shared memory"},
    {"barrier of all", check_wait_for_some<true>, nullptr},
    {"barrier of some", check_wait_for_some<false>, "divergent barrier"},
    {"barriers of halves", check_reverse_halves<true>, nullptr},
    {"barriers of other halves", check_reverse_halves<false>,
     "race: read after write, shared memory"},
    {"scratch", check_add_scratch<true>, nullptr},
    {"uninitialised scratch", check_add_scratch<false>, "uninitialised: shared memory"},
    {"shuffle", check_exchange<true>, nullptr},
    {"shuffle of lanes that are gone", check_exchange<false>,
     "the mask names lane 16, which has exited"},
    {"lanes that take turns", check_fold<true>, nullptr},
    {"lanes in whatever order", check_fold<false>, "race: "},
    {"tail", check_fill<true>, nullptr},
    {"beyond the end", check_fill<false>,
     "out of bounds: 0 bytes behind the end of an allocation of 1200: block 2, thread 44"},
    {"fetch", check_fetch_last<true>, nullptr},
    {"fetch beyond the end", check_fetch_last<false>,
     "out of bounds: 0 bytes behind the end of an allocation of 1200"},
    {"freed memory", check_fill_after_free, "out of bounds: "},
    {"aligned load", check_load_four<true>, nullptr},
    {"unaligned load", check_load_four<false>, "misaligned: 16 bytes"},
    {"places in 64 bits", check_write_rows<std::uint64_t>, nullptr},
    {"places in 32 bits", check_write_rows<std::uint32_t>,
     "race: write after write, global memory"},
    {"atomic sum of blocks", check_count_blocks<true>, nullptr},
    {"race of blocks", check_count_blocks<false>, "race: read after write, global memory"},
    {"atomic sum of threads", check_count_threads, nullptr},
    {"wait for a copy", check_wait<true>, nullptr},
    {"no wait for a copy", check_wait<false>, wrong},
    {"no end", check_wait_for_ever, "a loop without an end"},
    {"lowest bit", check_find_lowest<true>, nullptr},
    {"lowest bit by std", check_find_lowest<false>, wrong},
    {"sectors of words and bytes", check_sectors, nullptr},
    {"instructions of a lane alone", check_issued, nullptr},
    {"local memory", check_local, nullptr},
};

/// Runs one kernel in a process of its own. Returns its output; sets `failed` by its exit status.
std::string outcome_of(trial const& one, bool& failed) {
  hcomp::testing::child_process child(
      [&]() -> int {
        bool const is_right = one.run();
        if (!is_right) std::fprintf(stderr, "%s\n", wrong);
        std::exit(is_right ? 0 : 1);  // not _exit: the machine makes its final checks at exit
      },
      STDERR_FILENO);
  auto const text = child.rest();
  failed = child.wait() != 0;
  return text;
}

}  // namespace

int main() {
  if (!std::getenv("HCOMP_PTX_MACHINE")) {
    std::printf("Skipped: this is about the PTX machine, which is not loaded\n");
    return 77;
  }
  int wrong_trials = 0;
  for (trial const& one : trials) {
    bool failed = false;
    std::string const said = outcome_of(one, failed);
    bool const is_as_expected = one.expected
                                    ? failed && said.find(one.expected) != std::string::npos
                                    : !failed && said.find("race") == std::string::npos;
    std::printf("%s: %s\n", is_as_expected ? "ok" : "WRONG", one.name);
    if (is_as_expected) continue;
    ++wrong_trials;
    std::printf("expected %s and '%s', found %s and\n%s", one.expected ? "failure" : "success",
                one.expected ? one.expected : "", failed ? "failure" : "success", said.c_str());
  }
  std::printf("%d of %zu are not as expected\n", wrong_trials, std::size(trials));
  return wrong_trials == 0 ? 0 : 1;
}
