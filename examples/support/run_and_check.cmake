# cmake -DERROR=<text> -DJSON=<file> -DCHECK=<file> -P run_and_check.cmake -- <command>...
#
# Runs the command with --json <file>. With an ERROR it must fail and say that once; else it must
# succeed, and CHECK looks at what the file holds, in the variable json.

set(command "")
set(own TRUE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(NOT own)
    list(APPEND command "${CMAKE_ARGV${i}}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(own FALSE)
  endif()
endforeach()

file(REMOVE ${JSON})
execute_process(COMMAND ${command} --json ${JSON}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
message("${output}${errors}")

if(ERROR)
  if(status EQUAL 0)
    message(FATAL_ERROR "it succeeded, it should have failed")
  endif()
  string(FIND "${errors}" "${ERROR}" first)
  string(FIND "${errors}" "${ERROR}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "it should have said this once: ${ERROR}")
  endif()
  return()
endif()

if(NOT status EQUAL 0)
  message(FATAL_ERROR "it failed with ${status}")
endif()
file(READ ${JSON} json)
include(${CHECK})
