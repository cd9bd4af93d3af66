#include "make_contenders.hpp"

template perf::contender_list<hcomp::bfloat16> perf::make_contenders(job const&);
