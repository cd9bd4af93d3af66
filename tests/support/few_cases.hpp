#pragma once

namespace hcomp::testing {

/// Whether this build searches for errors other than wrong results (sanitizers), and long tests run
/// only a few cases.
#if defined(HCOMP_TEST_FEW_CASES)
inline constexpr bool few_cases = true;
#else
inline constexpr bool few_cases = false;
#endif

}  // namespace hcomp::testing
