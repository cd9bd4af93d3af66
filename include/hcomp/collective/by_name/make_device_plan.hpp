#pragma once
/// @file
/// With this header make_plan takes a DeviceExecutor, for vectors in its memory:
///
///     hcomp::gpu::stream_executor executor(stream);
///     hcomp::host_staged over(transport, executor);
///     hcomp::gpu::error_feedback<float> feedback(n);
///     auto plan = hcomp::make_plan<float>("thc:bits=4", n, over, executor);
///     plan.all_reduce(gradient, feedback, {.step = step, .op = hcomp::reduce_op::mean});
///
/// All codecs but top_k. Calls wait for the stream as those of `plan` do. The device's compiler
/// compiles the file that calls make_plan, also with hcomp::compiled; nvcc takes one to two minutes
/// for float.

#include <hcomp/collective/by_name/detail/builtin_entries.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
