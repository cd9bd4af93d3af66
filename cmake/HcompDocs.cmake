# The target `docs`: the API reference, by Doxygen, in docs/html of the build. Warnings are errors.

find_package(Doxygen QUIET)
find_program(HCOMP_SED sed)
mark_as_advanced(HCOMP_SED)
if(NOT DOXYGEN_FOUND OR NOT HCOMP_SED)
  hcomp_note("docs" "off, because Doxygen was not found")
  return()
endif()

set(HCOMP_DOCS ${PROJECT_BINARY_DIR}/docs)
file(GLOB_RECURSE pages RELATIVE ${PROJECT_SOURCE_DIR} examples/README.md plugins/*/README.md)
list(PREPEND pages README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md tests/README.md
  include kernels plugins/hcomp plugins/README.md)
set(HCOMP_DOCS_INPUT "")
foreach(page IN LISTS pages)
  string(APPEND HCOMP_DOCS_INPUT " \"${PROJECT_SOURCE_DIR}/${page}\"")
endforeach()
configure_file(cmake/docs/Doxyfile.in ${HCOMP_DOCS}/Doxyfile @ONLY)

add_custom_target(docs
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${HCOMP_DOCS}/html
  COMMAND ${DOXYGEN_EXECUTABLE} ${HCOMP_DOCS}/Doxyfile
  COMMENT "The API reference, in ${HCOMP_DOCS}/html/index.html" VERBATIM)
hcomp_note("docs" "on, by Doxygen ${DOXYGEN_VERSION}: target docs")
