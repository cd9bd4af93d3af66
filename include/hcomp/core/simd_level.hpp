#pragma once
/// @file
/// The SIMD level of fast paths: the best of the processor, limited by the environment variable
/// HCOMP_MAX_SIMD. Codecs read no other variable. It changes the speed of encoding, never the
/// bytes.

#include <algorithm>
#include <cstdlib>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <stdexcept>
#include <string_view>

namespace hcomp {

/// Instruction sets of fast paths; each contains the ones before it.
enum class simd_level { baseline, avx2, avx512 };

/// The name in HCOMP_MAX_SIMD: "baseline", "avx2" or "avx512".
constexpr char const* name_of(simd_level level) {
  return level == simd_level::avx512 ? "avx512" : level == simd_level::avx2 ? "avx2" : "baseline";
}

/// The best level of this processor, regardless of the environment.
inline simd_level processor_simd_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return simd_level::avx512;
  if (__builtin_cpu_supports("avx2")) return simd_level::avx2;
#endif
  return simd_level::baseline;
}

namespace detail {

/// The lower of `processor` and the level named `limit`; an empty `limit` sets none.
/// @throws std::invalid_argument  `limit` names no level
[[gnu::cold, gnu::noinline]] inline simd_level simd_level_below(simd_level processor,
                                                                std::string_view limit) {
  if (limit.empty()) return processor;
  for (auto const level : {simd_level::baseline, simd_level::avx2, simd_level::avx512})
    if (limit == name_of(level)) return std::min(level, processor);
  throw std::invalid_argument(
      error_text({"HCOMP_MAX_SIMD: '", printable(limit), "'; it can be baseline, avx2 or avx512"}));
}

/// Computes best_simd_level() from processor and environment.
[[gnu::cold, gnu::noinline]] inline simd_level find_simd_level() {
  char const* const limit = std::getenv("HCOMP_MAX_SIMD");
  return simd_level_below(processor_simd_level(), limit ? limit : "");
}

}  // namespace detail

/// The best level for fast paths: the processor's, or HCOMP_MAX_SIMD if that is lower. Determined
/// by the first call. Every level gives the same bytes.
/// @throws std::invalid_argument  in every call: HCOMP_MAX_SIMD names no level
inline simd_level best_simd_level() {
  static simd_level const level = detail::find_simd_level();
  return level;
}

}  // namespace hcomp
