#pragma once
/// @file
/// Several collectives at a time, beside a computation. POSIX.

#include <hcomp/transport/concurrent_transport.hpp>
