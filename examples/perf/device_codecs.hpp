#pragma once
/// @file
/// Codecs that --device cuda supports.

#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>

namespace perf {

/// Codecs of fixed rate. The list is short, because nvcc takes some seconds for each codec.
using device_codecs = hcomp::codec_list<hcomp::identity<>, hcomp::float_cast<hcomp::float16>,
                                        hcomp::sign<>, hcomp::thc<>>;

/// Codecs of variable rate.
inline constexpr char const* variable_rate_on_device[] = {"inceptionn", "error_bounded"};

}  // namespace perf
