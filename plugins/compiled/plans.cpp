#define HCOMP_COMPILE template
#include <hcomp/collective/by_name/detail/compiled_plans.hpp>
