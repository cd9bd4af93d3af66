# Runs in cpack after the packages' folders are filled.

# Fails if a component was not built, instead of creating an empty package.
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  file(GLOB_RECURSE files "${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/*")
  if(NOT files)
    message(FATAL_ERROR "package '${component}' would be empty: build first (cmake --build .)")
  endif()
endforeach()

# Debian's Python searches this folder for packages, and not share/hcomp/python.
set(root ${CPACK_TEMPORARY_DIRECTORY}/python/usr)
file(MAKE_DIRECTORY ${root}/lib/python3/dist-packages)
file(CREATE_LINK ../../../share/hcomp/python/hcomp ${root}/lib/python3/dist-packages/hcomp SYMBOLIC)
