#include "make_contenders.hpp"

template perf::contender_list<hcomp::float16> perf::make_contenders(options const&, std::size_t,
                                                                    double, transports&);
