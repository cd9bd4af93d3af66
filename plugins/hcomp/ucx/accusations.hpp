#pragma once
/// @file
/// Finds the failed rank from the reports of ranks that gave up: arithmetic only.

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::ucx {

/// The accusations known to this rank: pairs of a rank that gave up and its culprit.
///
/// A rank that gives up names a culprit. Following the chain of accusations to its end gives the
/// failed rank. A rank that revokes accuses itself; its error text is sent with every accusation of
/// it.
class accusations {
 public:
  accusations(int rank, int size)
      : rank_(rank), accused_by_(std::size_t(size), nobody), certain_(std::size_t(size), false) {}

  static constexpr int nobody = -1;

  /// @param words  the error text of `culprit` if it revoked; otherwise empty
  void add(int accuser, int culprit, std::string words = {}) {
    accused_by_[std::size_t(accuser)] = culprit;
    if (!words.empty()) words_.try_emplace(culprit, std::move(words));
  }

  /// Marks a rank as faulty, not just silent. The chain of accusations ends there.
  void make_certain(int culprit) { certain_[std::size_t(culprit)] = true; }
  bool is_certain(int culprit) const { return certain_[std::size_t(culprit)]; }

  /// The rank that `rank` accuses.
  int made_by(int rank) const { return accused_by_[std::size_t(rank)]; }

  /// A rank other than this rank and `culprit` that accuses `culprit`.
  int accuser_of(int culprit) const {
    for (int rank = 0; rank < int(accused_by_.size()); ++rank)
      if (made_by(rank) == culprit && rank != culprit && rank != rank_) return rank;
    return nobody;
  }

  /// The first rank other than this one that gave up.
  int first_accuser() const {
    for (int rank = 0; rank < int(accused_by_.size()); ++rank)
      if (made_by(rank) != nobody && rank != rank_) return rank;
    return nobody;
  }

  /// The error text of a rank that revoked; empty if it has not. The reference stays valid.
  std::string const& words_of(int rank) const {
    static std::string const none;
    auto const found = words_.find(rank);
    return found == words_.end() ? none : found->second;
  }

  /// Follows the chain of accusations from `suspect`: a rank that accuses another one is not dead
  /// itself.
  ///
  /// @return  the rank at the end of the chain, and its accuser; `reporter` is this rank if the
  ///          chain is empty
  struct verdict {
    int culprit;
    int reporter;
    friend bool operator==(verdict, verdict) = default;
  };
  verdict follow(int suspect) const {
    verdict found{suspect, rank_};
    for (std::size_t steps = 0; steps < accused_by_.size(); ++steps) {  // ends even if all ranks
                                                                        // accuse each other
      if (is_certain(found.culprit)) break;
      int const next = made_by(found.culprit);
      if (next == nobody || next == rank_ || next == found.culprit) break;
      found = {next, found.culprit};
    }
    return found;
  }

  /// The verdict when no more answers are expected.
  ///
  /// A rank that hears of an accusation gives up before its own time limit, and may blame a rank
  /// that merely waits, too. Such accusations can form a circle. A rank that gave up has answered
  /// and did not fail; the culprit is then the first rank that has not answered, if there is one.
  ///
  /// @param has_left  (rank) -> whether it needs nothing any more, and owes no answer
  /// @return          `reporter` is `nobody` if the culprit did not answer
  template <class HasLeft> verdict conclude(verdict found, HasLeft const& has_left) const {
    int const made = made_by(found.culprit);
    if (made == nobody || made == found.culprit || is_certain(found.culprit)) return found;
    for (int rank = 0; rank < int(accused_by_.size()); ++rank)
      if (rank != rank_ && made_by(rank) == nobody && !has_left(rank)) return {rank, nobody};
    return found;
  }

 private:
  int rank_;
  std::vector<int> accused_by_;
  std::vector<bool> certain_;
  std::map<int, std::string> words_;
};

}  // namespace hcomp::ucx
