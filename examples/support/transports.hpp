#pragma once
/// @file
/// The transports an example can be asked for by name.

#include <hcomp/mpi/exchange.hpp>
#include <hcomp/mpi/transport.hpp>
#include <stdexcept>
#include <string_view>

#include "program.hpp"
#ifdef HCOMP_EXAMPLE_UCX
#include <hcomp/ucx/transport.hpp>
#endif

namespace example {

/// Calls f(transport) with the one called "mpi" or "ucx", over all ranks.
/// @throws std::runtime_error  UCX is asked for and was not there when this was built
template <class F> void with_transport(std::string_view name, F const& f) {
  if (name == "mpi") {
    hcomp::mpi::transport transport(comm);
    return f(transport);
  }
#ifdef HCOMP_EXAMPLE_UCX
  hcomp::ucx::transport transport(rank(), ranks(),
                                  [](auto mine) { return hcomp::mpi::exchange(comm, mine); });
  f(transport);
#else
  throw std::runtime_error("--transport ucx: this program was built without UCX");
#endif
}

}  // namespace example
