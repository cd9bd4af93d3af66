# Debian packages, built by `cpack` in the build folder: the files of install() in /usr, one package
# per component. A library is packaged if it was built. dpkg-shlibdeps finds the dependencies.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hcomp)
set(CPACK_PACKAGE_CONTACT "The hcomp maintainers")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_ALL dev tools python)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)

# hcomp_package(<component> <name> <section> <architecture> <words> [DEPENDS <packages>])
#
# An empty architecture means that of this machine, with the dependencies of its binaries.
function(hcomp_package component name section architecture words)
  cmake_parse_arguments(PARSE_ARGV 5 arg "" "DEPENDS" "")
  string(TOUPPER ${component} upper)
  set(of CPACK_DEBIAN_${upper}_PACKAGE)
  set(${of}_NAME ${name} PARENT_SCOPE)
  set(${of}_SECTION ${section} PARENT_SCOPE)
  if(architecture)
    set(${of}_ARCHITECTURE ${architecture} PARENT_SCOPE)
  endif()
  if(arg_DEPENDS)
    set(${of}_DEPENDS "${arg_DEPENDS}" PARENT_SCOPE)
  endif()
  set(CPACK_COMPONENT_${upper}_DESCRIPTION
    "${PROJECT_DESCRIPTION}: ${words}" PARENT_SCOPE)
endfunction()

hcomp_package(dev libhcomp-dev libdevel "" "headers, CMake and pkg-config files, plans compiled")
hcomp_package(tools hcomp-tools science "" "hcomp-info, hcomp-aggregator and hcomp_perf")
hcomp_package(python python3-hcomp python all "the Python package, which finds the other packages' libraries"
  DEPENDS "python3, python3-numpy")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "libhcomp-ucx | libhcomp-openmpi | libhcomp-mpich, python3-mpi4py")
foreach(kind ucx openmpi mpich abi)
  if(TARGET hcomp_c_${kind})
    list(APPEND CPACK_COMPONENTS_ALL ${kind})
    if(kind STREQUAL "abi")  # no package of Debian 12 has libmpi_abi.so.1
      hcomp_package(abi libhcomp-abi libs "" "libraries for programs that nobody recompiles, over any MPI with \
the ABI of MPI 5, which is not of Debian" DEPENDS "libc6, libgcc-s1")
    else()
      hcomp_package(${kind} libhcomp-${kind} libs ""
        "libraries for programs that nobody recompiles, for C, Fortran and Python, over ${kind}")
      string(TOUPPER ${kind} upper)
      set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
      list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/plugins/${kind})
    endif()
  endif()
endforeach()

if(TARGET hcomp_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  # A test build links the shared CUDA runtime, which is not of Debian.
  hcomp_package(cuda libhcomp-cuda libs "" "plans for vectors in GPU memory, for C and Python"
    DEPENDS "libc6, libgcc-s1")
  list(APPEND CPACK_COMPONENTS_ALL nccl)
  hcomp_package(nccl libhcomp-nccl libs "" "library for NCCL programs that nobody recompiles"
    DEPENDS "libc6, libgcc-s1, libhcomp-cuda")
endif()

set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/prepare_packages.cmake)
include(CPack)
