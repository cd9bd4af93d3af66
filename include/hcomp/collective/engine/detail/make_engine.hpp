#pragma once
/// @file
/// Makes the engines of plans. With HCOMP_COMPILED they are in a library, the target
/// hcomp::compiled, and programs that make plans do not compile them.

#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/engine/detail/code_work.hpp>
#include <hcomp/collective/engine/detail/collective_engine.hpp>
#include <hcomp/collective/engine/detail/variable_rate_work.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#if !defined(HCOMP_COMPILED)
#include <hcomp/collective/engine/detail/block_engine.hpp>
#include <hcomp/collective/engine/detail/variable_rate_engine.hpp>
#endif

namespace hcomp::detail {

class block_engine;
template <Executor E> class sampled_engine;  // see engine/sampled.hpp
class variable_rate_engine;

/// @tparam Base  base class of Engine, through which plans call it
/// @tparam Work  the engine's work; must outlive it, like the transport
template <class Engine, class Base, class Settings, class Work>
std::unique_ptr<Base> make_engine(Settings const& made_for, Work& work, any_transport& transport,
                                  plan_options const& options) {
  return std::make_unique<Engine>(made_for, work, transport, options);
}

#if defined(HCOMP_COMPILED)
extern template std::unique_ptr<collective_engine<value_work>>
make_engine<block_engine, collective_engine<value_work>>(block_engine_settings const&, code_work&,
                                                         any_transport&, plan_options const&);
extern template std::unique_ptr<collective_engine<value_work>>
make_engine<sampled_engine<host_executor>, collective_engine<value_work>>(
    block_engine_settings const&, host_executor&, any_transport&, plan_options const&);
extern template std::unique_ptr<collective_engine<variable_rate_values>>
make_engine<variable_rate_engine, collective_engine<variable_rate_values>>(
    variable_rate_engine_settings const&, variable_rate_work&, any_transport&, plan_options const&);
#endif

}  // namespace hcomp::detail
