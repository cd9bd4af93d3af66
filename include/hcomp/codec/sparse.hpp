#pragma once
/// @file
/// The concept Sparse: codecs whose sums leave out what is zero on all ranks.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse_strategy.hpp>
#include <string_view>

namespace hcomp {

/// A codec of vectors of floats that are mostly zeros: a small value, equal on all ranks.
///
/// It says by which `ways` the values that are not zero may travel, by which `sketch` (an
/// lhc_options), and what is added up: lanes of type float, or fixed point in std::uint32_t or
/// std::uint64_t. The rest is the same for all such codecs, and done by plans: include
/// hcomp/collective/sparse/sparse_plan.hpp, or hcomp/hcomp.hpp.
template <class C>
concept Sparse = std::copyable<C> && requires(C const c) {
  requires std::same_as<typename C::value_type, float>;
  requires std::same_as<typename C::lane_type, float> ||
      std::same_as<typename C::lane_type, std::uint32_t> ||
      std::same_as<typename C::lane_type, std::uint64_t>;
  { C::name } -> std::convertible_to<std::string_view>;           // messages
  { C::codec_id } -> std::convertible_to<std::uint8_t>;           // compared between ranks
  { c.parameters().size() } -> std::convertible_to<std::size_t>;  // doubles, at most 4
  { c.strategies } -> std::convertible_to<sparse_strategies>;
  c.sketch;
};

}  // namespace hcomp
