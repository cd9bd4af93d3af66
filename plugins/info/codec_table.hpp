#pragma once
/// @file
/// Markdown table of the codecs that can be chosen by name.

#include <string>

namespace hcomp::info {

/// One table row for each codec in registered_codecs.
std::string codec_table();

}  // namespace hcomp::info
