# cmake -DERROR=<text> -DJSON=<file> -DCHECK=<file> -P run_and_check.cmake -- <command>...
#
# Runs the command with --json <file>. With ERROR, the command must fail and print this text once.
# Without it, the command must succeed. The script CHECK then checks the content of the file, in the
# variable json.

include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/CommandTest.cmake)
command_after_dashes(command)

file(REMOVE ${JSON})
execute_process(COMMAND ${command} --json ${JSON}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
message("${output}${errors}")

if(ERROR)
  require_error("${status}" "${errors}" "${ERROR}")
  return()
endif()

if(NOT status EQUAL 0)
  message(FATAL_ERROR "it failed with ${status}")
endif()
file(READ ${JSON} json)
include(${CHECK})
