#pragma once
/// @file
/// The one check of a peer's number that every transport and link makes.

#include <hcomp/core/detail/error_text.hpp>
#include <stdexcept>
#include <string>

namespace hcomp::detail {

/// @param call    what was asked, such as "isend"
/// @param ranks   of the `group`: 0 to ranks - 1 are peers
/// @param group   what the caller knows the ranks as, such as "communicator"
/// @throws std::invalid_argument  peer outside the ranks
inline void require_peer(char const* call, int peer, int ranks, char const* group) {
  if (peer < 0 || peer >= ranks)
    throw std::invalid_argument(error_text({call, ": peer ", peer, ", but the ", group, " has ",
                                            ranks, " ranks (0 to ", ranks - 1, ")"}));
}

}  // namespace hcomp::detail
