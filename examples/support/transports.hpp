#pragma once
/// @file
/// The transports an example can be asked for by name.

#include <hcomp/mpi/exchange.hpp>
#include <hcomp/mpi/transport.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "program.hpp"
#ifdef HCOMP_EXAMPLE_UCX
#include <hcomp/ucx/transport.hpp>
#endif

namespace example {

/// The one called "mpi" or "ucx", over all ranks. Collective.
/// @throws std::runtime_error  UCX is asked for and was not there when this was built
inline hcomp::any_transport make_transport(std::string_view name) {
  if (name == "mpi") return hcomp::any_transport(std::make_unique<hcomp::mpi::transport>(comm));
#ifdef HCOMP_EXAMPLE_UCX
  using ucx = hcomp::ucx::transport;
  return hcomp::any_transport(std::unique_ptr<ucx>(new ucx(hcomp::mpi::connect<ucx>(comm))));
#else
  throw std::runtime_error("--transport ucx: this program was built without UCX");
#endif
}

}  // namespace example
