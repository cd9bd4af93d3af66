#pragma once
/// @file
/// Sparsification with error feedback: the largest values now, all others later.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/feedback/detail/saved_state.hpp>
#include <hcomp/feedback/detail/value_selection.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hcomp {

/// What a sparsifier keeps: so many values, the largest by magnitude.
struct top_k {
  std::size_t values;
};
/// The same by share: from 0 to 1; rounded to whole values, at least one unless it is 0.
struct top_share {
  double share;
};
/// All values of at least this magnitude.
struct threshold {
  float magnitude;
};
using sparsity = std::variant<top_k, top_share, threshold>;

/// x + residual becomes 0 but for its largest values; the others are the next residual. Makes of a
/// dense model's gradients what sums of sparse vectors are good for. On every rank for itself:
///
///     hcomp::sparsifier largest(x.size(), hcomp::top_share{0.01});
///     largest(x);
///     hcomp::mpi::all_reduce_sparse(sum, x, key, lanes, comm);
///     largest.commit();  // not reached if the sum throws: the residual is as it was
///
/// What is kept and the residual add up to x and the residual before, bit for bit. Of equal
/// magnitudes the first are kept, so the same values with every compiler and machine. What k of n
/// values leave has at most a share of 1 - k / n of the energy that was there.
/// NaN and infinity are always kept, beyond k if need be: the sum tells all ranks of them, and they
/// get into no residual.
/// Memory: 8 bytes per value: the residual and the one that takes its place.
/// Cost: five passes over the values, whatever these are. Allocates nothing after construction.
/// Source: Aji and Heafield, EMNLP 2017; bound: Stich et al., Sparsified SGD, NeurIPS 2018.
class sparsifier {
 public:
  /// @throws std::invalid_argument  more values than there are, no share, no positive magnitude
  sparsifier(std::size_t values, sparsity const& kept)
      : residual_(values), pending_(values), select_(selection(values, kept)) {}

  std::size_t values() const { return residual_.size(); }
  std::span<float const> residual() const { return residual_; }

  /// Sets to 0 what is not kept of `x` and the residual together. How many values are kept.
  /// @throws std::invalid_argument  x has another size; nothing is changed
  std::size_t operator()(std::span<float> x) {
    if (x.size() != values())
      throw std::invalid_argument(
          detail::error_text({"sparsifier: ", x.size(), " values, it is for ", values()}));
    for (std::size_t i = 0; i < x.size(); ++i) pending_[i] = x[i] + residual_[i];
    std::size_t const kept = select_(pending_, x);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x[i] != 0) pending_[i] = 0;
    is_pending_ = true;
    return kept;
  }

  /// What the last call left is added to the next x.
  void commit() {
    if (std::exchange(is_pending_, false)) residual_.swap(pending_);
  }

  /// Forget everything left so far.
  void reset() {
    residual_.assign(residual_.size(), 0.0f);
    is_pending_ = false;
  }

  /// The residual as bytes, for a checkpoint of this rank.
  std::vector<std::byte> save() const { return detail::save_state(kind, 0, residual_); }
  /// @throws std::invalid_argument  not a state of this class and size; nothing is changed
  void restore(std::span<std::byte const> saved) {
    detail::restore_state("sparsifier", kind, saved, residual_);
    is_pending_ = false;
  }

 private:
  static constexpr std::uint16_t kind = 3;
  static detail::value_selection selection(std::size_t values, sparsity const& kept) {
    if (auto const* least = std::get_if<threshold>(&kept)) {
      if (!(least->magnitude > 0 && is_finite(least->magnitude)))
        throw std::invalid_argument(
            detail::error_text({"sparsifier: a threshold of ", least->magnitude,
                                "; it has to be finite and above 0"}));
      return detail::value_selection::of_magnitude(least->magnitude);
    }
    if (auto const* k = std::get_if<top_k>(&kept)) {
      if (k->values > values)
        throw std::invalid_argument(detail::error_text(
            {"sparsifier: the largest ", k->values, " values of ", values, " cannot be kept"}));
      return detail::value_selection::of_largest(k->values);
    }
    double const share = std::get<top_share>(kept).share;
    if (!(share >= 0 && share <= 1))
      throw std::invalid_argument(
          detail::error_text({"sparsifier: ", share, " is no share from 0 to 1"}));
    return detail::value_selection::of_share(share, values);
  }

  std::vector<float> residual_, pending_;
  detail::value_selection select_;
  bool is_pending_ = false;
};

}  // namespace hcomp
