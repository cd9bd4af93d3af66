#pragma once
/// @file
/// The table of codecs that can be chosen by name: hcomp's, and those that a program adds.
///
/// With HCOMP_COMPILED the tables are taken from a library, the target hcomp::compiled, where
/// there are those for float, double, float16, bfloat16, int32_t and int64_t. Without it whoever uses a table compiles
/// plans of all its codecs.

#include <cstdint>
#include <hcomp/collective/by_name/codec_row.hpp>
#include <hcomp/core/half.hpp>

namespace hcomp {

/// All codecs for values of type V that can be chosen by name: hcomp's, and those that were added.
/// One per program or library; add to it before threads read it.
template <class V> codec_table<V>& codec_rows();

namespace detail {

/// What automatic_plan has without another table: identity, fp16 and bf16.
template <class V> codec_table<V> const& rounding_codecs();

}  // namespace detail
}  // namespace hcomp

#if !defined(HCOMP_COMPILED)
#include <hcomp/collective/by_name/detail/builtin_rows.hpp>
#else
#include <hcomp/collective/by_name/detail/compiled_plans.hpp>

namespace hcomp {

extern template codec_table<float>& codec_rows<float>();
extern template codec_table<double>& codec_rows<double>();
extern template codec_table<float16>& codec_rows<float16>();
extern template codec_table<bfloat16>& codec_rows<bfloat16>();
extern template codec_table<std::int32_t>& codec_rows<std::int32_t>();
extern template codec_table<std::int64_t>& codec_rows<std::int64_t>();
extern template codec_table<float> const& detail::rounding_codecs<float>();
extern template codec_table<double> const& detail::rounding_codecs<double>();
extern template codec_table<float16> const& detail::rounding_codecs<float16>();
extern template codec_table<bfloat16> const& detail::rounding_codecs<bfloat16>();

}  // namespace hcomp
#endif
