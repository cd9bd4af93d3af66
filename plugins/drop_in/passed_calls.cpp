#include "passed_calls.hpp"

#include <utility>

#include <c/settings.hpp>
#include "mpi_type.hpp"

namespace hcomp::drop_in {

call_site site_of(char const* function, void const* caller, MPI_Datatype type, int ranks,
                  std::string strategy, std::string why) {
  auto const known = type_of(type);
  return {function, place_of(caller),    known ? std::string(to_text(*known)) : "other",
          ranks,    std::move(strategy), std::move(why)};
}

void passed_calls::move_to(journal& journal) {
  std::lock_guard const lock(mutex_);
  for (auto const& [one, stats] : all_)
    journal.add(site_of(one.function, one.caller, one.type, one.ranks, "MPI", one.why), stats);
  all_.clear();
}

}  // namespace hcomp::drop_in
