#pragma once
/// @file
/// The codec that compresses nothing: the full-precision sum every other codec is compared with.

#include <hcomp/codec/float_cast/float_cast.hpp>

namespace hcomp {

/// Values sent as they are, 32 bytes of header per 4096 values.
template <class T = float> using identity = float_cast<T, T>;

}  // namespace hcomp
