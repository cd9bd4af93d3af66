#pragma once
/// @file
/// Error feedback: adds the residual of a rank's own encoding to its next vector.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/detail/shared_arrays.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/detail/four_values.hpp>
#include <hcomp/core/detail/loads.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/feedback/detail/copy_values.hpp>
#include <hcomp/feedback/detail/host_array.hpp>
#include <hcomp/feedback/detail/saved_state.hpp>
#include <hcomp/op/detail/call_verdict.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace hcomp {

namespace detail {

/// The source x + residual; encoding it with `codec` also writes the new residual to `pending`.
template <class T, class C> struct noting_source {
  compensated<T> source;
  accumulator_t<T>* pending;
  C codec;
  std::uint32_t weight;

  HCOMP_HD accumulator_t<T> operator[](std::size_t i) const { return source[i]; }
  HCOMP_HD void note(std::size_t i, accumulator_t<T> value) const {
    pending[i] = value - static_cast<accumulator_t<T>>(codec.decoded_alone(value, weight));
  }
  HCOMP_HD friend noting_source operator+(noting_source from, std::size_t values) {
    return {from.source + values, from.pending + values, from.codec, from.weight};
  }
};

/// The source x + residual, for a codec that ReportsResidual: it writes the new residual to
/// `losses`.
template <class T> struct losing_source {
  compensated<T> source;
  accumulator_t<T>* losses;

  HCOMP_HD accumulator_t<T> operator[](std::size_t i) const { return source[i]; }
  HCOMP_HD friend losing_source operator+(losing_source from, std::size_t values) {
    return {from.source + values, from.losses + values};
  }
};
template <class T>
HCOMP_HD four_compensated<T> four_of(losing_source<T> const& from, std::size_t i) {
  return four_of(from.source, i);
}
template <class T> HCOMP_HD bool has_fours(losing_source<T> const& from) {
  return has_fours(from.source);
}
template <class Group, class T>
HCOMP_HD void fetch_values_soon(Group group, losing_source<T> const& from, unsigned count) {
  fetch_values_soon(group, from.source, count);
}

}  // namespace detail

/// Error feedback on each rank: residual' = (x + residual) - decode(encode(x + residual)).
///
/// After any number of steps, the sum of inputs and the sum of encoded values differ by one
/// residual. To keep later steps valid, some values keep their previous residual; withheld() counts
/// them:
/// - In units where rounding swamps most values: their new residuals would be at least 2^24 times
///   the values (2^53 for double). Some value of such a unit is 10^9 times the rest, on this rank
///   or another; adding these values to their residuals would not change the residuals.
/// - Where the new residual is not finite.
///
/// Memory: 8 bytes per value (16 for double), for the residual and the pending residual, which
/// replaces it when the collective succeeds.
/// Source: Seide et al., 1-bit SGD, Interspeech 2014; Karimireddy et al., ICML 2019.
/// @tparam Array  memory space of the state: detail::host_array, or a device's array
template <class T = float, template <class> class Array = detail::host_array> class error_feedback {
 public:
  using residual_type = accumulator_t<T>;
  static constexpr bool is_of_own_encoding = true;

  explicit error_feedback(std::size_t values) : residual_(values), pending_(values), withheld_(1) {}
  /// State in memory of the caller, such as tensors of a training framework, which must outlive
  /// this. Nothing is allocated or cleared. For device memory.
  /// @param residual  initial residual. After `commit()` the new one is in `pending`, and so on;
  ///                  `residual()` is the current one. `commit(executor, failed)` leaves it here
  /// @param withheld  initial number of withheld values
  /// @throws std::invalid_argument  residual and pending have different sizes
  error_feedback(std::span<residual_type> residual, std::span<residual_type> pending,
                 std::span<std::uint64_t, 1> withheld) requires
      std::is_constructible_v<Array<residual_type>, std::span<residual_type>>
      : residual_(residual), pending_(pending), withheld_(std::span<std::uint64_t>(withheld)) {
    if (residual.size() != pending.size())
      throw std::invalid_argument(
          detail::error_text({"error_feedback: a residual of ", residual.size(),
                              " values, pending has ", pending.size()}));
  }

  std::size_t values() const { return residual_.size(); }
  void const* data() const { return residual_.data(); }
  /// The residual, in the memory space of the state.
  std::span<residual_type const> residual() const { return {residual_.data(), residual_.size()}; }

  /// Replaces the residual, for example by one from a checkpoint of another program.
  /// @param residual  in host memory
  /// @throws std::invalid_argument  wrong size; the state is unchanged
  void set_residual(std::span<residual_type const> residual) {
    if (residual.size() != values())
      throw std::invalid_argument(detail::error_text(
          {"error_feedback: a residual of ", residual.size(), " values for ", values()}));
    residual_.from_host({residual.begin(), residual.end()});
  }

  /// The number of times that a value kept its previous residual (see above), over all calls since
  /// the last reset(), including failed calls. Waits for all work of a device.
  std::uint64_t withheld() const { return withheld_.to_host()[0]; }

  /// Clears the residual and the counter.
  void reset() {
    residual_.clear();
    withheld_.clear();
  }

  /// Serialises the state, for a checkpoint of this rank.
  std::vector<std::byte> save() const { return detail::save_state(kind, 0, residual_.to_host()); }
  /// @throws std::invalid_argument  state of another class, type or size; the object is unchanged
  void restore(std::span<std::byte const> saved) {
    std::vector<residual_type> values(residual_.size());
    detail::restore_state("error_feedback", kind, saved, values);
    residual_.from_host(std::move(values));
  }

  struct kernel_view {
    T const* x;
    residual_type const* residual;
    residual_type* pending;
    std::uint64_t* withheld;

    HCOMP_HD compensated<T> source() const { return {x, residual}; }
    template <ElementwiseEncode C>
    HCOMP_HD detail::noting_source<T, C> noting(C const& codec, std::uint32_t weight) const {
      return {source(), pending, codec, weight};
    }
    template <ReportsResidual C>
    HCOMP_HD detail::losing_source<T> noting(C const&, std::uint32_t) const {
      return {source(), pending};
    }

    template <class Group, class Decode>
    HCOMP_HD void encoded(Group group, std::size_t first, int n, Decode const& decode) const {
      residual_type* const out = pending + first;
      decode(out);
      auto const wanted = source() + first;
      int done = 0;
      if constexpr (HasWarps<Group>) {
        using four = detail::four_values<residual_type>;
        unsigned const fours =
            detail::has_fours(wanted) && four::can_be_at(out) ? static_cast<unsigned>(n) / 4 : 0;
        struct difference {
          decltype(detail::four_of(wanted, 0)) of;
          four decoded;
        };
        detail::for_each_loaded<4>(
            group, fours,
            [&](unsigned i, unsigned k) {
              std::size_t const at = i + k * Group::workers;
              return difference{detail::four_of(wanted, at), four::at(out + 4 * at)};
            },
            [&](unsigned i, unsigned k, difference const& some) {
              std::size_t const at = i + k * Group::workers;
              four::of([&](int j) { return some.of[j] - some.decoded[j]; }).put(out + 4 * at);
            });
        done = static_cast<int>(4 * fours);
      }
      for (int i = done + group.worker(); i < n; i += Group::workers)
        out[i] = wanted[static_cast<std::size_t>(i)] - out[i];
    }
    /// Restores the previous residual of values that would spoil the next step. Call it after
    /// `encoded` of values first to first + n - 1, and a sync of the group.
    /// @param is_one_unit      the values were rounded in one unit, possibly far above most of them
    /// @param may_be_infinite  encoding or decoding produced infinity or NaN
    template <class Group>
    HCOMP_HD void settle(Group group, std::size_t first, int n, bool is_one_unit,
                         bool may_be_infinite) const {
      bool const drown = is_one_unit && may_drown(group, first, n) && most_drown(group, first, n);
      if (!drown && !may_be_infinite) return;
      std::uint64_t kept = 0;
      for (int i = group.worker(); i < n; i += Group::workers) {
        std::size_t const at = first + static_cast<std::size_t>(i);
        if (!drown && is_finite(pending[at])) continue;
        pending[at] = residual[at];
        ++kept;
      }
      kept = group.sum(kept);
      if (group.worker() == 0) detail::fetch_add(detail::beside_others(group), withheld, kept);
    }

    /// Whether rounding may swamp most values of some unit of `unit` values. If not, `settle`
    /// withholds no finite value. One group barrier for all units, where `settle` needs one per
    /// unit.
    template <HasWarps Group>
    HCOMP_HD bool units_may_drown(Group group, std::size_t first, int n, int unit) const {
      int const units = (n + unit - 1) / unit;
      unsigned const lane = static_cast<unsigned>(group.worker()) % 32, half = lane / 16 * 16;
      bool may = false;
      for (int u = group.worker() / 16; u < (units + 1) / 2 * 2; u += Group::workers / 16) {
        int const of_unit = n - u * unit < unit ? n - u * unit : unit;
        bool is_valid = false, drowns = false;
        if (of_unit >= looked_at_least) {
          std::size_t const at =
              first + static_cast<std::size_t>(u * unit) + looked_at(of_unit, lane % 16);
          auto const one = look(at);
          is_valid = one.is_valid, drowns = one.drowns;
        }
        auto const all = detail::ones(group.vote(is_valid) >> half & 0xffffu),
                   drowned = detail::ones(group.vote(drowns) >> half & 0xffffu);
        may |= of_unit > 0 && 2 * drowned >= all;
      }
      return group.any(may);
    }

    template <class Group, class Decode>
    HCOMP_HD void decoded(Group, std::size_t, int, T*, Decode const& decode) const {
      decode();
    }
    HCOMP_HD void replace(std::size_t, T& x, T value) const { x = value; }

   private:
    /// The number of nonzero values, and how many of them are swamped by their new residual; at
    /// most 2^31 each.
    struct counted {
      std::uint64_t all, drowned;
    };
    /// @param place  place(i): index of value i of `n`
    template <class Group, class Place>
    HCOMP_HD counted count(Group group, int n, Place const& place) const {
      std::uint64_t both = 0;
      for (int i = group.worker(); i < n; i += Group::workers) {
        auto const one = look(place(static_cast<std::size_t>(i)));
        both += static_cast<std::uint64_t>(one.is_valid) << 32;
        both += one.drowns;
      }
      both = group.sum(both);
      return {both >> 32, both & 0xffffffffu};
    }
    struct looked {
      bool is_valid, drowns;
    };
    HCOMP_HD looked look(std::size_t at) const {
      constexpr int digits = std::numeric_limits<residual_type>::digits;
      constexpr auto ratio = static_cast<residual_type>(std::uint64_t{1} << digits);
      auto const value = magnitude(source()[at]), lost = magnitude(pending[at]);
      return {value > 0, value > 0 && lost > value * ratio};
    }
    /// Indices of a sample of 16 out of `n` values: four runs of four. Spares nearly all blocks the
    /// scan of all values. Requires n >= looked_at_least.
    static constexpr int looked_at_least = 64;
    HCOMP_HD static std::size_t looked_at(int n, std::size_t i) {
      return i / 4 * (static_cast<std::size_t>(n) / 4) + i % 4;
    }
    template <class Group> HCOMP_HD bool may_drown(Group group, std::size_t first, int n) const {
      if (n < looked_at_least) return true;
      auto const [all, drowned] =
          count(group, 16, [&](std::size_t i) { return first + looked_at(n, i); });
      return 2 * drowned >= all;
    }
    template <class Group> HCOMP_HD bool most_drown(Group group, std::size_t first, int n) const {
      auto const [all, drowned] = count(group, n, [&](std::size_t i) { return first + i; });
      return 2 * drowned > all;
    }
    HCOMP_HD static residual_type magnitude(residual_type value) {
      return value < 0 ? -value : value;
    }
  };
  kernel_view view(T const* x) { return {x, residual_.data(), pending_.data(), withheld_.data()}; }
  void commit() { std::swap(residual_, pending_); }
  /// The same as work of `executor`, by a copy, unless `failed` then points to a number other than
  /// 0. A CUDA graph can replay it.
  template <class E> void commit(E& executor, std::uint64_t const* failed) {
    detail::copy_values<residual_type> const copy{residual_.data(), pending_.data(), values()};
    executor.for_each_block(copy.runs(), detail::unless_failed<decltype(copy)>{copy, failed});
  }

 private:
  static constexpr std::uint16_t kind = 1;
  Array<residual_type> residual_;
  Array<residual_type> pending_;
  Array<std::uint64_t> withheld_;
};

}  // namespace hcomp
