#pragma once
/// @file
/// Calls that are left to MPI, counted without a text each: there may be many, and short ones.

#include <mpi.h>
#include <compare>
#include <map>
#include <mutex>
#include <string>

#include "journal.hpp"

namespace hcomp::drop_in {

/// What a journal calls the calls from this address.
call_site site_of(char const* function, void const* caller, MPI_Datatype type, int ranks,
                  std::string strategy, std::string why);

/// Used by all threads of a rank.
class passed_calls {
 public:
  /// Texts are told apart by where they are stored.
  struct kind {
    void const* caller;
    char const* function;
    char const* why;
    MPI_Datatype type;
    int ranks;

    friend auto operator<=>(kind const&, kind const&) = default;
  };

  void add(kind const& one, site_stats const& stats) {
    std::lock_guard const lock(mutex_);
    all_[one].add(stats);
  }
  /// Moves all of them there.
  void move_to(journal& journal);

 private:
  std::mutex mutex_;
  std::map<kind, site_stats> all_;
};

}  // namespace hcomp::drop_in
