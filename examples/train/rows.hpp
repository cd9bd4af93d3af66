#pragma once
/// @file
/// The rows of codecs, compiled in a file of their own: they make plans of all of them.

#include <hcomp/collective/make_plan.hpp>

namespace hcomp {

extern template codec_table<float>& codec_rows<float>();

}  // namespace hcomp
