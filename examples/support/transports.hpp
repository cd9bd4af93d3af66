#pragma once
/// @file
/// The transports an example can be asked for by name.

#include <hcomp/mpi/exchange.hpp>
#include <hcomp/mpi/transport.hpp>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "program.hpp"
#ifdef HCOMP_EXAMPLE_UCX
#include <hcomp/ucx/transport.hpp>
#endif

namespace example {

#ifdef HCOMP_EXAMPLE_UCX
/// One transport over UCX and all ranks. Collective.
inline std::unique_ptr<hcomp::ucx::transport> make_ucx_transport() {
  return std::make_unique<hcomp::ucx::transport>(
      rank(), ranks(), [](auto mine) { return hcomp::mpi::exchange(comm, mine); });
}
#else
[[noreturn]] inline void make_ucx_transport() {
  throw std::runtime_error("--transport ucx: this program was built without UCX");
}
#endif

/// Calls f(transport) with the one called "mpi" or "ucx", over all ranks.
/// @throws std::runtime_error  UCX is asked for and was not there when this was built
template <class F> void with_transport(std::string_view name, F const& f) {
  if (name == "mpi") {
    hcomp::mpi::transport transport(comm);
    return f(transport);
  }
#ifdef HCOMP_EXAMPLE_UCX
  f(*make_ucx_transport());
#else
  make_ucx_transport();
#endif
}

}  // namespace example
