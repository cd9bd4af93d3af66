# cmake -DSTATUS=<number> -DTEXT=<regular expression> -P check_info.cmake -- <command>...
#
# The command must exit with STATUS and print text that matches TEXT.

include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/CommandTest.cmake)
command_after_dashes(command)

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output
  ERROR_VARIABLE output)
message("${output}")
if(NOT status STREQUAL STATUS)
  message(FATAL_ERROR "it ended with ${status}, it should have ended with ${STATUS}")
endif()
if(NOT output MATCHES "${TEXT}")
  message(FATAL_ERROR "it should have said: ${TEXT}")
endif()
