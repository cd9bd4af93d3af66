#pragma once
/// @file
/// Several collectives at the same time, overlapped with computation. Needs POSIX.

#include <hcomp/transport/concurrent_transport.hpp>
