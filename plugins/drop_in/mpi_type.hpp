#pragma once
/// @file
/// MPI's names for the types of values that are summed.

#include <mpi.h>
#include <optional>

#include "settings.hpp"

namespace hcomp::drop_in {

/// C's and Fortran's names; an MPI without Fortran has MPI_DATATYPE_NULL for the latter.
inline std::optional<value_type> type_of(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return std::nullopt;
  if (type == MPI_FLOAT || type == MPI_REAL || type == MPI_REAL4) return value_type::float32;
  if (type == MPI_DOUBLE || type == MPI_DOUBLE_PRECISION || type == MPI_REAL8)
    return value_type::float64;
  return std::nullopt;
}

}  // namespace hcomp::drop_in
