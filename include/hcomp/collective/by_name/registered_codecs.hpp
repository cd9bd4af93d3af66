#pragma once
/// @file
/// The registry of codecs that can be chosen by name: hcomp's codecs, and those that a program
/// adds.
///
/// With HCOMP_COMPILED the registries come from a library, the target hcomp::compiled. It has those
/// for float, double, float16, bfloat16, int32_t and int64_t. Without HCOMP_COMPILED a program that
/// uses a registry compiles plans of all its codecs.

#include <cstdint>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>

namespace hcomp {

/// All codecs for values of type V that can be chosen by name: hcomp's, and the added ones. One
/// registry per program or shared library. Add codecs before threads read it.
/// @tparam E  the executor of the plans. A device executor needs device_plans.hpp and its compiler;
///            its registry lacks top_k
template <class V, Executor E = host_executor> codec_registry<V, E>& registered_codecs();

namespace detail {

/// The codecs of an automatic_plan without a registry: identity, fp16 and bf16.
template <class V, Executor E = host_executor> codec_registry<V, E> const& rounding_codecs();

}  // namespace detail
}  // namespace hcomp

#if !defined(HCOMP_COMPILED)
#include <hcomp/collective/by_name/detail/builtin_entries.hpp>
#else
#include <hcomp/collective/by_name/detail/compiled_plans.hpp>

namespace hcomp {

extern template codec_registry<float>& registered_codecs<float>();
extern template codec_registry<double>& registered_codecs<double>();
extern template codec_registry<float16>& registered_codecs<float16>();
extern template codec_registry<bfloat16>& registered_codecs<bfloat16>();
extern template codec_registry<std::int32_t>& registered_codecs<std::int32_t>();
extern template codec_registry<std::int64_t>& registered_codecs<std::int64_t>();
extern template codec_registry<float> const& detail::rounding_codecs<float>();
extern template codec_registry<double> const& detail::rounding_codecs<double>();
extern template codec_registry<float16> const& detail::rounding_codecs<float16>();
extern template codec_registry<bfloat16> const& detail::rounding_codecs<bfloat16>();

}  // namespace hcomp
#endif
