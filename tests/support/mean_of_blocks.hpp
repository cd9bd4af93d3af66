#pragma once
/// @file
/// The mean that a calibrated codec gives for the vectors of some ranks, without communication.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>
#include <vector>

namespace hcomp::testing {

/// Measures and encodes every rank's blocks, merges them one after the other, and decodes them as a
/// mean.
/// @param codec  fitted to this number of ranks
template <Calibrated C>
std::vector<typename C::value_type> mean_of_blocks(
    C const& codec, std::vector<std::vector<typename C::value_type>> const& x,
    draw_key const& key) {
  std::size_t const values = x.front().size();
  std::vector<typename C::value_type> mean(values);
  for (std::size_t first = 0; first < values; first += C::block_values) {
    int const n = static_cast<int>(std::min<std::size_t>(values - first, C::block_values));
    std::vector<std::uint32_t> norms(codec.statistics_in(n)), one(norms.size());
    for (auto const& mine : x) {
      codec.measure_block(serial_group{}, mine.data() + first, n, one.data());
      for (std::size_t i = 0; i < one.size(); ++i) norms[i] = std::max(norms[i], one[i]);
    }
    std::vector<std::byte> sum(codec.block_bytes(n)), in(sum.size());
    for (std::size_t rank = 0; rank < x.size(); ++rank) {
      codec.encode_block(serial_group{}, x[rank].data() + first, n, (rank == 0 ? sum : in).data(),
                         {philox_key(key), static_cast<std::uint32_t>(rank), 1,
                          static_cast<std::uint32_t>(first / C::block_values), norms.data()});
      if (rank > 0) codec.merge_block(serial_group{}, sum.data(), in.data());
    }
    codec.decode_block(serial_group{}, sum.data(), n, mean.data() + first, reduce_op::mean);
  }
  return mean;
}

}  // namespace hcomp::testing
