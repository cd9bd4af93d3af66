#pragma once
/// @file
/// Counts calls left to MPI. They can be many and short, so no text is created per call.

#include <mpi.h>
#include <compare>
#include <map>
#include <mutex>
#include <string>

#include "journal.hpp"

namespace hcomp::drop_in {

/// The journal's key for calls from this address.
call_site site_of(char const* function, void const* caller, MPI_Datatype type, int ranks,
                  std::string strategy, std::string why);

/// Thread-safe.
class passed_calls {
 public:
  /// Texts are compared by address.
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
  /// Moves all counts into the journal.
  void move_to(journal& journal);

 private:
  std::mutex mutex_;
  std::map<kind, site_stats> all_;
};

}  // namespace hcomp::drop_in
