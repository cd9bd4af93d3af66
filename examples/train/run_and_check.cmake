# cmake -DERROR=<text> -DJSON=<file> -P run_and_check.cmake -- <command>...
#
# Runs the command with --json <file>. With an ERROR it must fail and say that once; else it must
# succeed, and the file must hold one run per codec and seed with numbers that are finite.

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
string(JSON runs LENGTH "${json}" runs)
math(EXPR last "${runs} - 1")
foreach(i RANGE ${last})
  foreach(figure test_accuracy test_loss train_loss bytes_sent_per_step compression_ratio
      seconds_compute seconds_encode seconds_communicate)
    string(JSON value GET "${json}" runs ${i} ${figure})  # NaN and infinity are null in JSON
    if(NOT value MATCHES "^[0-9]+(\\.[0-9]*)?(e[-+]?[0-9]+)?$")
      message(FATAL_ERROR "run ${i}: ${figure} is '${value}'")
    endif()
  endforeach()
  string(JSON first GET "${json}" runs ${i} curve 0 train_loss)
  string(JSON end GET "${json}" runs ${i} train_loss)
  if(NOT end LESS first)
    message(FATAL_ERROR "run ${i}: the training loss went from ${first} to ${end}")
  endif()
endforeach()
