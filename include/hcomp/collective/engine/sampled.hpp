#pragma once
/// @file
/// The engine of algorithm sampled, for plans of codec `sign`: include it beside plan/plan.hpp.
/// hcomp/hcomp.hpp, make_plan and marsit include it.

#include <hcomp/collective/engine/detail/sampled_engine.hpp>
