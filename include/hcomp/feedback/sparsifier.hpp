#pragma once
/// @file
/// Sparsification with error feedback: the largest values now, all others later.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/feedback/detail/saved_state.hpp>
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
      : residual_(values), pending_(values), counts_(1u << digits.front().bits) {
    if (auto const* k = std::get_if<top_k>(&kept)) {
      if (k->values > values)
        throw std::invalid_argument(detail::error_text(
            {"sparsifier: the largest ", k->values, " values of ", values, " cannot be kept"}));
      k_ = k->values;
    } else if (auto const* share = std::get_if<top_share>(&kept)) {
      if (!(share->share >= 0 && share->share <= 1))
        throw std::invalid_argument(
            detail::error_text({"sparsifier: ", share->share, " is no share from 0 to 1"}));
      auto const exact = share->share * static_cast<double>(values);
      k_ = std::min(values, static_cast<std::size_t>(std::llround(exact)));
      if (k_ == 0 && exact > 0) k_ = 1;
    } else {
      float const magnitude = std::get<threshold>(kept).magnitude;
      if (!(magnitude > 0 && is_finite(magnitude)))
        throw std::invalid_argument(detail::error_text(
            {"sparsifier: a threshold of ", magnitude, "; it has to be finite and above 0"}));
      limit_ = magnitude_bits(magnitude);
    }
  }

  std::size_t values() const { return residual_.size(); }
  std::span<float const> residual() const { return residual_; }

  /// Sets to 0 what is not kept of `x` and the residual together. How many values are kept.
  /// @throws std::invalid_argument  x has another size; nothing is changed
  std::size_t operator()(std::span<float> x) {
    if (x.size() != values())
      throw std::invalid_argument(
          detail::error_text({"sparsifier: ", x.size(), " values, it is for ", values()}));
    for (std::size_t i = 0; i < x.size(); ++i) pending_[i] = x[i] + residual_[i];
    auto const border = limit_ > 0 ? cut{limit_, x.size()} : find_cut();
    std::size_t kept = 0, ties = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto const size = magnitude_bits(pending_[i]);
      bool const keep = size > border.magnitude || (size == border.magnitude && ties < border.ties);
      ties += keep && size == border.magnitude;
      kept += keep;
      x[i] = keep ? pending_[i] : 0.0f;
      if (keep) pending_[i] = 0;
    }
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
  static constexpr std::uint32_t infinity = 0x7f800000;

  /// Larger for larger magnitudes, NaN above infinity.
  static std::uint32_t magnitude_bits(float x) { return same_bits<std::uint32_t>(x) & 0x7fffffffu; }

  /// Kept are larger magnitudes, and the first `ties` of this one.
  struct cut {
    std::uint32_t magnitude;
    std::size_t ties;
  };

  /// The digits of a magnitude: exponent and three bits, then the rest in two.
  struct digit {
    int shift, bits;
  };
  static constexpr std::array<digit, 3> digits{{{20, 11}, {10, 10}, {0, 10}}};

  /// Where the k largest end: digit by digit, the one that values before it do not fill k with.
  cut find_cut() {
    std::uint32_t prefix = 0;
    std::size_t wanted = k_;
    for (auto const& d : digits) {
      std::fill(counts_.begin(), counts_.end(), std::size_t{0});
      std::uint32_t const mask = (1u << d.bits) - 1;
      for (float const value : pending_) {
        auto const size = magnitude_bits(value);
        if (std::uint64_t{size ^ prefix} >> (d.shift + d.bits) == 0)
          ++counts_[size >> d.shift & mask];
      }
      if (d.shift == digits.front().shift) {
        std::size_t nonfinite = 0;
        for (std::uint32_t i = infinity >> d.shift; i <= mask; ++i) nonfinite += counts_[i];
        if (wanted <= nonfinite) return {infinity, values()};
      }
      std::uint32_t found = mask;
      while (counts_[found] < wanted) wanted -= counts_[found--];
      prefix |= found << d.shift;
    }
    return {prefix, wanted};
  }

  std::vector<float> residual_, pending_;
  std::vector<std::size_t> counts_;
  std::size_t k_ = 0;
  std::uint32_t limit_ = 0;  ///< least magnitude that is kept; 0: k_ decides
  bool is_pending_ = false;
};

}  // namespace hcomp
