#pragma once
/// @file
/// Creates transports by name.

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

/// A transport over all ranks. Collective.
/// @param name  "mpi" or "ucx"
/// @throws std::runtime_error  "ucx", but the program was built without UCX
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
