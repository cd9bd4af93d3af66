#pragma once
/// @file
/// The concept Sparse: codecs whose all-reduce omits values that are zero on all ranks.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse_strategy.hpp>
#include <string_view>

namespace hcomp {

/// A codec for vectors of floats that are mostly zeros: a small value, equal on all ranks.
///
/// It sets the permitted `strategies` for sending the nonzero values, the `sketch` options (an
/// lhc_options), and the lane type that ranks add: float, or fixed point in std::uint32_t or
/// std::uint64_t. Plans implement the rest, which is the same for all sparse codecs: include
/// hcomp/collective/sparse/sparse_plan.hpp or hcomp/hcomp.hpp.
template <class C>
concept Sparse = std::copyable<C> && requires(C const c) {
  requires std::same_as<typename C::value_type, float>;
  requires std::same_as<typename C::lane_type, float> ||
      std::same_as<typename C::lane_type, std::uint32_t> ||
      std::same_as<typename C::lane_type, std::uint64_t>;
  { C::name } -> std::convertible_to<std::string_view>;           // for messages
  { C::codec_id } -> std::convertible_to<std::uint8_t>;           // compared between ranks
  { c.parameters().size() } -> std::convertible_to<std::size_t>;  // doubles, at most 4
  { c.strategies } -> std::convertible_to<sparse_strategies>;
  c.sketch;
};

}  // namespace hcomp
