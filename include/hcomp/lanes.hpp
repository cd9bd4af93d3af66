#pragma once
/// @file
/// Native sums: integers or floats that a built-in reduction adds, such as MPI_SUM or a switch.

#include <hcomp/codec/bloom_index.hpp>
#include <hcomp/codec/iblt.hpp>
#include <hcomp/codec/lhc.hpp>
#include <hcomp/codec/lhc_one_phase.hpp>
#include <hcomp/codec/native_lanes.hpp>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sign_by_owner.hpp>
#include <hcomp/codec/sparse_index.hpp>
#include <hcomp/codec/sparse_union.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <hcomp/op/thc_lanes.hpp>
