// max_simd: sse4

#include <doctest/doctest.h>

#include <cstdlib>
#include <hcomp/exec/host_executor.hpp>
#include <stdexcept>
#include <string>

TEST_CASE("host_executor: its constructor throws if HCOMP_MAX_SIMD is not a level") {
  char const* const limit = std::getenv("HCOMP_MAX_SIMD");
  for (int const threads : {1, 2}) {
    CAPTURE(threads);
    if (limit && limit == std::string("sse4"))
      CHECK_THROWS_WITH_AS(hcomp::host_executor{threads},
                           "HCOMP_MAX_SIMD: 'sse4'; it can be baseline, avx2 or avx512",
                           std::invalid_argument);
    else
      CHECK(hcomp::host_executor{threads}.threads() == threads);
  }
}
