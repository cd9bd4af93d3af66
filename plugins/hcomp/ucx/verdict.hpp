#pragma once
/// @file
/// How the remaining ranks agree on the failed rank.

#include <chrono>
#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/ucx/accusations.hpp>
#include <hcomp/ucx/endpoints.hpp>
#include <hcomp/ucx/notices.hpp>
#include <hcomp/ucx/tags.hpp>

namespace hcomp::ucx {

/// The culprit, given that `suspect` seems to have failed.
///
/// A suspect that no other rank accuses may have given up without its notice arriving. Then a rank
/// that failed and is accused by another rank is the culprit.
inline accusations::verdict judge(endpoints const& peers, notices const& heard, int suspect) {
  auto const& accused = heard.accused;
  auto const found = accused.follow(suspect);
  if (found.reporter != peers.rank() || accused.accuser_of(suspect) != accusations::nobody ||
      accused.made_by(suspect) != accusations::nobody)
    return found;
  for (int const failed : peers.failed())
    if (int const accuser = accused.accuser_of(failed);
        accuser != accusations::nobody && accused.made_by(failed) == accusations::nobody &&
        !heard.said_goodbye(failed))
      return {failed, accuser};
  return found;
}

/// Sends this rank's accusation to all ranks, including the culprit, which may be alive and only
/// slow. Receives accusations until every rank has sent one or failed, or `time` has passed.
inline accusations::verdict agree_on(endpoints& peers, notices& heard, int suspect,
                                     std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds parting_time{200};  // for the last notices to be sent
  int const self = peers.rank();
  auto verdict = judge(peers, heard, suspect);
  auto const spread = [&] {
    int const culprit = verdict.culprit;
    heard.accused.add(self, culprit);
    tell_all(peers, abort_tag(self, culprit, heard.accused.is_certain(culprit)),
             heard.accused.words_of(culprit));
  };
  spread();
  hcomp::detail::deadline limit(time), parting(parting_time);
  peers.progress_until(limit, [&] {
    heard.hear(peers.worker());
    if (auto const better = judge(peers, heard, suspect); better != verdict) {
      verdict = better;
      spread();
    }
    for (int rank = 0; rank < peers.size(); ++rank)
      if (rank != self && peers.status(rank) == UCS_OK && !heard.said_goodbye(rank) &&
          heard.accused.made_by(rank) == accusations::nobody)
        return false;
    return true;
  });
  auto const has_left = [&](int rank) { return heard.said_goodbye(rank); };
  if (auto const last = heard.accused.conclude(verdict, has_left); last != verdict) {
    verdict = last;
    spread();
  }
  peers.flush(parting);
  return verdict;
}

}  // namespace hcomp::ucx
