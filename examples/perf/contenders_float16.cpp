#include "make_contenders.hpp"

template perf::contender_list<hcomp::float16> perf::make_contenders(job const&);
