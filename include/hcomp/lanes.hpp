#pragma once
/// @file
/// Native sums: encodings as integers or floats that MPI_SUM, a switch or another built-in
/// reduction adds.

#include <hcomp/codec/native_lanes.hpp>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sign/sampled.hpp>
#include <hcomp/codec/sparse/bloom_index.hpp>
#include <hcomp/codec/sparse/iblt.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/codec/sparse/lhc.hpp>
#include <hcomp/codec/sparse/lhc_one_phase.hpp>
#include <hcomp/codec/sparse/union.hpp>
#include <hcomp/op/sparse_sum.hpp>
#include <hcomp/op/thc_lanes.hpp>
