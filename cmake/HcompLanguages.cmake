# Finds the languages that can be tested here.
#
#   HCOMP_FORTRAN_<mpi>      the compiler of that MPI
#   HCOMP_NO_FORTRAN_<mpi>   why it cannot be used, or empty
#   HCOMP_PYTHON             an interpreter
#   HCOMP_MPI4PY             the MPI of its mpi4py
#   HCOMP_NO_MPI4PY          why mpi4py is missing, or empty
#   HCOMP_NO_NUMPY           why no interpreter with numpy can load our libraries, or empty
#
# Fortran is compiled by the MPIs' wrappers: CMake supports one Fortran compiler per build, and the
# Fortran modules of each MPI need its own compiler.

foreach(mpi IN LISTS HCOMP_MPIS)
  find_program(HCOMP_FORTRAN_${mpi} mpif90.${mpi})
  mark_as_advanced(HCOMP_FORTRAN_${mpi})
  set(HCOMP_NO_FORTRAN_${mpi} "")
  if(HCOMP_MISSING_${mpi})
    set(HCOMP_NO_FORTRAN_${mpi} "${HCOMP_MISSING_${mpi}}")
  elseif(NOT HCOMP_BUILD_PLUGINS)
    set(HCOMP_NO_FORTRAN_${mpi} "the plugins are not built")
  elseif(HCOMP_SANITIZE)
    set(HCOMP_NO_FORTRAN_${mpi} "Fortran programs are tested without sanitizers")
  elseif(NOT HCOMP_FORTRAN_${mpi})
    set(HCOMP_NO_FORTRAN_${mpi} "there is no mpif90.${mpi}")
  else()
    set(try ${PROJECT_BINARY_DIR}/try_fortran_${mpi})
    file(WRITE ${try}.f90 "program try\n  use mpi_f08\n  call MPI_Init()\nend program try\n")
    execute_process(COMMAND ${HCOMP_FORTRAN_${mpi}} -J ${PROJECT_BINARY_DIR} ${try}.f90 -o ${try}
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      set(HCOMP_NO_FORTRAN_${mpi} "mpif90.${mpi} compiles no program with mpi_f08")
    endif()
  endif()
endforeach()

set(HCOMP_MPI4PY "")
set(HCOMP_NO_NUMPY "")
if(NOT HCOMP_PYTHON)
  set(HCOMP_NO_NUMPY "there is no python3")
elseif(NOT HCOMP_BUILD_PLUGINS)
  set(HCOMP_NO_NUMPY "the plugins are not built")
elseif(HCOMP_SANITIZE)
  set(HCOMP_NO_NUMPY "a sanitized library needs a sanitized Python")
else()
  execute_process(COMMAND ${HCOMP_PYTHON} -c "import numpy" RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    set(HCOMP_NO_NUMPY "${HCOMP_PYTHON} has no numpy")
  endif()
endif()
set(HCOMP_NO_MPI4PY "${HCOMP_NO_NUMPY}")
if(NOT HCOMP_NO_MPI4PY)
  execute_process(COMMAND ${HCOMP_PYTHON} -c [[
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
text = MPI.Get_library_version()
print("openmpi" if "Open MPI" in text else "mpich" if "MPICH" in text else text)
]] RESULT_VARIABLE failed OUTPUT_VARIABLE HCOMP_MPI4PY ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    set(HCOMP_NO_MPI4PY "${HCOMP_PYTHON} has no mpi4py")
  elseif(NOT HCOMP_MPI4PY IN_LIST HCOMP_MPIS)
    set(HCOMP_NO_MPI4PY "mpi4py is for '${HCOMP_MPI4PY}', which is not in HCOMP_MPIS")
  elseif(HCOMP_MISSING_${HCOMP_MPI4PY})
    set(HCOMP_NO_MPI4PY "${HCOMP_MISSING_${HCOMP_MPI4PY}}")
  endif()
endif()
