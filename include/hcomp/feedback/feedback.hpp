#pragma once
/// @file
/// The interface between compensation and a collective: compensation changes the encoded values and
/// sees the result. State changes take effect only after the whole collective succeeds.

#include <concepts>
#include <cstddef>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <hcomp/op/encoded_layout.hpp>

namespace hcomp {

/// State that compensates the compression error over the steps. One object per tensor, owned by the
/// caller, in the memory space of the tensor.
///
/// `view(x)` returns a small value for kernels with these functions:
/// - `source()`: the values to encode.
/// - `encoded`: called after a block is encoded; may decode it to compute the error.
/// - `decoded`: called around the decoding of a block, or of a part of one, into x; not if x
///   becomes NaN.
/// - `noting(codec, weight)`, optional: a source for codecs that are ElementwiseEncode or
///   ReportsResidual. Replaces `encoded`; saves a device a second read of the values.
/// - `replace(i, x, value)`, optional: replaces `decoded` for value i alone.
/// - `settle`, optional: called when a whole block is encoded. For a Calibrated codec it is called
///   per unit; otherwise only if the block contains infinity or NaN.
/// - `units_may_drown`, optional: if false, `settle` is not called per unit.
///
/// `encoded` and `settle` may only write state that `commit()` makes valid: if the collective
/// throws, nothing has changed.
///
/// Optional, required over stream-ordered transports: `commit(executor, failed)` enqueues the
/// commit. It has no effect if `failed`, in the executor's memory, points to a number other than 0
/// when it runs.
template <class F, class T>
concept Feedback = requires(F& f, F const& c, T* x) {
  { c.values() } -> std::same_as<std::size_t>;
  { c.data() } -> std::convertible_to<void const*>;  // state memory; must not overlap x
  {f.view(x).source()};
  { f.commit() } -> std::same_as<void>;
  // true: depends only on this rank's encoding, not on the reduced result
  { F::is_of_own_encoding } -> std::convertible_to<bool>;
};

/// Compensation without state.
template <class T> class no_feedback {
 public:
  static constexpr bool is_of_own_encoding = true;

  explicit no_feedback(std::size_t values) : values_(values) {}

  std::size_t values() const { return values_; }
  void const* data() const { return nullptr; }
  void commit() {}

  struct kernel_view {
    T const* x;
    HCOMP_HD T const* source() const { return x; }
    template <class Group, class Decode>
    HCOMP_HD void encoded(Group, std::size_t, int, Decode const&) const {}
    template <class Group, class Decode>
    HCOMP_HD void decoded(Group, std::size_t, int, T*, Decode const& decode) const {
      decode();
    }
    HCOMP_HD void replace(std::size_t, T& x, T value) const { x = value; }
  };
  kernel_view view(T const* x) { return {x}; }

 private:
  std::size_t values_;
};

/// encode_blocks; then the compensation sees the rank's own encoded block.
template <Compressor C, class View> struct encode_with_feedback {
  /// Used by groups with warps.
  static constexpr bool notes_losses =
      ReportsResidual<C> && requires(View const& view, C const& codec) {
    view.noting(codec, 1u);
  };
  static constexpr int workers = detail::workers_of<C>();
  static constexpr int blocks_at_once = detail::encodes_at_once<C>(notes_losses);
  static constexpr int piece_workers = detail::piece_workers_of<C>();

  C codec;
  encoded_layout layout;
  View view;
  std::byte* encoded_data;
  block_origin origin;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t b) const {
    if constexpr (HasWarps<Group> && requires { view.noting(codec, origin.weight); })
      detail::encode_block_of(group, codec, layout, view.noting(codec, origin.weight), encoded_data,
                              origin, b, [](int, auto const&) {});
    else
      detail::encode_block_of(group, codec, layout, view.source(), encoded_data, origin, b,
                              [&](int n, auto const& decode) {
                                view.encoded(group, b * layout.block_values, n, decode);
                              });
    if constexpr (requires { view.settle(group, b, 0, true, true); }) settle(group, b);
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> {
    if constexpr (notes_losses)
      return codec.scratch_bytes(sizeof(view.source()[0]));
    else
      return codec.scratch_bytes();
  }

  /// See WorksByPieces. One piece if blocks carry checksums: a checksum covers a whole block.
  int pieces() const requires Piecewise<C> {
    return origin.checksum ? 1 : detail::pieces_of(codec, layout);
  }
  std::size_t piece_scratch_bytes() const requires Piecewise<C> {
    return codec.piece_scratch_bytes(notes_losses ? sizeof(view.source()[0]) : 0);
  }
  template <class Group>
  HCOMP_HD bool piece(Group group, std::size_t b, int k) const requires Piecewise<C> {
    int const n = layout.values_in(b);
    auto const range = detail::range_of_piece(codec, n, k);
    std::size_t const first = b * layout.block_values + static_cast<std::size_t>(range.first);
    bool nonfinite = false;
    if constexpr (HasWarps<Group> && requires { view.noting(codec, origin.weight); })
      nonfinite = detail::encode_piece_of(group, codec, layout, view.noting(codec, origin.weight),
                                          encoded_data, origin, b, k, [](auto const&) {});
    else
      nonfinite = detail::encode_piece_of(group, codec, layout, view.source(), encoded_data, origin,
                                          b, k, [&](auto const& decode) {
                                            if (range.count > 0)
                                              view.encoded(group, first, range.count, decode);
                                          });
    if constexpr (requires { view.settle(group, b, 0, true, true); }) {
      bool may_be_infinite = nonfinite;
      if constexpr (MayOverflow<C>)
        may_be_infinite |= detail::may_be_infinite<typename C::value_type>(
            codec.largest_of_piece(encoded_data + layout.offset(b), n, origin, reduce_op::mean, k));
      settle(group, first, range.count, may_be_infinite);
    }
    return nonfinite;
  }
  template <class Group>
  HCOMP_HD void close(Group group, std::size_t b, bool nonfinite) const requires Piecewise<C> {
    detail::close_block_of(group, codec, layout, encoded_data, origin, b, nonfinite);
  }

 private:
  template <class Group> HCOMP_HD void settle(Group group, std::size_t b) const {
    std::byte const* const block = encoded_data + layout.offset(b);
    int const n = layout.values_in(b);
    bool may_be_infinite = (load_aligned<block_header>(block).flags & block_has_nonfinite) != 0;
    if constexpr (MayOverflow<C>)
      may_be_infinite |= detail::may_overflow<C>{codec, reduce_op::mean}(block, n);
    settle(group, b * layout.block_values, n, may_be_infinite);
  }
  /// Settles whole units of a block.
  template <class Group>
  HCOMP_HD void settle(Group group, std::size_t first, int n, bool may_be_infinite) const {
    if (!Calibrated<C> && !may_be_infinite) return;
    group.sync();
    int const unit = values_of_a_unit();
    if constexpr (requires { view.units_may_drown(group, first, n, unit); })
      if (!may_be_infinite && !view.units_may_drown(group, first, n, unit)) return;
    for (int at = 0; at < n; at += unit)
      view.settle(group, first + static_cast<std::size_t>(at), n - at < unit ? n - at : unit,
                  Calibrated<C>, may_be_infinite);
  }
  HCOMP_HD int values_of_a_unit() const {
    int const all = static_cast<int>(layout.block_values);
    if constexpr (Calibrated<C>) {
      int const units = static_cast<int>(codec.statistics_in(all));
      return (all + units - 1) / units;
    }
    return all;
  }
};

/// A view that must read a value before the value is replaced.
template <class View, class T>
concept ReadModifyWrite = requires(View const& view, std::size_t i, T& x, T value) {
  view.replace(i, x, value, view.look(i, x));
};
/// A view that accepts decoded values one at a time.
template <class View, class T>
concept Replaces = ReadModifyWrite<View, T> ||
    requires(View const& view, std::size_t i, T& x, T value) {
  view.replace(i, x, value);
};

/// decode_blocks; the compensation sees the values before and after.
///
/// Decodes block by part if the codec can, so that the values stay in a cache between both reads.
template <Compressor C, class View> struct decode_with_feedback {
  /// 2 KiB on a CPU; four times that size measures a third slower.
  template <class Group> static constexpr int part_values = Group::workers == 1 ? 512 : 4096;
  static constexpr int workers = decode_blocks<C>::workers,
                       blocks_at_once = decode_blocks<C>::blocks_at_once,
                       piece_workers = decode_blocks<C>::piece_workers;

  decode_blocks<C> decode;
  View view;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    std::size_t const b = decode.first + i;
    std::size_t const first = b * decode.layout.block_values;
    int const n = decode.layout.values_in(b);
    auto* const x = decode.x + first;
    std::byte const* const block = decode.encoded + decode.layout.offset(b);
    if (decode.becomes_nan(block)) return decode(group, i);
    if constexpr (ElementwiseDecode<C, Group, replacing> && Replaces<View, value_type>) {
      decode.codec.decode_each(group, block, n, decode.op, replacing{view, first, x});
    } else if constexpr (requires { decode.codec.decode_part(group, block, 0, n, x, decode.op); }) {
      constexpr int most = part_values<Group>;
      for (int at = 0; at < n; at += most) {
        int const part = n - at < most ? n - at : most;
        view.decoded(group, first + static_cast<std::size_t>(at), part, x + at,
                     [&] { decode.codec.decode_part(group, block, at, part, x + at, decode.op); });
      }
    } else {
      view.decoded(group, first, n, x, [&] { decode(group, i); });
    }
  }
  std::size_t scratch_bytes() const requires UsesScratch<C> { return decode.scratch_bytes(); }

  /// See WorksByPieces.
  int pieces() const requires Piecewise<C> { return decode.pieces(); }
  std::size_t piece_scratch_bytes() const requires Piecewise<C> {
    return decode.piece_scratch_bytes();
  }
  template <class Group>
  HCOMP_HD void piece(Group group, std::size_t i, int k) const requires Piecewise<C> {
    decode.piece(group, i, k, [&](std::size_t first, int count, auto* to, auto const& one) {
      view.decoded(group, first, count, to, one);
    });
  }

 private:
  using value_type = typename C::value_type;
  /// Passes single decoded values of a block to the view.
  struct replacing {
    View const& view;
    std::size_t first;
    value_type* x;

    HCOMP_HD std::size_t at(int j) const { return first + static_cast<std::size_t>(j); }
    template <class V> HCOMP_HD void operator()(int j, V value) const {
      view.replace(at(j), x[j], static_cast<value_type>(value));
    }
    HCOMP_HD auto look(int j) const requires ReadModifyWrite<View, value_type> {
      return view.look(at(j), x[j]);
    }
    template <class V, class Seen> HCOMP_HD void operator()(int j, V value, Seen seen) const {
      view.replace(at(j), x[j], static_cast<value_type>(value), seen);
    }
  };
};

}  // namespace hcomp
