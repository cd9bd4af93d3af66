#pragma once
/// @file
/// Codes of lanes through MPI's built-in reductions: no user op, so offload to network cards and
/// switches stays possible.

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

/// Reduce `x` over all ranks, in place, by plain MPI_Allreduce on lanes.
/// @param key    equal on all ranks; its group is group_of(comm) where other ranks of the job sum, too
/// @param lanes  scratch; grows to codec.lanes(x.size()) once and is kept by the caller
/// @throws std::invalid_argument  more lanes than an int can count, or as the codec
/// @throws transport_error        if `comm` returns errors and MPI reports one
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

/// The same with a codec whose ranks agree on units first: one more, small MPI_Allreduce.
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

/// The same with a codec whose ranks first agree on which values are not zero: MPI_BOR of a bit per
/// value, then the lanes of the values that are left.
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
