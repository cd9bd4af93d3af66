# For scripts that run a command in a test: cmake -D... -P script.cmake -- <command>...

# command_after_dashes(<variable>): the words after the "--".
function(command_after_dashes variable)
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
  set(${variable} "${command}" PARENT_SCOPE)
endfunction()

# require_error(<status> <output> <text>): the command failed and printed the text once.
function(require_error status errors text)
  if(status EQUAL 0)
    message(FATAL_ERROR "it succeeded, it should have failed")
  endif()
  string(FIND "${errors}" "${text}" first)
  string(FIND "${errors}" "${text}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "it should have said this once: ${text}")
  endif()
endfunction()
