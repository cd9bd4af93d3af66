#include "stream_plan.hpp"

template struct hcomp::drop_in::plans_of_type<float>;
