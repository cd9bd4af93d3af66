#pragma once
/// @file
/// Declares the host-memory plans in hcomp::compiled, so that programs with HCOMP_COMPILED do not
/// compile their parts. The library defines HCOMP_COMPILE and instantiates them.

#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/codec/lossless_integers/lossless_integers.hpp>
#include <hcomp/codec/reproducible/reproducible.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/engine/detail/codec_variable_rate.hpp>
#include <hcomp/collective/engine/detail/codec_work.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/feedback.hpp>

#if defined(HCOMP_COMPILED)
#define HCOMP_COMPILE extern template
#endif

#if defined(HCOMP_COMPILE)
namespace hcomp::detail {

HCOMP_COMPILE class executor_work<host_executor>;

#define HCOMP_COMPILE_PLANS(V, ...)                                  \
  HCOMP_COMPILE class codec_work<hcomp::__VA_ARGS__, host_executor>; \
  HCOMP_COMPILE class codec_values<hcomp::__VA_ARGS__, host_executor, no_feedback<V>>;

HCOMP_COMPILE_PLANS(float, identity<float>)
HCOMP_COMPILE_PLANS(float, float_cast<float16, float>)
HCOMP_COMPILE_PLANS(float, float_cast<bfloat16, float>)
HCOMP_COMPILE_PLANS(float, sign<float>)
HCOMP_COMPILE_PLANS(float, sign_count<float>)
HCOMP_COMPILE_PLANS(float, thc<float>)
HCOMP_COMPILE_PLANS(float, uniform_thc<float>)
HCOMP_COMPILE_PLANS(float, reproducible<float>)

HCOMP_COMPILE_PLANS(double, identity<double>)
HCOMP_COMPILE_PLANS(double, float_cast<float16, double>)
HCOMP_COMPILE_PLANS(double, float_cast<bfloat16, double>)
HCOMP_COMPILE_PLANS(double, sign<double>)
HCOMP_COMPILE_PLANS(double, sign_count<double>)
HCOMP_COMPILE_PLANS(double, thc<double>)
HCOMP_COMPILE_PLANS(double, uniform_thc<double>)
HCOMP_COMPILE_PLANS(double, reproducible<double>)

#undef HCOMP_COMPILE_PLANS
#define HCOMP_COMPILE_PLANS(...)                                              \
  HCOMP_COMPILE class codec_variable_rate<hcomp::__VA_ARGS__, host_executor>; \
  HCOMP_COMPILE class codec_variable_rate_values<hcomp::__VA_ARGS__, host_executor>;

HCOMP_COMPILE_PLANS(inceptionn)
HCOMP_COMPILE_PLANS(error_bounded<float>)
HCOMP_COMPILE_PLANS(error_bounded<double>)
HCOMP_COMPILE_PLANS(lossless<float>)
HCOMP_COMPILE_PLANS(lossless<double>)
HCOMP_COMPILE_PLANS(lossless_integers<std::int32_t>)
HCOMP_COMPILE_PLANS(lossless_integers<std::int64_t>)

#undef HCOMP_COMPILE_PLANS

}  // namespace hcomp::detail
#undef HCOMP_COMPILE
#endif
