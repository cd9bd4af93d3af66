#pragma once
/// @file
/// Error feedback: what a rank's own encoding lost is added to its next vector.

#include <cstddef>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/feedback/detail/host_array.hpp>
#include <hcomp/feedback/detail/saved_state.hpp>
#include <span>
#include <utility>
#include <vector>

namespace hcomp {

/// residual' = (x + residual) - decode(encode(x + residual)), on every rank for itself.
///
/// Sums of inputs and of what was sent differ by one residual, however many steps were made.
/// Memory: 8 bytes per value (16 for double): the residual and the one that takes its place when
/// the collective succeeds.
/// Source: Seide et al., 1-bit SGD, Interspeech 2014; Karimireddy et al., ICML 2019.
/// @tparam Array  in which memory the state is: detail::host_array, or the device's
template <class T = float, template <class> class Array = detail::host_array> class error_feedback {
 public:
  using residual_type = accumulator_t<T>;
  static constexpr bool is_of_own_encoding = true;

  explicit error_feedback(std::size_t values) : residual_(values), pending_(values) {}

  std::size_t values() const { return residual_.size(); }
  void const* data() const { return residual_.data(); }
  /// In the memory of the state.
  std::span<residual_type const> residual() const { return {residual_.data(), residual_.size()}; }

  /// Forget everything lost so far.
  void reset() { residual_.clear(); }

  /// The state as bytes, for a checkpoint of this rank.
  std::vector<std::byte> save() const { return detail::save_state(kind, 0, residual_.to_host()); }
  /// @throws std::invalid_argument  not a state of this class, type and size; nothing is changed
  void restore(std::span<std::byte const> saved) {
    std::vector<residual_type> values(residual_.size());
    detail::restore_state("error_feedback", kind, saved, values);
    residual_.from_host(std::move(values));
  }

  struct kernel_view {
    T const* x;
    residual_type const* residual;
    residual_type* pending;

    HCOMP_HD compensated<T> source() const { return {x, residual}; }

    template <class Group, class Decode>
    HCOMP_HD void encoded(Group group, std::size_t first, int n, Decode const& decode) const {
      residual_type* const out = pending + first;
      decode(out);
      for (int i = group.worker(); i < n; i += Group::workers)
        out[i] = (static_cast<residual_type>(x[first + i]) + residual[first + i]) - out[i];
    }
    template <class Group, class Decode>
    HCOMP_HD void decoded(Group, std::size_t, int, T*, Decode const& decode) const {
      decode();
    }
  };
  kernel_view view(T const* x) { return {x, residual_.data(), pending_.data()}; }
  void commit() { std::swap(residual_, pending_); }

 private:
  static constexpr std::uint16_t kind = 1;
  Array<residual_type> residual_;
  Array<residual_type> pending_;
};

}  // namespace hcomp
