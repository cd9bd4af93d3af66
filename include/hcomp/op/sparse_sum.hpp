#pragma once
/// @file
/// Sparse all-reduce with the strategy that sends the fewest bytes, chosen once all ranks know the
/// union.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sparse/detail/packing.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse/union.hpp>
#include <hcomp/codec/sparse_strategy.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace hcomp {

/// Chooses the smallest of sparse_union, lhc, and all values in lanes of the same type.
///
///     hcomp::sparse_sum<> sum({.ranks = ranks});
///     hcomp::mpi::all_reduce_native(sum, x, key, lanes, comm);
///     sum.choice().text();
///
/// In two phases a sketch is never the smallest: lhc is chosen only if no other strategy is
/// allowed.
/// @tparam Lane   float, std::uint32_t or std::uint64_t, as for sparse_union
/// @tparam Index  sparse_index, or bloom_index for very sparse vectors
template <class Lane = float, SparseIndex Index = sparse_index> class sparse_sum {
 public:
  using value_type = float;
  using lane_type = Lane;
  static constexpr char const* name = "sparse_sum";
  static constexpr native_operation operation = native_operation::sum;

  /// @throws std::invalid_argument  no strategy is allowed
  explicit sparse_sum(sparse_options const& options = {}, sparse_strategies const& strategies = {},
                      lhc_options const& sketch = {}, Index index = Index{})
      : options_(options), strategies_(strategies), sketch_(options, sketch, std::move(index)) {
    if (!strategies.dense && !strategies.packed && !strategies.sketched)
      throw std::invalid_argument(
          "sparse_sum: no strategy is allowed; enable dense, sparse_union or lhc");
  }

  std::span<std::uint64_t> mark(std::span<float const> x) {
    auto const words = sketch_.mark(x);
    choice_.index_bytes = words.size_bytes();
    return words;
  }
  /// @throws nonfinite_error  according to options.nonfinite; always if only lhc is allowed
  void unite(std::uint64_t key) {
    sketch_.unite_index();
    auto const& index = sketch_.index();
    numbers_ = detail::sparse::agreed_numbers<Lane>(name, index, options_);
    auto allowed = strategies_;
    bool const nothing_else = !strategies_.dense && !strategies_.packed;
    allowed.sketched =
        strategies_.sketched && (nothing_else || detail::lhc::cells_hold<Lane>(index.exponent()));
    choice_ = choose_strategy(
        allowed, {sparse_strategy::dense, index.values(), index.marked(), choice_.index_bytes,
                  index.values() * sizeof(Lane), index.marked() * sizeof(Lane),
                  sketch_.likely_cells() * sizeof(Lane)});
    if (choice_.strategy == sparse_strategy::sketched) {
      sketch_.plan_for(key);
      choice_.sketched_bytes = sketch_.lanes(index.values()) * sizeof(Lane);
    }
  }

  /// A hash of the settings, for ranks to compare.
  std::uint64_t settings() const {
    std::uint64_t all = sizeof(Lane) * 2 + std::is_integral_v<Lane>;
    auto const add = [&](std::uint64_t word) { all = mix(mix(all) + word); };
    add(options_.ranks);
    add(static_cast<std::uint64_t>(options_.op));
    add(static_cast<std::uint64_t>(options_.nonfinite));
    add(strategies_.dense * 4u + strategies_.packed * 2u + strategies_.sketched);
    add(same_bits<std::uint64_t>(strategies_.worthwhile));
    add(same_bits<std::uint64_t>(sketch_.options().cells_per_value));
    add(static_cast<std::uint64_t>(sketch_.options().attempts));
    add(index().settings());
    return all;
  }
  sparse_options const& options() const { return options_; }

  sparse_choice const& choice() const { return choice_; }
  Index const& index() const { return sketch_.index(); }

  std::size_t lanes(std::size_t values) const {
    if (choice_.strategy == sparse_strategy::sketched) return sketch_.lanes(values);
    return choice_.strategy == sparse_strategy::packed ? choice_.marked : choice_.values;
  }

  void encode_lanes(std::span<float const> x, std::span<Lane> out, std::uint64_t key = 0) const {
    if (choice_.strategy == sparse_strategy::sketched) return sketch_.encode_lanes(x, out, key);
    detail::sparse::require_lanes(name, x.size(), choice_.values, out.size(), lanes(x.size()));
    if (choice_.strategy == sparse_strategy::packed)
      return detail::sparse::pack_own(numbers_, index(), out);
    for (std::size_t i = 0; i < x.size(); ++i)
      out[i] = detail::sparse::checked_lane(name, numbers_, x.data(), i);
  }

  void decode_lanes(std::span<Lane const> reduced, std::span<float> x,
                    std::uint64_t key = 0) const {
    if (choice_.strategy == sparse_strategy::sketched) return sketch_.decode_lanes(reduced, x, key);
    detail::sparse::require_lanes(name, x.size(), choice_.values, reduced.size(), lanes(x.size()));
    if (choice_.strategy == sparse_strategy::packed)
      return detail::sparse::unpack_values(numbers_, detail::sparse::marked_by(index()),
                                           reduced.data(), x);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = numbers_.value(reduced[i]);
  }

 private:
  sparse_options options_;
  sparse_strategies strategies_;
  lhc<Lane, Index> sketch_;  // contains the index
  detail::sparse::lane_numbers<Lane> numbers_;
  sparse_choice choice_;
};

static_assert(IndexedNativeSum<sparse_sum<>>);

}  // namespace hcomp
