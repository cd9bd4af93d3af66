#include "mpi_kind.hpp"

#include <algorithm>
#include <iterator>

namespace hcomp::drop_in {

mpi_kind const* mpi_kind_called(std::string_view name) {
  auto const* const found = std::ranges::find(mpi_kinds, name, &mpi_kind::name);
  return found == std::end(mpi_kinds) ? nullptr : found;
}

mpi_kind const* mpi_kind_of(std::string_view library) {
  if (!library.starts_with("libmpi")) return nullptr;
  auto const version = library.substr(std::min(library.find(".so."), library.size()));
  auto const is = [&](std::string_view wanted) {
    return version == wanted || version.starts_with(std::string(wanted) + ".");
  };
  // Library of C or of Fortran: a Fortran program may name only the latter.
  if (library.starts_with("libmpi_abi.so")) return mpi_kind_called("abi");
  if (is(".so.40")) return mpi_kind_called("openmpi");
  if (is(".so.12")) return mpi_kind_called("mpich");
  return nullptr;
}

std::filesystem::path preload_for(mpi_kind const& mpi, std::filesystem::path const& folders) {
  return folders / mpi.name / mpi.preload;
}

}  // namespace hcomp::drop_in
