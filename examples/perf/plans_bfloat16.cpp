#include "make_plans.hpp"

using type = hcomp::bfloat16;

template hcomp::codec_registry<type>& perf::codecs<type>();
template void perf::add_plans(contender_list<type>&, job const&, std::string const&,
                              std::string const&);
template void perf::add_automatic(contender_list<type>&, job const&, std::string const&);
template hcomp::cost_table perf::cost_table_of<type>(job const&, std::string const&);
template hcomp::codec_cost const& perf::identity_cost<type>(job const&);
