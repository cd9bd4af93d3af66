#pragma once
/// @file
/// When bytes that work has made may be moved.

#include <hcomp/exec/executor.hpp>
#include <hcomp/transport/transport.hpp>

namespace hcomp::detail {

/// Between work on some bytes and their transport: waits for the work, unless the transport does
/// where bytes leave, as `host_staged` does.
template <Transport T, Executor E> void ready_to_move(T const& transport, E& executor) {
  if constexpr (requires { transport.waits_for_work(); })
    if (transport.waits_for_work()) return;
  executor.synchronize();
}

}  // namespace hcomp::detail
