#include "make_contenders.hpp"

template perf::contender_list<float> perf::make_contenders(options const&, std::size_t, double,
                                                           transports&);
template hcomp::cost_table perf::cost_table_of<float>(options const&, transports&);
