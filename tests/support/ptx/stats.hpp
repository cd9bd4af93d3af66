#pragma once
/// @file
/// Statistics of the PTX machine, for reports and for programs that run on it.

#include <cstdint>

namespace hcomp::ptx {

/// Statistics of kernels.
struct stats {
  std::uint64_t launches = 0, threads = 0, barriers = 0;
  std::uint64_t warp_steps = 0;    ///< shuffles, votes and barriers of warps
  std::uint64_t instructions = 0;  ///< of all threads
  /// 32 per instruction of a warp. From one synchronisation to the next, the number of
  /// instructions of a warp is that of its busiest lane, so a lane that works alone counts as 32.
  /// Lanes on different paths of equal length count as if on one path.
  std::uint64_t issued = 0;
  std::uint64_t loaded_bytes = 0, stored_bytes = 0;  ///< of global memory
  /// Sectors of 32 bytes of global memory. A sector counts once per instruction of a warp, for all
  /// its lanes.
  std::uint64_t loaded_sectors = 0, stored_sectors = 0;
  std::uint64_t local = 0, shared = 0;  ///< accesses of threads
  double seconds = 0;                   ///< run time of the machine

  stats& operator+=(stats const& other) {
    launches += other.launches, threads += other.threads, barriers += other.barriers;
    warp_steps += other.warp_steps, instructions += other.instructions, issued += other.issued;
    loaded_bytes += other.loaded_bytes, stored_bytes += other.stored_bytes;
    loaded_sectors += other.loaded_sectors, stored_sectors += other.stored_sectors;
    local += other.local, shared += other.shared, seconds += other.seconds;
    return *this;
  }
};

/// Calls of the CUDA runtime since the program began.
struct calls {
  /// Waits of the host: synchronisation, cudaMemcpy, and copies to memory that is not pinned.
  std::uint64_t waits = 0;
  std::uint64_t allocations = 0;  ///< and releases, which wait for the device, too
};

}  // namespace hcomp::ptx

/// Name of the next function, for dlsym. It exists only on the machine.
#define HCOMP_PTX_TAKE_STATS "hcomp_ptx_take_stats"

/// Writes the statistics of all kernels since the last call to `found`. Counts sectors and bytes
/// from the first call on.
extern "C" void hcomp_ptx_take_stats(hcomp::ptx::stats* found);

/// Name of the next function, for dlsym. It exists only on the machine.
#define HCOMP_PTX_COUNT_CALLS "hcomp_ptx_count_calls"

extern "C" void hcomp_ptx_count_calls(hcomp::ptx::calls* found);
