#pragma once
/// @file
/// Makes the result of work ready to be sent.

#include <hcomp/exec/executor.hpp>
#include <hcomp/transport/transport.hpp>

namespace hcomp::detail {

/// Called between work on some bytes and their transfer. Waits for the work, unless the transport
/// does so itself, like `host_staged`.
template <Transport T, Executor E> void ready_to_move(T const& transport, E& executor) {
  if constexpr (requires { transport.waits_for_work(); })
    if (transport.waits_for_work()) return;
  executor.synchronize();
}

}  // namespace hcomp::detail
