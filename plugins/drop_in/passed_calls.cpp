#include "passed_calls.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <string_view>
#include <utility>

#include <c/settings.hpp>
#include "mpi_type.hpp"

namespace hcomp::drop_in {

namespace {

/// The file that contains this address, and the offset in it.
std::string place_of(void const* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || !info.dli_fname) return "?";
  std::string_view const path(info.dli_fname);
  char offset[24];
  std::snprintf(offset, sizeof offset, "+0x%zx",
                static_cast<std::size_t>(static_cast<char const*>(address) -
                                         static_cast<char const*>(info.dli_fbase)));
  return std::string(path.substr(path.rfind('/') + 1)) + offset;
}

}  // namespace

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
