# cmake -D COMPILER= -D INCLUDE= -P check_standard.cmake
#
# With C++17 every umbrella must end the compilation within a few lines, with a text that names the
# required standard.
cmake_minimum_required(VERSION 3.25)

file(GLOB umbrellas ${INCLUDE}/hcomp/*.hpp)
foreach(umbrella IN LISTS umbrellas)
  execute_process(COMMAND ${COMPILER} -std=c++17 -fsyntax-only -x c++ -I${INCLUDE} ${umbrella}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX MATCHALL "\n" lines "${output}")
  list(LENGTH lines count)
  if(result EQUAL 0 OR NOT output MATCHES "hcomp needs C\\+\\+20: compile with -std=c\\+\\+20" OR count GREATER 25)
    message(FATAL_ERROR "${umbrella} with C++17: status ${result}, ${count} lines:\n${output}")
  endif()
endforeach()
