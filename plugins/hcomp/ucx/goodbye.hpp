#pragma once
/// @file
/// Orderly shutdown: no rank leaves while another one needs it.

#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/ucx/endpoints.hpp>
#include <hcomp/ucx/notices.hpp>
#include <hcomp/ucx/tags.hpp>

namespace hcomp::ucx {

/// Sends a goodbye to every peer, and waits until each has said goodbye, failed or given up: UCX
/// may need this rank to complete an operation of a peer.
///
/// A peer may close once it has received all goodbyes, so its end is not a failure.
inline void say_goodbye(endpoints& peers, notices& heard, hcomp::detail::deadline& limit) {
  tell_all(peers, notice_tag(peers.rank(), notice::goodbye));
  auto const is_done = [&](int peer) {
    return heard.said_goodbye(peer) || heard.accused.made_by(peer) != accusations::nobody ||
           peers.status(peer) != UCS_OK;
  };
  heard.hear(peers.worker());
  for (int peer = 0; peer < peers.size(); ++peer)
    while (peer != peers.rank() && !is_done(peer) && !limit.passed())
      if (peers.progress()) heard.hear(peers.worker());
  peers.flush(limit);  // the last goodbyes may still be in send buffers
}

}  // namespace hcomp::ucx
