#pragma once
/// @file
/// The check of a peer's number, shared by all transports and packet links.

#include <hcomp/core/detail/error_text.hpp>
#include <stdexcept>
#include <string>

namespace hcomp::detail {

/// @param call    name of the call, for example "isend"
/// @param ranks   number of ranks of the `group`; valid peers are 0 to ranks - 1
/// @param group   the caller's term for the set of ranks, for example "communicator"
/// @throws std::invalid_argument  peer out of range
inline void require_peer(char const* call, int peer, int ranks, char const* group) {
  if (peer < 0 || peer >= ranks)
    throw std::invalid_argument(error_text({call, ": peer ", peer, ", but the ", group, " has ",
                                            ranks, " ranks (0 to ", ranks - 1, ")"}));
}

}  // namespace hcomp::detail
