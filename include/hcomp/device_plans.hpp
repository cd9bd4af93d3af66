#pragma once
/// @file
/// make_plan for vectors in device memory. Compiles the plans of all codecs for the executor.

#include <hcomp/collective/by_name/make_device_plan.hpp>
