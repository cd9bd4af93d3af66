#pragma once
/// @file
/// Declares the host-memory plans in hcomp::compiled, so that programs with HCOMP_COMPILED do not
/// compile their parts. The library defines HCOMP_COMPILE and instantiates them.

#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/codec/lossless_integers/lossless_integers.hpp>
#include <hcomp/codec/registry.hpp>
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

#define HCOMP_COMPILE_BLOCK_CODECS(V) /* builtin_codecs<V> */ \
  HCOMP_COMPILE_PLANS(V, identity<V>)                         \
  HCOMP_COMPILE_PLANS(V, float_cast<float16, V>)              \
  HCOMP_COMPILE_PLANS(V, float_cast<bfloat16, V>)             \
  HCOMP_COMPILE_PLANS(V, sign<V>)                             \
  HCOMP_COMPILE_PLANS(V, sign_count<V>)                       \
  HCOMP_COMPILE_PLANS(V, thc<V>)                              \
  HCOMP_COMPILE_PLANS(V, uniform_thc<V>)                      \
  HCOMP_COMPILE_PLANS(V, reproducible<V>)

HCOMP_COMPILE_BLOCK_CODECS(float)
HCOMP_COMPILE_BLOCK_CODECS(double)

#undef HCOMP_COMPILE_BLOCK_CODECS
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
