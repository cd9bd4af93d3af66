#pragma once
/// @file
/// Makes plans from the name of a codec, also for vectors in device memory: with this header
/// make_plan takes a DeviceExecutor.
///
///     hcomp::gpu::stream_executor executor(stream);
///     hcomp::host_staged over(transport, executor);
///     hcomp::gpu::error_feedback<float> feedback(n);
///     auto plan = hcomp::make_plan<float>("thc:bits=4", n, over, executor);
///     plan.all_reduce(gradient, feedback, {.step = step, .op = hcomp::reduce_op::mean});
///
/// Codecs are all but top_k. Calls wait for the stream as those of `plan` do. The file that calls
/// make_plan is compiled by the device's compiler, also with hcomp::compiled; for float nvcc takes
/// one to two minutes.

#include <hcomp/collective/by_name/detail/builtin_entries.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
