#pragma once
/// @file
/// The types that values may have.

#include <hcomp/core/half.hpp>
#include <support/few_cases.hpp>

namespace hcomp::testing {

/// f(T{}) for the value types besides float; in builds that look for other things, for one of them.
template <class F> void for_each_other_type(F const& f) {
  if constexpr (!few_cases) {
    f(double{});
    f(float16{});
  }
  f(bfloat16{});
}

}  // namespace hcomp::testing
