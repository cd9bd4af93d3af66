#pragma once
/// @file
/// Runs a launch on the CPU, a thread at a time from one synchronising instruction to the next.

#include <cstddef>
#include <cstdint>
#include <support/ptx/memory.hpp>
#include <support/ptx/program.hpp>
#include <vector>

namespace hcomp::ptx {

/// Runs all threads of `grid` blocks of `threads` each, one block after the other.
///
/// Ends the program on undefined behaviour of a kernel: an address outside of allocations or not a
/// multiple of its size; a barrier or a shuffle whose threads do not all arrive, arrive at
/// different places or have ended; a mask that names lanes that do not exist; a loop without an
/// end.
///
/// Adds to the report: two unordered accesses to a byte if one is a write and one is not atomic; a
/// byte of global or shared memory that was read and never written.
///
/// Ordered are accesses of one thread; of warps of one block by barriers at which they meet; of one
/// warp by bar.warp.sync of all its lanes, but not by votes and shuffles; of launches, always.
///
/// Not detected: effects of ptxas on PTX, memory orders weaker than program order, races between
/// streams, uninitialised registers and local memory, time.
/// @param parameters  kernel::parameter_bytes bytes
void launch(device_memory& memory, kernel const& code, std::uint32_t grid, std::uint32_t threads,
            std::vector<std::byte> const& parameters, std::size_t dynamic_shared_bytes);

}  // namespace hcomp::ptx
