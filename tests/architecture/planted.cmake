# For scripts that plant a mistake in a small tree of their own and want a check to find it.
#
# expect(<what> <regex> <path> <content>...): with these files, CHECK fails with a message that
# matches the regex; with an empty regex it passes. The list `options` is given to CHECK, too.
cmake_minimum_required(VERSION 3.25)

set(options "")
function(expect what regex)
  file(REMOVE_RECURSE "${WORK}")
  set(files ${ARGN})
  while(files)
    list(POP_FRONT files path content)
    file(WRITE "${WORK}/${path}" "${content}\n")
  endwhile()
  execute_process(COMMAND ${CMAKE_COMMAND} -D ROOT=${WORK} ${options} -P ${CHECK}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")  # CMake breaks lines
  if(regex STREQUAL "")
    if(NOT result EQUAL 0)
      message(SEND_ERROR "${what}: should pass, but says:\n${output}")
    endif()
  elseif(result EQUAL 0)
    message(SEND_ERROR "${what}: was not found")
  elseif(NOT output MATCHES "${regex}")
    message(SEND_ERROR "${what}: was found, but the message does not match '${regex}':\n${output}")
  endif()
  file(REMOVE_RECURSE "${WORK}")
endfunction()
