# install(): merges three include roots into one tree. Each component has its own export file,
# because each has its own dependencies. Also installs a CMake package and pkg-config files. The
# components of install() are the Debian packages of HcompPackages.cmake.

include(CMakePackageConfigHelpers)

install(DIRECTORY include/hcomp plugins/hcomp kernels/hcomp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h" PATTERN "*.cuh")

# These files do not depend on the architecture, so they are installed below share/.
set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/hcomp)

foreach(component hcomp mpi ucx gpu)
  set(target hcomp)
  if(NOT component STREQUAL "hcomp")
    set(target hcomp_${component})
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  install(TARGETS ${target} EXPORT hcomp_${component}_export COMPONENT dev)
  install(EXPORT hcomp_${component}_export
    NAMESPACE hcomp:: FILE hcomp-${component}-targets.cmake DESTINATION ${package_dir}
    COMPONENT dev)
endforeach()

# This file tells users of the package whether hcomp::compiled was built before the installation.
set(compiled_library
  ${CMAKE_INSTALL_LIBDIR}/${CMAKE_STATIC_LIBRARY_PREFIX}hcomp_compiled${CMAKE_STATIC_LIBRARY_SUFFIX})
configure_package_config_file(cmake/hcomp-config.cmake.in hcomp-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(hcomp-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/hcomp-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/hcomp-config-version.cmake
  cmake/modules/Finducx.cmake
  DESTINATION ${package_dir} COMPONENT dev)

# hcomp_install_pkg_config(<name> <package> <words> [REQUIRES <names>] [CFLAGS <flags>]
#                          [LIBS <flags>] [TARGET <target>])
#
# Installs <name>.pc, for programs without CMake. With TARGET: only if that library was built.
function(hcomp_install_pkg_config name package words)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "REQUIRES;CFLAGS;LIBS;TARGET" "")
  set(file ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/hcomp.pc.in ${file} @ONLY)
  set(folder ${CMAKE_INSTALL_DATADIR}/pkgconfig)
  if(arg_TARGET)
    install(CODE "
      if(EXISTS \"$<TARGET_FILE:${arg_TARGET}>\")
        file(INSTALL \"${file}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${folder}\")
      endif()" COMPONENT ${package})
  else()
    install(FILES ${file} DESTINATION ${folder} COMPONENT ${package})
  endif()
endfunction()

set(include -I\${includedir})
hcomp_install_pkg_config(hcomp dev "C++ headers" CFLAGS "${include} -pthread" LIBS "-pthread")
hcomp_install_pkg_config(hcomp-mpi dev "C++ headers for MPI, which mpicxx finds"
  REQUIRES hcomp CFLAGS "-DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX")
hcomp_install_pkg_config(hcomp-ucx dev "C++ headers for UCX" REQUIRES "hcomp ucx")
# nvcc does not accept -pthread.
hcomp_install_pkg_config(hcomp-gpu dev "C++ headers for CUDA, to be compiled by nvcc"
  CFLAGS "${include} --expt-relaxed-constexpr -Xcompiler=-pthread" LIBS "-Xcompiler=-pthread")
unset(include)

# In no Debian package: files in /usr need no module.
configure_file(cmake/modulefile.in modulefile @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/modulefile RENAME ${PROJECT_VERSION}
  DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/hcomp COMPONENT modulefile)
