#pragma once
/// @file
/// Which rank failed, when all that a rank sees is that its neighbours gave up.

#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstddef>
#include <hcomp/ucx/endpoints.hpp>
#include <hcomp/ucx/tags.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hcomp::ucx {

/// Who gave up because of whom, as far as this rank was told.
///
/// On a ring only the two neighbours of a dead rank see it die; the others see neighbours that gave
/// up. So who gives up says why, and who hears it follows the chain of accusations to its end. A
/// rank that revokes accuses itself, in words that travel with all accusations of it.
class accusations {
 public:
  accusations(int rank, int size) : rank_(rank), accused_by_(std::size_t(size), nobody) {}

  /// @param words  why `culprit` has revoked; empty if it has not
  void add(int accuser, int culprit, std::string words = {}) {
    accused_by_[std::size_t(accuser)] = culprit;
    if (!words.empty()) words_.try_emplace(culprit, std::move(words));
  }

  /// Why this rank has revoked; empty if it has not.
  std::string words_of(int rank) const {
    auto const found = words_.find(rank);
    return found == words_.end() ? std::string() : found->second;
  }

  /// A rank that accuses another is not dead itself.
  ///
  /// @return  the rank at the end of the chain, and the one that accuses it: `reporter` is this
  /// rank
  ///          when nobody else had to say it
  struct verdict {
    int culprit;
    int reporter;
    friend bool operator==(verdict, verdict) = default;
  };
  verdict follow(int suspect) const {
    verdict found{suspect, rank_};
    for (std::size_t steps = 0; steps < accused_by_.size(); ++steps) {  // ends where all accuse all
      int const next = accused_by_[std::size_t(found.culprit)];
      if (next == nobody || next == rank_ || next == found.culprit) break;
      found = {next, found.culprit};
    }
    return found;
  }

  /// Take in what has arrived.
  void hear(ucp_worker_h worker) {
    ucp_tag_recv_info_t info{};
    while (ucp_tag_message_h const message =
               ucp_tag_probe_nb(worker, abort_tag(0, 0), abort_mask, /*remove=*/1, &info)) {
      ucp_request_param_t how{};
      std::string words(std::min(info.length, longest_words), ' ');
      auto const received =
          started_request(ucp_tag_msg_recv_nbx(worker, words.data(), words.size(), message, &how));
      while (under_way(received)) ucp_worker_progress(worker);  // it has arrived
      int const accuser = abort_source(info.sender_tag), culprit = abort_culprit(info.sender_tag);
      int const size = int(accused_by_.size());
      if (accuser < size && culprit < size) add(accuser, culprit, std::move(words));
    }
  }

  /// Tell every connected rank, the culprit too: it may be alive and only slow. The words must
  /// stay until that is progressed.
  void spread(endpoints const& peers, int culprit) const {
    auto const found = words_.find(culprit);
    std::string_view const words =
        found == words_.end() ? std::string_view() : std::string_view(found->second);
    for (int peer = 0; peer < int(accused_by_.size()); ++peer)
      if (peers.is_open(peer) && peers.status(peer) == UCS_OK) {
        ucp_request_param_t how{};
        started_request(ucp_tag_send_nbx(peers[peer], words.data(),
                                         std::min(words.size(), longest_words),
                                         abort_tag(rank_, culprit), &how));
      }
  }

 private:
  static constexpr int nobody = -1;
  static constexpr std::size_t longest_words = 1024;  ///< UCX copies them when they are sent

  int rank_;
  std::vector<int> accused_by_;
  std::map<int, std::string> words_;
};

}  // namespace hcomp::ucx
