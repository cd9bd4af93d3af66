# Tests that examples/support/plot.py draws what programs write.

find_program(HCOMP_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(HCOMP_PYTHON python3)
mark_as_advanced(HCOMP_PYTHON)
set(HCOMP_NO_MATPLOTLIB "")
if(NOT HCOMP_PYTHON)
  set(HCOMP_NO_MATPLOTLIB "there is no python3")
else()
  execute_process(COMMAND ${HCOMP_PYTHON} -c "import matplotlib" RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    set(HCOMP_NO_MATPLOTLIB "${HCOMP_PYTHON} has no matplotlib")
  endif()
endif()

# hcomp_add_plot_test(<name>): plot.py's own tests.
# hcomp_add_plot_test(<name> <output> CASES <case>... HAS <text>...)
#
# Draws the JSON that these tests of the same folder have written, <case>.json each, into a picture
# or report that has the texts.
function(hcomp_add_plot_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "CASES;HAS")
  set(command ${HCOMP_PYTHON} ${PROJECT_SOURCE_DIR}/examples/support/plot_test.py)
  if(HCOMP_NO_MATPLOTLIB)
    hcomp_add_skipped_test(${name} "${HCOMP_NO_MATPLOTLIB}")
  elseif(NOT arg_UNPARSED_ARGUMENTS)
    hcomp_add_test(${name} COMMAND ${command})
  elseif(arg_CASES)
    list(TRANSFORM arg_CASES PREPEND ${CMAKE_CURRENT_BINARY_DIR}/ OUTPUT_VARIABLE files)
    list(TRANSFORM files APPEND .json)
    hcomp_add_test(${name} COMMAND ${command} ${CMAKE_CURRENT_BINARY_DIR}/${arg_UNPARSED_ARGUMENTS}
      ${files} --has ${arg_HAS})
    list(TRANSFORM arg_CASES PREPEND "${HCOMP_TEST_PREFIX}")
    set_property(TEST ${arg_CASES} APPEND PROPERTY FIXTURES_SETUP ${HCOMP_TEST_PREFIX}${name})
    set_property(TEST ${HCOMP_TEST_PREFIX}${name} PROPERTY FIXTURES_REQUIRED ${HCOMP_TEST_PREFIX}${name})
  else()
    hcomp_add_skipped_test(${name} "no test runs here that writes what it draws")
  endif()
endfunction()
