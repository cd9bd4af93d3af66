# For cpack, when all is in the folders that packages are made of.

# What was not built is missed here, and not by who installs an empty package.
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  file(GLOB_RECURSE files "${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/*")
  if(NOT files)
    message(FATAL_ERROR "package '${component}' would be empty: build first (cmake --build .)")
  endif()
endforeach()

# Debian's Python looks for packages here, and not in share/hcomp/python.
set(root ${CPACK_TEMPORARY_DIRECTORY}/python/usr)
file(MAKE_DIRECTORY ${root}/lib/python3/dist-packages)
file(CREATE_LINK ../../../share/hcomp/python/hcomp ${root}/lib/python3/dist-packages/hcomp SYMBOLIC)
