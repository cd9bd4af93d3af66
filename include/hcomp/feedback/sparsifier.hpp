#pragma once
/// @file
/// Sparsification with error feedback: sends the largest values now and the rest in later steps.

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

/// Selects this number of values, the largest by magnitude.
struct top_k {
  std::size_t values;
};
/// Selects a share of the values, from 0 to 1: rounded, and at least one unless the share is 0.
struct top_share {
  double share;
};
/// Selects all values of at least this magnitude.
struct threshold {
  float magnitude;
};
using sparsity = std::variant<top_k, top_share, threshold>;

/// Keeps the largest values of x + residual in x, sets all other values to 0, and adds these to the
/// next residual. Turns the gradients of a dense model into input for sparse all-reduce. Local to
/// each rank:
///
///     hcomp::sparsifier largest(x.size(), hcomp::top_share{0.01});
///     largest(x);
///     hcomp::mpi::all_reduce_sparse(sum, x, key, lanes, comm);
///     largest.commit();  // not reached if the all-reduce throws: the residual is unchanged
///
/// The kept values plus the new residual equal x plus the previous residual, bit for bit. Among
/// equal magnitudes the first are kept, so the selection does not depend on compiler and machine.
/// Keeping k of n values leaves at most a share of 1 - k / n of the energy in the residual.
///
/// NaN and infinity are always kept, even beyond k: the all-reduce reports them to all ranks, and
/// they never enter a residual.
///
/// Memory: 8 bytes per value: the residual and the pending residual.
/// Cost: five passes over the values, independent of the data. Allocates only in the constructor.
/// Source: Aji and Heafield, EMNLP 2017; bound: Stich et al., Sparsified SGD, NeurIPS 2018.
class sparsifier {
 public:
  /// @throws std::invalid_argument  more values than the vector has, an invalid share or magnitude
  sparsifier(std::size_t values, sparsity const& kept)
      : residual_(values), pending_(values), select_(selection(values, kept)) {}

  std::size_t values() const { return residual_.size(); }
  std::span<float const> residual() const { return residual_; }

  /// Sets values that are not selected to 0. Returns the number of kept values.
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

  /// Makes the residual of the last call the one that the next call adds.
  void commit() {
    if (std::exchange(is_pending_, false)) residual_.swap(pending_);
  }

  /// Clears the residual.
  void reset() {
    residual_.assign(residual_.size(), 0.0f);
    is_pending_ = false;
  }

  /// Serialises the residual, for a checkpoint of this rank.
  std::vector<std::byte> save() const { return detail::save_state(kind, 0, residual_); }
  /// @throws std::invalid_argument  state of another class or size; nothing is changed
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
