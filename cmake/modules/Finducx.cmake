# Finds UCX with its CMake package, or with pkg-config if that is missing (UCX before 1.11). Sets
# ucx_FOUND and the targets ucx::ucp and ucx::ucs.

find_package(ucx CONFIG QUIET)
if(NOT TARGET ucx::ucp)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(ucx_pkgconfig QUIET IMPORTED_TARGET ucx)
  endif()
  if(TARGET PkgConfig::ucx_pkgconfig)
    set(ucx_VERSION ${ucx_pkgconfig_VERSION})
    foreach(library ucp ucs)
      add_library(ucx::${library} INTERFACE IMPORTED)
      target_link_libraries(ucx::${library} INTERFACE PkgConfig::ucx_pkgconfig)
    endforeach()
  endif()
endif()

include(FindPackageHandleStandardArgs)
set(ucx_target "")
if(TARGET ucx::ucp)
  set(ucx_target ucx::ucp)
endif()
find_package_handle_standard_args(ucx REQUIRED_VARS ucx_target VERSION_VAR ucx_VERSION)
