#pragma once
/// @file
/// How plans find the streams of a codec of variable rate on a device.

#include <hcomp/exec/executor.hpp>

namespace hcomp::detail {

/// Specialised beside the streams: their type `streams`; `values_per_word` of find_nonfinite; the
/// `outcome` of making a stream, where it lies in the device's memory (`outcome_there(streams)`),
/// and how many bytes it says (`bytes_of(codec, outcome)`, which throws wire_error if there is no
/// stream).
template <class C, DeviceExecutor E> struct streams_on_device {};

template <class C, class E>
concept HasStreamsOn = requires {
  typename streams_on_device<C, E>::streams;
};

}  // namespace hcomp::detail
