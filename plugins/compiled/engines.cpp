#include <hcomp/collective/engine/detail/make_engine.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/sparse/sparse_plan.hpp>

namespace hcomp::detail {

template std::unique_ptr<collective_engine<value_work>>
make_engine<block_engine, collective_engine<value_work>>(block_engine_settings const&, code_work&,
                                                         any_transport&, plan_options const&);
template std::unique_ptr<collective_engine<value_work>>
make_engine<sampled_engine<host_executor>, collective_engine<value_work>>(
    block_engine_settings const&, host_executor&, any_transport&, plan_options const&);
template std::unique_ptr<collective_engine<variable_rate_values>>
make_engine<variable_rate_engine, collective_engine<variable_rate_values>>(
    variable_rate_engine_settings const&, variable_rate_work&, any_transport&, plan_options const&);
template std::unique_ptr<sparse_collective_engine>
make_engine<sparse_engine, sparse_collective_engine>(sparse_engine_settings const&, sparse_work&,
                                                     any_transport&, plan_options const&);

}  // namespace hcomp::detail
