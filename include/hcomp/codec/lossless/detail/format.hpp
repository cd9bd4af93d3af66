#pragma once
/// @file
/// Encoded format of lossless.

#include <cstdint>
#include <hcomp/codec/detail/blocks_header.hpp>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/codec/lossless/detail/parts.hpp>

namespace hcomp::detail::lossless {

/// See blocks_header.
template <class T> struct format {
  using value_type = T;
  using block = value_block<T>;
  template <class Place> using part = value_part<T, Place>;
  static constexpr char const* name = "lossless";
  static constexpr std::uint16_t magic = sizeof(T) == 4 ? 0x464c : 0x444c;  // "LF", "LD"
};
template <class T> using header = blocks_header<format<T>>;
static_assert(sizeof(header<float>) == 24);

}  // namespace hcomp::detail::lossless
