#pragma once
/// @file
/// Codec `identity`: no compression, the full-precision reference for every other codec.

#include <hcomp/codec/float_cast/float_cast.hpp>

namespace hcomp {

/// Values sent unchanged, with 32 bytes of header per 4096 values.
template <class T = float> using identity = float_cast<T, T>;

}  // namespace hcomp
