#pragma once
/// @file
/// Which rank failed, when all that a rank sees is that others gave up: arithmetic only.

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::ucx {

/// Who gave up because of whom, as far as this rank was told.
///
/// A rank that gives up says why, and who hears it follows the chain of accusations to its end. A
/// rank that revokes accuses itself, in words that travel with all accusations of it.
class accusations {
 public:
  accusations(int rank, int size)
      : rank_(rank), accused_by_(std::size_t(size), nobody), certain_(std::size_t(size), false) {}

  static constexpr int nobody = -1;

  /// @param words  why `culprit` has revoked; empty if it has not
  void add(int accuser, int culprit, std::string words = {}) {
    accused_by_[std::size_t(accuser)] = culprit;
    if (!words.empty()) words_.try_emplace(culprit, std::move(words));
  }

  /// The rank did wrong; it was not only silent. The chain of accusations ends there.
  void make_certain(int culprit) { certain_[std::size_t(culprit)] = true; }
  bool is_certain(int culprit) const { return certain_[std::size_t(culprit)]; }

  /// Whom `rank` accuses.
  int made_by(int rank) const { return accused_by_[std::size_t(rank)]; }

  /// Another rank that accuses `culprit`, and not this rank nor `culprit` itself.
  int accuser_of(int culprit) const {
    for (int rank = 0; rank < int(accused_by_.size()); ++rank)
      if (made_by(rank) == culprit && rank != culprit && rank != rank_) return rank;
    return nobody;
  }

  /// Another rank that gave up.
  int first_accuser() const {
    for (int rank = 0; rank < int(accused_by_.size()); ++rank)
      if (made_by(rank) != nobody && rank != rank_) return rank;
    return nobody;
  }

  /// Why this rank has revoked; empty if it has not. Stays where it is.
  std::string const& words_of(int rank) const {
    static std::string const none;
    auto const found = words_.find(rank);
    return found == words_.end() ? none : found->second;
  }

  /// A rank that accuses another is not dead itself.
  ///
  /// @return  the rank at the end of the chain, and the one that accuses it: `reporter` is this
  ///          rank when nobody else had to say it
  struct verdict {
    int culprit;
    int reporter;
    friend bool operator==(verdict, verdict) = default;
  };
  verdict follow(int suspect) const {
    verdict found{suspect, rank_};
    for (std::size_t steps = 0; steps < accused_by_.size(); ++steps) {  // ends where all accuse all
      if (is_certain(found.culprit)) break;
      int const next = made_by(found.culprit);
      if (next == nobody || next == rank_ || next == found.culprit) break;
      found = {next, found.culprit};
    }
    return found;
  }

 private:
  int rank_;
  std::vector<int> accused_by_;
  std::vector<bool> certain_;
  std::map<int, std::string> words_;
};

}  // namespace hcomp::ucx
