#pragma once
/// @file
/// Group of the threads of a thread block, which work on one block together.

#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/group.hpp>
#include <hcomp/gpu/detail/look_back.hpp>
#include <hcomp/gpu/warp_group.hpp>
#include <utility>

namespace hcomp::gpu {

/// One warp of a thread block and its part of the scratch memory.
struct warp_with_memory : warp_group {
  float* memory;

  __device__ float* scratch() const { return memory; }
};

/// One of the `Teams` teams of a thread block: a group of consecutive warps.
template <int Teams> class thread_team {
 public:
  static constexpr int workers = workers_of_team;

  /// @param number  index of this thread's team, below `Teams`
  __device__ explicit thread_team(int number) : number_(number) {}

  __device__ int worker() const { return static_cast<int>(threadIdx.x % workers); }
  __device__ void sync() const {
    [this]<int... N>(std::integer_sequence<int, N...>) { (sync_if<N>(), ...); }
    (std::make_integer_sequence<int, Teams>{});
  }
  __device__ std::uint32_t vote(bool value) const { return warp_group{}.vote(value); }
  template <class T> __device__ T xor_shuffle(T value, int distance) const {
    return warp_group{}.xor_shuffle(value, distance);
  }
  template <class T> __device__ T lane_value(T value, int lane) const {
    return warp_group{}.lane_value(value, lane);
  }

 private:
  /// Barrier 0 belongs to the thread block. N is a constant, because nvcc reserves all barriers if
  /// a barrier number is unknown at compile time.
  template <int N> __device__ void sync_if() const {
    if (number_ == N) asm volatile("bar.sync %0, %1;" ::"n"(N + 1), "n"(workers) : "memory");
  }

  int number_;
};

/// Result of block_group::arrive.
struct arrival {
  bool is_last, any;
};

/// Group of all threads of a thread block. Encodes the same bytes as hcomp::serial_group.
/// @tparam Workers  number of threads, a multiple of 32
template <int Workers> class block_group {
 public:
  static constexpr int workers = Workers, warps = workers / warp_group::workers,
                       teams = workers / workers_of_team;
  static constexpr bool has_teams = teams > 1 && workers % workers_of_team == 0;

  /// @param scratch  shared memory; used only by work that has scratch_bytes()
  __device__ explicit block_group(float* scratch) : scratch_(scratch) {}

  __device__ int worker() const { return static_cast<int>(threadIdx.x); }
  __device__ void sync() const { __syncthreads(); }
  __device__ bool any(bool value) const { return __syncthreads_or(value) != 0; }
  __device__ std::uint32_t vote(bool value) const { return warp_group{}.vote(value); }
  template <class T> __device__ T xor_shuffle(T value, int distance) const {
    return warp_group{}.xor_shuffle(value, distance);
  }
  template <class T> __device__ T lane_value(T value, int lane) const {
    return warp_group{}.lane_value(value, lane);
  }
  __device__ std::uint64_t sum(std::uint64_t value) const {
    __shared__ std::uint64_t sums[warps];
    value = warp_group{}.sum(value);
    if (warp_group{}.worker() == 0) sums[worker() / warp_group::workers] = value;
    sync();
    value = 0;
    for (int w = 0; w < warps; ++w) value += sums[w];
    sync();  // before a later call writes `sums`
    return value;
  }
  /// Prefix sum over the workers. The total must fit in a T.
  template <class T> __device__ running_sums running_sum(T value) const {
    auto const own = warp_group{}.running_sum(value);
    auto found = running_sum_of_warps(static_cast<T>(own.all));
    found.before += own.before;
    sync();  // before a later call writes the shared array
    return found;
  }
  /// Prefix sum over the warps; all lanes of a warp pass the same value. Call sync() before the
  /// next call.
  template <class T> __device__ running_sums running_sum_of_warps(T value) const {
    __shared__ T sums[warps];
    if (warp_group{}.worker() == 0) sums[warp()] = value;
    sync();
    T before{}, all{};
    for (int w = 0; w < warps; ++w) {
      if (w < warp()) before += sums[w];
      all += sums[w];
    }
    return {before, all};
  }
  /// Replaces each number by its maximum over all workers. Call sync() before the next call.
  template <std::size_t N> __device__ void largest(std::uint32_t (&numbers)[N]) const {
    __shared__ std::uint32_t most[warps][N];
    int const mine = worker() / warp_group::workers;
    for (std::size_t k = 0; k < N; ++k) {
      numbers[k] = warp_group{}.largest(numbers[k]);
      if (warp_group{}.worker() == 0) most[mine][k] = numbers[k];
    }
    sync();
    int const lane = warp_group{}.worker();
    for (std::size_t k = 0; k < N; ++k)
      numbers[k] = warp_group{}.largest(lane < warps ? most[lane][k] : 0);
  }
  /// Returns how many blocks called this before: a unique number per block. Call it once per block.
  /// @param next  device memory, 0 before the launch
  __device__ std::size_t ticket(std::uint64_t* next) const {
    __shared__ std::uint64_t number;
    static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
    if (worker() == 0) number = atomicAdd(reinterpret_cast<unsigned long long*>(next), 1ull);
    sync();
    return number;
  }
  /// Counts the groups that have arrived. `is_last` is true for the last of `groups` groups; `any`
  /// is then true if a group passed true. No other memory access is ordered.
  /// @param arrived  counter in device memory, shared by the groups; 0 before and after
  /// @param groups   below 2^16
  __device__ arrival arrive(std::uint32_t* arrived, std::uint32_t groups, bool value) const {
    constexpr std::uint32_t of_true = 1u << 16;
    __shared__ std::uint32_t seen;
    if (worker() == 0) {
      std::uint32_t const mine = value ? 1 + of_true : 1;
      seen = atomicAdd(arrived, mine) + mine;
      if (seen % of_true == groups) atomicExch(arrived, 0u);
    }
    sync();
    arrival const found{seen % of_true == groups, seen >= of_true};
    sync();  // before a later call writes `seen`
    return found;
  }
  /// Publishes the value early, before sum_before is called with it. Worker 0 must call it; calls
  /// of other workers do nothing.
  __device__ void announce(std::uint64_t* sums, std::size_t i, std::uint64_t value) const {
    if (worker() == 0) detail::announce(sums, i, value);
  }
  /// detail::look_back for all workers. Call it once per block.
  __device__ std::uint64_t sum_before(std::uint64_t* sums, std::size_t i,
                                      std::uint64_t value) const {
    __shared__ std::uint64_t found;
    if (worker() < warp_group::workers) {
      std::uint64_t const before = detail::look_back(sums, i, value);
      if (worker() == 0) found = before;
    }
    sync();
    return found;
  }
  __device__ int warp() const { return worker() / warp_group::workers; }
  /// Group of this worker's warp, with `bytes` of the scratch memory; see WorksByWarps.
  __device__ warp_with_memory own_warp(std::size_t bytes) const {
    return {{}, scratch_ + static_cast<std::size_t>(warp()) * bytes / sizeof(float)};
  }
  /// Index of this worker's team; see HasTeams.
  __device__ int team() const requires has_teams {
    // broadcast by the first lane tells nvcc that the value is uniform in the warp
    return warp_group{}.lane_value(worker() / workers_of_team, 0);
  }
  __device__ thread_team<teams> own_team() const requires has_teams {
    return thread_team<teams>(team());
  }
  /// Shared memory of scratch_bytes() of the work, 16-byte aligned.
  __device__ float* scratch() const { return scratch_; }

 private:
  float* scratch_;
};

}  // namespace hcomp::gpu
