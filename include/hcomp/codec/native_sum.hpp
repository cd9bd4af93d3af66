#pragma once
/// @file
/// Codes that any adder can reduce: arrays of integers merged by a built-in reduction of MPI, of
/// another library, or of a switch.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/block_header.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace hcomp {

/// The built-in reductions a NativeSum may ask for.
enum class native_operation { bit_or, sum };

/// A codec whose code is an array of lanes and whose merge is a built-in reduction of them.
///
/// `encode_lanes` writes `lanes(x.size())` lanes; after the reduction over all ranks, in any order,
/// `decode_lanes` with the same key gives the result, the same bits everywhere.
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

/// One whose ranks agree on units first: of the words that `measure` gives, the largest over all
/// ranks are put in by `calibrate`, before anything is encoded.
template <class C>
concept CalibratedNativeSum = NativeSum<C> &&
    requires(C c, std::span<typename C::value_type const> x, std::vector<std::uint32_t> words) {
  { c.measure(x) } -> std::same_as<std::vector<std::uint32_t>>;
  { c.calibrate(words) } -> std::same_as<void>;
};

/// One whose ranks agree first on which values are not zero: of the words that `mark` gives, the
/// bitwise OR over all ranks is put in their place, and `unite` called, before anything is encoded.
/// `lanes` depends on the union, not only on the number of values.
template <class C>
concept IndexedNativeSum = NativeSum<C> &&
    requires(C c, std::span<typename C::value_type const> x, std::uint64_t key) {
  { c.mark(x) } -> std::same_as<std::span<std::uint64_t>>;
  { c.unite(key) } -> std::same_as<void>;
};

}  // namespace hcomp
