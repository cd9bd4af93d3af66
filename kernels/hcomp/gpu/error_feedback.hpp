#pragma once
/// @file
/// Error feedback for vectors in device memory.

#include <cstddef>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/gpu/detail/device_array.hpp>
#include <hcomp/gpu/detail/saved_kind.hpp>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::gpu {

/// hcomp::error_feedback with its residual in the memory of the current device: the same kernels,
/// the same bits, and saved states that either of the two restores.
///
/// Construction, `reset`, `save` and `restore` wait for all work of the device; all else happens
/// with the work of the collective. The two arrays change places in `commit`, so a CUDA graph must
/// not repeat a whole step. Movable.
/// Memory: 8 bytes per value (16 for double).
template <class T = float> class error_feedback {
 public:
  using residual_type = typename hcomp::error_feedback<T>::residual_type;
  using kernel_view = typename hcomp::error_feedback<T>::kernel_view;
  static constexpr bool is_of_own_encoding = hcomp::error_feedback<T>::is_of_own_encoding;

  /// @throws cuda_error  not so much device memory, or no usable GPU
  explicit error_feedback(std::size_t values) : residual_(values), pending_(values) {}

  std::size_t values() const { return residual_.size(); }
  void const* data() const { return residual_.data(); }
  /// In device memory.
  std::span<residual_type const> residual() const { return {residual_.data(), residual_.size()}; }

  /// Forget everything lost so far.
  void reset() { residual_.clear(); }

  /// The state as bytes, for a checkpoint of this rank.
  std::vector<std::byte> save() const {
    return hcomp::detail::save_state(detail::saved_kind<hcomp::error_feedback<T>>(), 0,
                                     residual_.to_host());
  }
  /// @throws std::invalid_argument  not a state of this class, type and size; nothing is changed
  void restore(std::span<std::byte const> saved) {
    hcomp::error_feedback<T> state(values());
    state.restore(saved);
    residual_.from_host(state.residual());
  }

  kernel_view view(T const* x) { return {x, residual_.data(), pending_.data()}; }
  void commit() { std::swap(residual_, pending_); }

 private:
  detail::device_array<residual_type> residual_;
  detail::device_array<residual_type> pending_;
};

}  // namespace hcomp::gpu
