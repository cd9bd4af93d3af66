/// @file
/// What libhcomp_local.so adds to hcomp_parts: the parts of the C API that move no bytes.

#include <hcomp/plan.h>

extern "C" {

char const* hcomp_built_for() { return "collectives of the caller"; }

}  // extern "C"
