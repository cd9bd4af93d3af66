#define HCOMP_COMPILE template
#include <hcomp/collective/detail/compiled_plans.hpp>
