#pragma once
/// @file
/// Codec `lhc`: lossless sparse all-reduce with sketches, which any adder can sum.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sparse/detail/lhc_plan.hpp>
#include <hcomp/codec/sparse/detail/lhc_sketch.hpp>
#include <hcomp/codec/sparse/detail/packing.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hcomp {

/// Settings of `lhc`; equal on all ranks.
struct lhc_options {
  /// Size of the sketch. Below 1.2218, half of the values cannot be read from it and are sent
  /// separately. 0: 1.3, or 1.4 for fewer than 2000 values, where random variation matters.
  double cells_per_value = 0;
  int attempts = 12;  ///< maximum number of sketches tried until one is readable
};

namespace detail {

/// @throws std::invalid_argument  fewer cells than values, or no attempt
inline void require_possible(lhc_options const& sketch) {
  bool const by_itself = sketch.cells_per_value == 0;
  if (!(by_itself || (sketch.cells_per_value >= 1 && sketch.cells_per_value <= 100)) ||
      sketch.attempts < 1 || sketch.attempts > 50)
    throw std::invalid_argument(
        error_text({"lhc: ", sketch.cells_per_value, " cells per value and ", sketch.attempts,
                    " attempts; there can be 1 to 100 (0: default) and 1 to 50"}));
}

}  // namespace detail

/// A sketch of the values that are not zero on some rank. Each value is added to three cells. It is
/// read back from a cell that holds no other value, or no other value that was not read before.
///
/// Two phases as for sparse_union, the index and then the lanes:
///
///     hcomp::lhc<std::uint32_t> sum({.ranks = ranks});
///     hcomp::mpi::all_reduce_native(sum, x, key, lanes, comm);  // MPI_BOR, then MPI_SUM
///
/// The index alone determines which values are readable. All ranks compute this before encoding,
/// and try other hashes if necessary. Unreadable values are sent separately: **nothing is ever
/// lost**. All ranks reach the same result.
///
/// In fixed point the sum is exact, with the same bits in any order; cells that the index does not
/// explain are an error. Floats are not exact: rounding between values that share cells adds up to
/// about 6e-7 of the vector's norm with 1.3 cells per value, 1.2e-7 with 2. If a float is 2^70
/// (1.2e21) or more, all values are sent separately: cells could overflow where the sum does not.
///
/// In two phases sparse_union is smaller, because it needs only one lane per value. Use sketches
/// where an adder needs lanes at fixed positions. With a bloom_index, a value that it marks by
/// mistake decodes to 0 in fixed point. With floats, the rounding error of values in the same cells
/// may remain there.
/// @tparam Lane   float, std::uint32_t or std::uint64_t
/// @tparam Index  sparse_index, or bloom_index for very sparse vectors
/// Size: the index (1 bit per value), and 1.3 to 1.4 lanes per marked value.
/// Source: Li et al., arXiv 2402.07529.
template <class Lane = float, SparseIndex Index = sparse_index> class lhc {
 public:
  using value_type = float;
  using lane_type = Lane;
  static constexpr char const* name = "lhc";
  static constexpr native_operation operation = native_operation::sum;

  /// @throws std::invalid_argument  fewer cells than values, or no attempt
  explicit lhc(sparse_options const& options = {}, lhc_options const& sketch = {},
               Index index = Index{})
      : options_(options), sketch_(sketch), index_(std::move(index)) {
    detail::require_possible(sketch);
  }

  /// As the index's mark.
  std::span<std::uint64_t> mark(std::span<float const> x) { return index_.mark(x); }
  /// @param key  philox_key(draw_key): seeds the hashes
  /// @throws nonfinite_error  some rank has NaN or infinity: all ranks throw, for every policy
  /// @throws wire_error       not a union of indices
  void unite(std::uint64_t key) {
    unite_index();
    plan_for(key);
  }
  /// The two halves of unite, for callers that decide between them whether to use a sketch.
  void unite_index() { index_.unite(); }
  void plan_for(std::uint64_t key) {
    auto finite_only = options_;
    finite_only.nonfinite = nonfinite_policy::throw_error;  // NaN and infinity would spread in the
                                                            // sketch
    numbers_ = detail::sparse::agreed_numbers<Lane>(name, index_, finite_only);
    if (!detail::lhc::cells_hold<Lane>(index_.exponent())) return plan_.take(index_, {0, 0});
    plan_.make(index_,
               detail::lhc::sketch_plan::cells_per_value(index_.marked(), sketch_.cells_per_value),
               sketch_.attempts, key);
  }
  /// Cells of the first sketch that plan_for will try.
  std::size_t likely_cells() const {
    return detail::lhc::sketch_plan::likely_cells(index_.marked(), sketch_.cells_per_value);
  }

  lhc_options const& options() const { return sketch_; }
  Index const& index() const { return index_; }
  std::size_t cells() const { return plan_.cells().size(); }
  /// Number of values sent separately from the sketch.
  std::size_t beside() const { return plan_.left_count(); }
  /// Number of sketches tried, and rounds in which the chosen one is read.
  int attempts() const { return plan_.attempts(); }
  std::size_t rounds() const { return plan_.rounds(); }

  /// Number of lanes for the united index.
  std::size_t lanes(std::size_t /*values*/) const { return cells() + beside(); }

  /// @param x  the vector that was marked
  void encode_lanes(std::span<float const> x, std::span<Lane> out,
                    std::uint64_t /*key*/ = 0) const {
    detail::sparse::require_lanes(name, x.size(), index_.values(), out.size(), lanes(x.size()));
    auto const marks = plan_.sketched(index_);
    if (cells() > 0)
      detail::lhc::sketch_marked(simd_group{}, plan_.cells(), marks.data(), marks.size(),
                                 out.data(), [&](std::uint32_t value) {
                                   return detail::sparse::checked_lane(name, numbers_, x.data(),
                                                                       value);
                                 });
    detail::sparse::pack_values(name, numbers_, plan_.left(), x.data(), out.data() + cells());
  }

  /// @throws wire_error  fixed point: cells hold more than the index explains; x is unchanged
  void decode_lanes(std::span<Lane const> reduced, std::span<float> x,
                    std::uint64_t /*key*/ = 0) const {
    detail::sparse::require_lanes(name, x.size(), index_.values(), reduced.size(), lanes(x.size()));
    std::vector<Lane> sketch(reduced.begin(),
                             reduced.begin() + static_cast<std::ptrdiff_t>(cells()));
    auto const sums = plan_.read(std::span(sketch));
    if constexpr (std::is_integral_v<Lane>) detail::lhc::require_empty<Lane>(name, sketch);
    plan_.write<decltype(numbers_), Lane>(numbers_, sums, reduced.subspan(cells()), x);
  }

 private:
  sparse_options options_;
  lhc_options sketch_;
  Index index_;
  detail::sparse::lane_numbers<Lane> numbers_;
  detail::lhc::sketch_plan plan_;
};

static_assert(IndexedNativeSum<lhc<>>);

}  // namespace hcomp
