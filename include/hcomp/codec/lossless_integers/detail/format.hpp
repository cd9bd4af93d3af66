#pragma once
/// @file
/// Encoded format of lossless_integers.

#include <cstdint>
#include <hcomp/codec/detail/blocks_coder.hpp>
#include <hcomp/codec/detail/blocks_header.hpp>
#include <hcomp/codec/lossless_integers/detail/blocks.hpp>

namespace hcomp::detail::lossless_integers {

/// See blocks_header.
template <class T> struct format {
  using value_type = T;
  using block = value_block<T>;
  static constexpr char const* name = "lossless_integers";
  static constexpr std::uint16_t magic = sizeof(T) == 4 ? 0x344c : 0x384c;  // "L4", "L8"
};
template <class T> using header = blocks_header<format<T>>;
/// Coder of chunks.
template <class T> using chunk_coder = blocks_coder<format<T>>;
static_assert(sizeof(header<std::int32_t>) == 24);

}  // namespace hcomp::detail::lossless_integers
