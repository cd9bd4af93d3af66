#pragma once
/// @file
/// Makes everything that the command line asks to be timed.

#include <memory>
#include <vector>

#include "../support/transports.hpp"
#include "contender.hpp"
#include "options.hpp"

namespace perf {

/// The transports of a run, made once.
struct transports {
  std::unique_ptr<hcomp::mpi::transport> mpi;
#ifdef HCOMP_EXAMPLE_UCX
  std::unique_ptr<hcomp::ucx::transport> ucx;
#endif

  /// Collective.
  /// @throws std::runtime_error  a transport is asked for that this program was built without
  explicit transports(std::vector<std::string> const& names);
};

template <class T> using contender_list = std::vector<std::unique_ptr<contender<T>>>;

/// The MPI library's own all-reduce first, then every codec with every algorithm and transport that
/// go together. Collective.
/// @param typical  mean |x|: what one sign decodes to
/// @throws std::runtime_error, std::invalid_argument  an unknown name, on all ranks alike
template <class T>
contender_list<T> make_contenders(options const& o, std::size_t values, double typical,
                                  transports& by);

}  // namespace perf
