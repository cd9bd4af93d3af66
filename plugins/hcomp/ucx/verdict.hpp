#pragma once
/// @file
/// How the ranks that are left agree on who failed.

#include <chrono>
#include <hcomp/ucx/accusations.hpp>
#include <hcomp/ucx/context.hpp>
#include <hcomp/ucx/endpoints.hpp>
#include <hcomp/ucx/notices.hpp>
#include <hcomp/ucx/tags.hpp>

namespace hcomp::ucx {

/// Whom to blame when `suspect` seems to have failed.
///
/// A suspect that nobody else blames may have given up without being heard: then a rank that failed
/// and that others blame is the culprit.
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

/// Tell all ranks whom this rank blames, the culprit too: it may be alive and only slow. Listen
/// whom they blame until each has said so, or has failed, or `time` is over.
inline accusations::verdict agree_on(endpoints& peers, notices& heard, int suspect,
                                     std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds parting_time{200};  // for last words to leave
  int const self = peers.rank();
  auto verdict = judge(peers, heard, suspect);
  auto const spread = [&] {
    int const culprit = verdict.culprit;
    heard.accused.add(self, culprit);
    tell_all(peers, abort_tag(self, culprit, heard.accused.is_certain(culprit)),
             heard.accused.words_of(culprit));
  };
  spread();
  peers.progress_until(deadline(time), [&] {
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
  peers.flush(deadline(parting_time));
  return verdict;
}

}  // namespace hcomp::ucx
