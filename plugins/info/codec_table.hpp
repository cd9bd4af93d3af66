#pragma once
/// @file
/// The codecs that can be chosen by name, as a table for README.md.

#include <string>

namespace hcomp::info {

/// A line in Markdown for each row of registered_codecs.
std::string codec_table();

}  // namespace hcomp::info
