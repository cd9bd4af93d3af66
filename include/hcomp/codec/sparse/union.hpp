#pragma once
/// @file
/// Codec `sparse_union`: sparse all-reduce by packing. Once all ranks know the values that are not
/// zero on some rank, these values are sent contiguously.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sparse/detail/packing.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <span>
#include <utility>

namespace hcomp {

/// One lane per value of the union; zeros are not sent. Two phases, each a built-in reduction:
///
///     hcomp::sparse_union<> sum({.ranks = ranks});
///     hcomp::mpi::all_reduce_native(sum, x, key, lanes, comm);  // MPI_BOR, then MPI_SUM
///
/// A float has the bits that a plain sum along the same tree gives it.
///
/// With std::uint32_t or std::uint64_t, values are rounded to multiples of a unit that the largest
/// value of all ranks and the number of ranks P determine. The error of a sum is at most P^2 2^-30
/// of that value, or P^2 2^-62. The sum of the rounded values is exact, with the same bits in any
/// order of the ranks. Another number of ranks has another unit, and may give other bits.
/// @tparam Lane   float, std::uint32_t or std::uint64_t
/// @tparam Index  sparse_index, or bloom_index for very sparse vectors
/// Size: the index (1 bit per value), and one lane per marked value.
template <class Lane = float, SparseIndex Index = sparse_index> class sparse_union {
 public:
  using value_type = float;
  using lane_type = Lane;
  static constexpr char const* name = "sparse_union";
  static constexpr native_operation operation = native_operation::sum;

  explicit sparse_union(sparse_options const& options = {}, Index index = Index{})
      : options_(options), index_(std::move(index)) {}

  /// As the index's mark.
  std::span<std::uint64_t> mark(std::span<float const> x) { return index_.mark(x); }
  /// @throws nonfinite_error  some rank has NaN or infinity: all ranks throw
  /// @throws wire_error       not a union of indices
  void unite(std::uint64_t /*key*/ = 0) {
    index_.unite();
    numbers_ = detail::sparse::agreed_numbers<Lane>(name, index_, options_);
  }

  Index const& index() const { return index_; }

  /// Number of lanes: one per value of the united index.
  std::size_t lanes(std::size_t /*values*/) const { return index_.marked(); }

  /// @param x  the vector that was marked; not read again, because the index keeps its nonzero
  ///           values
  void encode_lanes(std::span<float const> x, std::span<Lane> out,
                    std::uint64_t /*key*/ = 0) const {
    detail::sparse::require_lanes(name, x.size(), index_.values(), out.size(), lanes(x.size()));
    detail::sparse::pack_own(numbers_, index_, out);
  }

  void decode_lanes(std::span<Lane const> reduced, std::span<float> x,
                    std::uint64_t /*key*/ = 0) const {
    detail::sparse::require_lanes(name, x.size(), index_.values(), reduced.size(), lanes(x.size()));
    detail::sparse::unpack_values(numbers_, detail::sparse::marked_by(index_), reduced.data(), x);
  }

 private:
  sparse_options options_;
  Index index_;
  detail::sparse::lane_numbers<Lane> numbers_;
};

static_assert(IndexedNativeSum<sparse_union<>>);

}  // namespace hcomp
