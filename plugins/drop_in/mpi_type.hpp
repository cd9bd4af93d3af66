#pragma once
/// @file
/// Maps MPI datatypes to value types.

#include <mpi.h>
#include <algorithm>
#include <iterator>
#include <optional>

#include <c/settings.hpp>

namespace hcomp::drop_in {

/// Accepts the names of C and Fortran, in any size that codecs support: compiler options change the
/// size of MPI_REAL. Without Fortran an MPI has MPI_DATATYPE_NULL for the latter.
inline std::optional<value_type> type_of(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return std::nullopt;
  MPI_Datatype const floats[] = {MPI_FLOAT, MPI_DOUBLE,           MPI_REAL,
                                 MPI_REAL4, MPI_DOUBLE_PRECISION, MPI_REAL8};
  // Signed and unsigned sums have the same bits.
  MPI_Datatype const integers[] = {
      MPI_INT,     MPI_UNSIGNED,      MPI_INT32_T,   MPI_UINT32_T,
      MPI_LONG,    MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG,
      MPI_INT64_T, MPI_UINT64_T,      MPI_AINT,      MPI_OFFSET,
      MPI_COUNT,   MPI_INTEGER,       MPI_INTEGER4,  MPI_INTEGER8};
  auto const is_in = [&](auto const& names) {
    return std::find(std::begin(names), std::end(names), type) != std::end(names);
  };
  bool const is_float = is_in(floats);
  if (!is_float && !is_in(integers)) return std::nullopt;
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  if (bytes == 4) return is_float ? value_type::float32 : value_type::int32;
  if (bytes == 8) return is_float ? value_type::float64 : value_type::int64;
  return std::nullopt;
}

}  // namespace hcomp::drop_in
