#pragma once
/// @file
/// Concepts for codecs whose encoded vector is an array of integers or floats that a built-in
/// reduction of MPI, of another library or of a switch can merge.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace hcomp {

/// The built-in reductions that a NativeSum may use.
enum class native_operation { bit_or, sum };

/// A codec whose encoded vector is an array of lanes, and whose merge is a built-in reduction of
/// them.
///
/// `encode_lanes` writes `lanes(x.size())` lanes. After the reduction over all ranks, in any order,
/// `decode_lanes` with the same key gives the result, with the same bits on every rank.
template <class C>
concept NativeSum = requires(C const c, std::span<typename C::value_type const> x,
                             std::span<typename C::value_type> out,
                             std::span<typename C::lane_type> lanes,
                             std::span<typename C::lane_type const> reduced, std::uint64_t key) {
  { C::name } -> std::convertible_to<std::string_view>;
  { C::operation } -> std::convertible_to<native_operation>;
  { c.lanes(x.size()) } -> std::same_as<std::size_t>;
  { c.encode_lanes(x, lanes, key) } -> std::same_as<void>;
  { c.decode_lanes(reduced, out, key) } -> std::same_as<void>;
};

/// A NativeSum whose ranks agree on units first. `measure` returns words; the caller reduces them
/// by an element-wise maximum over all ranks and passes the result to `calibrate` before encoding.
template <class C>
concept CalibratedNativeSum = NativeSum<C> &&
    requires(C c, std::span<typename C::value_type const> x, std::vector<std::uint32_t> words) {
  { c.measure(x) } -> std::same_as<std::vector<std::uint32_t>>;
  { c.calibrate(words) } -> std::same_as<void>;
};

/// A NativeSum whose ranks agree first on which values are not zero. `mark` returns words; the
/// caller replaces them by their bitwise OR over all ranks and calls `unite` before encoding.
/// `lanes` depends on the union, not only on the number of values.
template <class C>
concept IndexedNativeSum = NativeSum<C> &&
    requires(C c, std::span<typename C::value_type const> x, std::uint64_t key) {
  { c.mark(x) } -> std::same_as<std::span<std::uint64_t>>;
  { c.unite(key) } -> std::same_as<void>;
};

}  // namespace hcomp
