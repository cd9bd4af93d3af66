#pragma once
/// @file
/// Global compensation of Marsit: the difference between a rank's intended update and the common
/// result.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/feedback/detail/host_array.hpp>
#include <hcomp/feedback/detail/pairs.hpp>
#include <hcomp/feedback/detail/saved_state.hpp>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace hcomp {

/// c' = (x + c) - g, where g is the common result of all ranks for their x + c.
///
/// This is not a compression error: it is the residual against the common result, not against this
/// rank's own message. The mean of c over the ranks is the lag behind the exact sum. Differences
/// between ranks grow until a full-precision round sets c to zero (`flushed`).
/// Memory: 4 bytes per value (8 for double).
/// Source: Wu et al., Marsit, DAC 2022, Algorithm 2.
/// @tparam Array  memory space of the state: detail::host_array, or a device's array
template <class T = float, template <class> class Array = detail::host_array>
class global_compensation {
 public:
  using compensation_type = accumulator_t<T>;
  static constexpr bool is_of_own_encoding = false;

  explicit global_compensation(std::size_t values) : compensation_(values) {}

  std::size_t values() const { return compensation_.size(); }
  void const* data() const { return compensation_.data(); }
  /// The compensation, in the memory space of the state.
  std::span<compensation_type const> compensation() const {
    return {compensation_.data(), compensation_.size()};
  }
  /// A copy in host memory. Waits for all work of a device.
  decltype(auto) on_host() const { return compensation_.to_host(); }
  /// Number of completed rounds; equal on all ranks.
  std::uint64_t rounds() const { return rounds_; }

  void reset() { compensation_.clear(); }

  /// Serialises the state, for a checkpoint. It differs per rank: save it on all ranks, or run a
  /// full-precision round first, after which every rank's compensation is zero.
  std::vector<std::byte> save() const {
    return detail::save_state(kind, rounds_, compensation_.to_host());
  }
  /// @throws std::invalid_argument  state of another class, type or size; the object is unchanged
  void restore(std::span<std::byte const> saved) {
    std::vector<compensation_type> values(compensation_.size());
    auto const rounds = detail::restore_state("global_compensation", kind, saved, values);
    compensation_.from_host(std::move(values));
    rounds_ = rounds;
  }

  /// The view in a compressed round.
  struct kernel_view {
    T const* x;
    compensation_type* c;

    HCOMP_HD compensated<T> source() const { return {x, c}; }

    template <class Group, class Decode>
    HCOMP_HD void encoded(Group, std::size_t, int, Decode const&) const {}
    template <class Group, class Decode>
    HCOMP_HD void decoded(Group group, std::size_t first, int n, T* out,
                          Decode const& decode) const {
      compensation_type* const own = c + first;
      using number = compensation_type;
      detail::for_pairs(group, own, out, n, [](number& c, T x) { c += static_cast<number>(x); });
      group.sync();
      decode();
      detail::for_pairs(group, own, out, n, [](number& c, T g) { c -= static_cast<number>(g); });
    }
    /// x + c of value i on this rank.
    HCOMP_HD compensation_type look(std::size_t i, T const& x) const {
      return c[i] + static_cast<compensation_type>(x);
    }
    HCOMP_HD void replace(std::size_t i, T& x, T value, compensation_type wanted) const {
      c[i] = wanted - static_cast<compensation_type>(value);
      x = value;
    }
  };
  kernel_view view(T const* x) { return {x, compensation_.data()}; }
  void commit() { ++rounds_; }
  /// The same: decoding has changed the state, unless the call failed. Counts failed calls, too.
  template <class E> void commit(E&, std::uint64_t const*) { commit(); }

  /// The same state in a full-precision round: g is the exact mean of x + c, and c becomes zero.
  /// With a limit, g is clipped to +-limit, and c, now equal on all ranks, stores the remainder.
  class flushing {
   public:
    static constexpr bool is_of_own_encoding = false;

    /// @param limit  > 0; infinity: no limit
    flushing(global_compensation& state, compensation_type limit) : state_(&state), limit_(limit) {}

    std::size_t values() const { return state_->values(); }
    void const* data() const { return state_->data(); }

    struct kernel_view {
      T const* x;
      compensation_type* c;
      compensation_type limit;

      HCOMP_HD compensated<T> source() const { return {x, c}; }

      template <class Group, class Decode>
      HCOMP_HD void encoded(Group, std::size_t, int, Decode const&) const {}
      template <class Group, class Decode>
      HCOMP_HD void decoded(Group group, std::size_t first, int n, T* out,
                            Decode const& decode) const {
        decode();
        for (int i = group.worker(); i < n; i += Group::workers) {
          auto const mean = static_cast<compensation_type>(out[i]);
          auto const clipped = mean > limit ? limit : mean < -limit ? -limit : mean;
          if (clipped != mean) out[i] = static_cast<T>(clipped);
          c[first + i] = clipped == mean ? 0 : mean - static_cast<compensation_type>(out[i]);
        }
      }
    };
    kernel_view view(T const* x) { return {x, state_->compensation_.data(), limit_}; }
    void commit() { state_->commit(); }
    template <class E> void commit(E&, std::uint64_t const*) { commit(); }

   private:
    global_compensation* state_;
    compensation_type limit_;
  };
  flushing flushed(compensation_type limit = std::numeric_limits<compensation_type>::infinity()) {
    return {*this, limit};
  }

 private:
  static constexpr std::uint16_t kind = 2;
  Array<compensation_type> compensation_;
  std::uint64_t rounds_ = 0;
};

}  // namespace hcomp
