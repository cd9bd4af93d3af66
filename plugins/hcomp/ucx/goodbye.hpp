#pragma once
/// @file
/// How ranks part without leaving anybody waiting.

#include <hcomp/ucx/endpoints.hpp>
#include <hcomp/ucx/notices.hpp>
#include <hcomp/ucx/tags.hpp>

namespace hcomp::ucx {

/// Tell every peer that this rank needs nothing any more, and wait until all of them say so or have
/// failed or given up: UCX may need this rank to finish what a peer has begun.
///
/// A peer may close as soon as it has all its goodbyes, so its end is no failure.
inline void say_goodbye(endpoints& peers, notices& heard, deadline const& limit) {
  tell_all(peers, notice_tag(peers.rank(), notice::goodbye));
  auto const is_done = [&](int peer) {
    return heard.said_goodbye(peer) || heard.accused.made_by(peer) != accusations::nobody ||
           peers.status(peer) != UCS_OK;
  };
  heard.hear(peers.worker());
  for (int peer = 0; peer < peers.size(); ++peer)
    while (peer != peers.rank() && !is_done(peer) && !limit.passed())
      if (peers.progress()) heard.hear(peers.worker());
  peers.flush(limit);  // the last goodbyes may still be on their way out
}

}  // namespace hcomp::ucx
