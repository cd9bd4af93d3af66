#pragma once
/// @file
/// How ranks part without leaving anybody waiting.

#include <ucp/api/ucp.h>

#include <cstdint>
#include <hcomp/ucx/endpoints.hpp>
#include <hcomp/ucx/tags.hpp>

namespace hcomp::ucx {

/// Tell every connected peer that this rank needs nothing any more, and wait until all of them say
/// so: UCX may need this rank to finish what a peer has begun.
///
/// A barrier of all ranks would open endpoints to ranks never spoken to, which may be gone by the
/// time they are reached. A peer may close as soon as it has all its goodbyes, so its end is no
/// failure.
/// @return  false when the time was up or a peer ended without a word
inline bool say_goodbye(endpoints& peers, int rank, int size, deadline const& limit) {
  ucp_request_param_t const how{};
  for (int peer = 0; peer < size; ++peer)
    if (peers.is_open(peer))
      started_request(ucp_tag_send_nbx(peers[peer], nullptr, 0, goodbye_tag(rank), &how));

  bool all_said = true;
  for (int peer = 0; peer < size; ++peer) {
    if (!peers.is_open(peer)) continue;
    auto const heard = started_request(
        ucp_tag_recv_nbx(peers.worker(), nullptr, 0, goodbye_tag(peer), ~std::uint64_t{0}, &how));
    peers.progress_until(limit, [&] { return !under_way(heard) || peers.status(peer) != UCS_OK; });
    if (under_way(heard)) {
      ucp_request_cancel(peers.worker(), heard.get());
      all_said = false;
    }
  }
  // The last goodbyes may still be on their way out.
  auto const flushed = started_request(ucp_worker_flush_nbx(peers.worker(), &how));
  return peers.progress_until(limit, [&] { return !under_way(flushed); }) && all_said;
}

}  // namespace hcomp::ucx
