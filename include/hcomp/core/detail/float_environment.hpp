#pragma once
/// @file
/// The floating-point environment of all arithmetic of hcomp.

#if defined(__SSE2__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace hcomp::detail {

/// During its lifetime this thread rounds to nearest, keeps denormals, and traps nothing: results
/// do not depend on the environment of the caller, which may differ between ranks. The destructor
/// restores the caller's environment, including its exception flags. Use it first in every function
/// that computes for the user, and in every thread of hcomp's own; fibres keep their own.
/// Cost: a few nanoseconds.
class float_environment {
 public:
#if defined(__SSE2__)
  float_environment() : callers_(_mm_getcsr()) {
    asm volatile("fnstcw %0" : "=m"(callers_x87_));
    set(0x1f80, 0x037f);  // all traps off, round to nearest, keep denormals, no exception flags
    keep_order();
  }
  ~float_environment() {
    keep_order();
    set(callers_, callers_x87_);
  }
#else
  float_environment() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
    keep_order();
  }
  ~float_environment() {
    keep_order();
    std::fesetenv(&callers_);
  }
#endif
  float_environment(float_environment const&) = delete;
  float_environment& operator=(float_environment const&) = delete;

 private:
#if defined(__SSE2__)
  /// @param x87  the C library prints numbers with this unit's rounding mode
  static void set(unsigned sse, unsigned short x87) {
    _mm_setcsr(sse);
    asm volatile("fldcw %0" : : "m"(x87));
  }
#endif
  /// Compilers do not know that arithmetic depends on the environment.
  static void keep_order() { asm volatile("" ::: "memory"); }

#if defined(__SSE2__)
  unsigned callers_;
  unsigned short callers_x87_;
#else
  std::fenv_t callers_;
#endif
};

}  // namespace hcomp::detail
