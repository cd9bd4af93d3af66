#pragma once
/// @file
/// What a sum costs: schedules, a model of their time, measurements of links and codecs, and choices.

#include <hcomp/collective/choose.hpp>
#include <hcomp/collective/cost_model.hpp>
#include <hcomp/collective/costs.hpp>
#include <hcomp/collective/hop_error.hpp>
#include <hcomp/collective/measure_cost.hpp>
#include <hcomp/collective/ring.hpp>
#include <hcomp/collective/schedule.hpp>
