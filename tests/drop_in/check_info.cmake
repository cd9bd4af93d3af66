# cmake -DSTATUS=<number> -DTEXT=<regular expression> -P check_info.cmake -- <command>...
#
# The command must end with that status and say something like the text.

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

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output)
message("${output}")
if(NOT status STREQUAL STATUS)
  message(FATAL_ERROR "it ended with ${status}, it should have ended with ${STATUS}")
endif()
if(NOT output MATCHES "${TEXT}")
  message(FATAL_ERROR "it should have said: ${TEXT}")
endif()
