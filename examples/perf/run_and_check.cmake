# cmake -DERROR=<text> -DROWS=<n> -DJSON=<file> -P run_and_check.cmake -- <command>...
#
# Runs the command with --json <file>. With an ERROR it must fail and say that once; else it must
# succeed, and the file must hold so many rows with figures that are finite.

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
string(JSON rows LENGTH "${json}" rows)
if(NOT rows EQUAL ROWS)
  message(FATAL_ERROR "it has ${rows} rows, it should have ${ROWS}")
endif()
foreach(figure seconds seconds_min seconds_max vs_mpi error)
  # NaN and infinity are null in JSON
  string(REGEX MATCHALL "\"${figure}\": [0-9][-+.0-9e]*[,\n]" found "${json}")
  list(LENGTH found found)
  if(NOT found EQUAL ROWS)
    message(FATAL_ERROR "${figure} is a number in ${found} of ${ROWS} rows")
  endif()
endforeach()
