#pragma once
/// @file
/// Control messages between ranks, separate from the caller's messages.

#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/ucx/accusations.hpp>
#include <hcomp/ucx/context.hpp>
#include <hcomp/ucx/endpoints.hpp>
#include <hcomp/ucx/tags.hpp>
#include <string>
#include <vector>

namespace hcomp::ucx {

inline constexpr std::size_t longest_words = 1024;  ///< of an abort; longer texts are truncated

/// The notices received by this rank. Bytes from other ranks influence only this state.
class notices {
 public:
  notices(int rank, int size) : accused(rank, size), told_(std::size_t(size)) {}

  accusations accused;

  bool said_hello(int rank) const { return told_[std::size_t(rank)].hello; }
  bool said_goodbye(int rank) const { return told_[std::size_t(rank)].goodbye; }

  /// Whether "ready" of this hop has arrived; one rank sends it.
  bool ready(int hop) const { return (ready_hops_ >> hop & 1) != 0; }

  /// Processes the notices that have arrived.
  void hear(ucp_worker_h worker) {
    ucp_tag_recv_info_t info{};
    while (ucp_tag_message_h const message =
               ucp_tag_probe_nb(worker, own_message_bit, own_message_bit, /*remove=*/1, &info)) {
      ucp_request_param_t how{};
      std::string words(std::min(info.length, longest_words), ' ');
      auto const received =
          started_request(ucp_tag_msg_recv_nbx(worker, words.data(), words.size(), message, &how));
      while (under_way(received)) ucp_worker_progress(worker);  // it has arrived
      take(info.sender_tag, std::move(words));
    }
  }

 private:
  struct told {
    bool hello = false, goodbye = false;
  };

  void take(std::uint64_t tag, std::string&& words) {
    int const source = source_in(tag), size = int(told_.size());
    if (source >= size) return;
    auto& it = told_[std::size_t(source)];
    if ((tag & abort_mask) == abort_mask) {
      int const culprit = abort_culprit(tag);
      if (culprit >= size) return;
      accused.add(source, culprit, std::move(words));
      if (is_certain(tag)) accused.make_certain(culprit);
      return;
    }
    switch (notice_in(tag)) {
      case notice::goodbye: it.goodbye = true; break;
      case notice::hello: it.hello = true; break;
      case notice::ready:
        if (hop_in(tag) < 32) ready_hops_ |= std::uint32_t{1} << hop_in(tag);
    }
  }

  std::vector<told> told_;
  std::uint32_t ready_hops_ = 0;
};

/// Sends a notice to one rank; dropped if its endpoint has failed.
inline void tell(endpoints const& peers, int peer, std::uint64_t tag,
                 std::string const& words = {}) {
  if (!peers.is_open(peer) || peers.status(peer) != UCS_OK) return;
  ucp_request_param_t how{};
  started_request(ucp_tag_send_nbx(peers[peer], words.data(), std::min(words.size(), longest_words),
                                   tag, &how));
}

/// Sends a notice to all other ranks.
/// @param words  must stay valid until sent
inline void tell_all(endpoints const& peers, std::uint64_t tag, std::string const& words = {}) {
  for (int peer = 0; peer < peers.size(); ++peer)
    if (peer != peers.rank()) tell(peers, peer, tag, words);
}

}  // namespace hcomp::ucx
