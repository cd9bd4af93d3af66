#pragma once
/// @file
/// The one check of a peer's number that every transport and link makes.

#include <stdexcept>
#include <string>

namespace hcomp::detail {

/// @param call    what was asked, such as "isend"
/// @param ranks   of the `group`: 0 to ranks - 1 are peers
/// @param group   what the caller knows the ranks as, such as "communicator"
/// @throws std::invalid_argument  peer outside the ranks
inline void require_peer(char const* call, int peer, int ranks, char const* group) {
  if (peer < 0 || peer >= ranks)
    throw std::invalid_argument(std::string(call) + ": peer " + std::to_string(peer) +
                                ", but the " + group + " has " + std::to_string(ranks) +
                                " ranks (0 to " + std::to_string(ranks - 1) + ")");
}

}  // namespace hcomp::detail
