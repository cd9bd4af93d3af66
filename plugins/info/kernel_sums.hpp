#pragma once
/// @file
/// The sums that Linux makes for hcomp-aggregator --mode xdp.

#include <string>

namespace hcomp::info {

/// Which programs are attached where, and what they have counted: for people.
std::string kernel_sums();

}  // namespace hcomp::info
