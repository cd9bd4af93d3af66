#pragma once
/// @file
/// Cost models of collectives: schedules, predicted times, measurements of links and codecs, and
/// the choice of the fastest.

#include <hcomp/collective/automatic/choose.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <hcomp/collective/cost/cost_model.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/cost/hop_error.hpp>
#include <hcomp/collective/schedule/ring.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
