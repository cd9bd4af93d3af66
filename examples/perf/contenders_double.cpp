#include "make_contenders.hpp"

template perf::contender_list<double> perf::make_contenders(job const&);
