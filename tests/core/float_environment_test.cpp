#include <doctest/doctest.h>
#include <fenv.h>

#include <hcomp/core/detail/float_environment.hpp>
#include <limits>
#include <stdexcept>

namespace {

/// Arithmetic that the compiler cannot do in advance.
float volatile one = 1, tiny = std::numeric_limits<float>::denorm_min(), none = 0;

}  // namespace

TEST_CASE("float environment: the default inside, the caller's afterwards") {
  std::fenv_t before;
  std::fegetenv(&before);
  std::fesetround(FE_UPWARD);
  std::feraiseexcept(FE_INEXACT);
  CHECK(one + tiny > 1);
  {
    hcomp::detail::float_environment const environment;
    CHECK(std::fegetround() == FE_TONEAREST);
    CHECK(one + tiny == 1);
    CHECK(one / none > 1);
  }
  CHECK(std::fegetround() == FE_UPWARD);
  CHECK(one + tiny > 1);
  CHECK(std::fetestexcept(FE_INEXACT | FE_DIVBYZERO) == FE_INEXACT);
  std::fesetenv(&before);
}

TEST_CASE("float environment: an exception restores the caller's") {
  std::fenv_t before;
  std::fegetenv(&before);
  std::fesetround(FE_DOWNWARD);
  try {
    hcomp::detail::float_environment const environment;
    throw std::runtime_error("");
  } catch (std::runtime_error const&) {
    CHECK(std::fegetround() == FE_DOWNWARD);
  }
  std::fesetenv(&before);
}
