#pragma once
/// @file
/// All-reduce of codecs with lanes through MPI's built-in reductions: no user-defined op, so
/// network cards and switches can offload it.

#include <mpi.h>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/mpi/call.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hcomp::mpi {

/// The MPI datatype of a lane.
template <class Lane> MPI_Datatype lane_type() {
  static_assert(std::is_same_v<Lane, float> || std::is_same_v<Lane, std::uint64_t> ||
                    std::is_same_v<Lane, std::uint32_t> || std::is_same_v<Lane, std::uint16_t> ||
                    std::is_same_v<Lane, std::uint8_t>,
                "lanes are float, or unsigned integers of 8 to 64 bits");
  if constexpr (std::is_same_v<Lane, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<Lane, std::uint64_t>) return MPI_UINT64_T;
  if constexpr (std::is_same_v<Lane, std::uint32_t>) return MPI_UINT32_T;
  if constexpr (std::is_same_v<Lane, std::uint16_t>) return MPI_UINT16_T;
  return MPI_UINT8_T;
}

inline MPI_Op handle_of(native_operation operation) {
  return operation == native_operation::bit_or ? MPI_BOR : MPI_SUM;
}

/// All-reduce of `x`, in place, by MPI_Allreduce on lanes.
/// @param key    equal on all ranks; use group_of(comm) as its group if other communicators reduce,
///               too
/// @param lanes  scratch, owned by the caller; grows once to codec.lanes(x.size())
/// @throws std::invalid_argument  more lanes than an int can count; also as the codec
/// @throws transport_error        `comm` returns errors and MPI reports one
template <NativeSum C>
void all_reduce_native(C const& codec, std::span<typename C::value_type> x, draw_key const& key,
                       std::vector<typename C::lane_type>& lanes, MPI_Comm comm) {
  lanes.resize(codec.lanes(x.size()));
  if (lanes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw std::invalid_argument("all_reduce_native: " + std::to_string(lanes.size()) +
                                " lanes, MPI counts at most " +
                                std::to_string(std::numeric_limits<int>::max()));
  std::uint64_t const philox = philox_key(key);
  codec.encode_lanes(x, lanes, philox);
  require(MPI_Allreduce(MPI_IN_PLACE, lanes.data(), static_cast<int>(lanes.size()),
                        lane_type<typename C::lane_type>(), handle_of(C::operation), comm),
          "MPI_Allreduce");
  codec.decode_lanes(lanes, x, philox);
}

/// The same for a codec whose ranks first agree on units: one additional small MPI_Allreduce.
/// @throws nonfinite_error  NaN or infinity on some rank; on all ranks, and x is unchanged
template <CalibratedNativeSum C>
void all_reduce_native(C& codec, std::span<typename C::value_type> x, draw_key const& key,
                       std::vector<typename C::lane_type>& lanes, MPI_Comm comm) {
  auto words = codec.measure(x);
  require(MPI_Allreduce(MPI_IN_PLACE, words.data(), static_cast<int>(words.size()), MPI_UINT32_T,
                        MPI_MAX, comm),
          "MPI_Allreduce of the statistics");
  codec.calibrate(words);
  all_reduce_native(std::as_const(codec), x, key, lanes, comm);
}

/// The same for a codec whose ranks first agree on the nonzero values: MPI_BOR of one bit per
/// value, then the lanes of the marked values.
/// @throws nonfinite_error  NaN or infinity on some rank; on all ranks, and x is unchanged
template <IndexedNativeSum C>
void all_reduce_native(C& codec, std::span<typename C::value_type> x, draw_key const& key,
                       std::vector<typename C::lane_type>& lanes, MPI_Comm comm) {
  auto const words = codec.mark(x);
  require(MPI_Allreduce(MPI_IN_PLACE, words.data(), static_cast<int>(words.size()), MPI_UINT64_T,
                        MPI_BOR, comm),
          "MPI_Allreduce of the index");
  codec.unite(philox_key(key));
  all_reduce_native(std::as_const(codec), x, key, lanes, comm);
}

}  // namespace hcomp::mpi
