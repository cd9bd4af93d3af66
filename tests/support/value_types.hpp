#pragma once
/// @file
/// The value types of codecs.

#include <hcomp/core/half.hpp>
#include <support/few_cases.hpp>

namespace hcomp::testing {

/// f(T{}) for the value types besides float; only for one of them in builds with few_cases.
template <class F> void for_each_other_type(F const& f) {
  if constexpr (!few_cases) {
    f(double{});
    f(float16{});
  }
  f(bfloat16{});
}

}  // namespace hcomp::testing
