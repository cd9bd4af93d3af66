#include "make_contenders.hpp"

template perf::contender_list<float> perf::make_contenders(job const&);
