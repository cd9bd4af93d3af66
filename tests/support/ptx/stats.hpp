#pragma once
/// @file
/// What the PTX machine counts, for reports and for programs that run on it.

#include <cstdint>

namespace hcomp::ptx {

/// What kernels did.
struct stats {
  std::uint64_t launches = 0, threads = 0, barriers = 0;
  std::uint64_t warp_steps = 0;    ///< shuffles, votes and barriers of warps
  std::uint64_t instructions = 0;  ///< of all threads
  /// 32 for each that a warp executes: from one synchronisation to the next as many as the lane with
  /// the most of them, so that a lane that works alone counts as 32. Lanes on different paths of
  /// equal length count as if they were on one.
  std::uint64_t issued = 0;
  std::uint64_t loaded_bytes = 0, stored_bytes = 0;  ///< of global memory
  /// Of 32 bytes of global memory: those that the lanes of a warp reach by one instruction count
  /// once, those that they reach by several as often.
  std::uint64_t loaded_sectors = 0, stored_sectors = 0;
  std::uint64_t local = 0, shared = 0;  ///< accesses of threads
  double seconds = 0;                   ///< that the machine took

  stats& operator+=(stats const& other) {
    launches += other.launches, threads += other.threads, barriers += other.barriers;
    warp_steps += other.warp_steps, instructions += other.instructions, issued += other.issued;
    loaded_bytes += other.loaded_bytes, stored_bytes += other.stored_bytes;
    loaded_sectors += other.loaded_sectors, stored_sectors += other.stored_sectors;
    local += other.local, shared += other.shared, seconds += other.seconds;
    return *this;
  }
};

}  // namespace hcomp::ptx

/// Where programs find the next function, by dlsym: there is none without the machine.
#define HCOMP_PTX_TAKE_FIGURES "hcomp_ptx_take_figures"

/// What all kernels did since the last call, into `found`. Sectors and bytes are counted from the
/// first call on.
extern "C" void hcomp_ptx_take_stats(hcomp::ptx::stats* found);
