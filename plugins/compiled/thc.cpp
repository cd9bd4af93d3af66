#define HCOMP_COMPILE_THC
#include <hcomp/codec/thc/detail/simd.hpp>
