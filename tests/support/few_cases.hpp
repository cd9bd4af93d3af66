#pragma once

namespace hcomp::testing {

/// Whether this build looks for other things than results, and tests of many cases take a few.
#if defined(HCOMP_TEST_FEW_CASES)
inline constexpr bool few_cases = true;
#else
inline constexpr bool few_cases = false;
#endif

}  // namespace hcomp::testing
