#pragma once
/// @file
/// Marsit's global compensation for vectors in device memory.

#include <cstddef>
#include <cstdint>
#include <hcomp/feedback/global_compensation.hpp>
#include <hcomp/gpu/detail/device_array.hpp>
#include <hcomp/gpu/detail/saved_kind.hpp>
#include <limits>
#include <span>
#include <vector>

namespace hcomp::gpu {

/// hcomp::global_compensation in the memory of the current device: the same kernels, the same bits,
/// and saved states that either of the two restores.
///
/// Construction, `reset`, `save` and `restore` wait for all work of the device; all else happens
/// with the work of the collective. Movable.
/// Memory: 4 bytes per value (8 for double).
template <class T = float> class global_compensation {
 public:
  using compensation_type = typename hcomp::global_compensation<T>::compensation_type;
  using kernel_view = typename hcomp::global_compensation<T>::kernel_view;
  static constexpr bool is_of_own_encoding = hcomp::global_compensation<T>::is_of_own_encoding;

  /// @throws cuda_error  not so much device memory, or no usable GPU
  explicit global_compensation(std::size_t values) : compensation_(values) {}

  std::size_t values() const { return compensation_.size(); }
  void const* data() const { return compensation_.data(); }
  /// In device memory.
  std::span<compensation_type const> compensation() const {
    return {compensation_.data(), compensation_.size()};
  }
  /// Rounds finished so far; the same on all ranks.
  std::uint64_t rounds() const { return rounds_; }

  void reset() { compensation_.clear(); }

  /// The state as bytes, for a checkpoint of this rank.
  std::vector<std::byte> save() const {
    return hcomp::detail::save_state(detail::saved_kind<hcomp::global_compensation<T>>(), rounds_,
                                     compensation_.to_host());
  }
  /// @throws std::invalid_argument  not a state of this class, type and size; nothing is changed
  void restore(std::span<std::byte const> saved) {
    hcomp::global_compensation<T> state(values());
    state.restore(saved);
    compensation_.from_host(state.compensation());
    rounds_ = state.rounds();
  }

  /// Of a compressed round.
  kernel_view view(T const* x) { return {x, compensation_.data()}; }
  void commit() { ++rounds_; }

  /// Of a full-precision round, as hcomp::global_compensation::flushing.
  class flushing {
    using on_host = typename hcomp::global_compensation<T>::flushing;

   public:
    using kernel_view = typename on_host::kernel_view;
    static constexpr bool is_of_own_encoding = on_host::is_of_own_encoding;

    /// @param limit  > 0; infinity: no limit
    flushing(global_compensation& state, compensation_type limit) : state_(&state), limit_(limit) {}

    std::size_t values() const { return state_->values(); }
    void const* data() const { return state_->data(); }
    kernel_view view(T const* x) { return {x, state_->compensation_.data(), limit_}; }
    void commit() { state_->commit(); }

   private:
    global_compensation* state_;
    compensation_type limit_;
  };
  flushing flushed(compensation_type limit = std::numeric_limits<compensation_type>::infinity()) {
    return {*this, limit};
  }

 private:
  detail::device_array<compensation_type> compensation_;
  std::uint64_t rounds_ = 0;
};

}  // namespace hcomp::gpu
