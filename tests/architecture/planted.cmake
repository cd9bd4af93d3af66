# For scripts that plant a mistake in a small tree of their own and expect a check to find it.
#
# expect(<what> <regex> <path> <content>...): with these files, CHECK fails with a message that
# matches the regex; with an empty regex it passes. CHECK also gets the list `options`.
#
# plant(<path> <content>...): plants only these files; judge(<what> <regex>) then runs CHECK.
# CHECK is a CMake script, or a Python script that PYTHON runs.
cmake_minimum_required(VERSION 3.25)

set(options "")
function(plant)
  file(REMOVE_RECURSE "${WORK}")
  set(files ${ARGN})
  while(files)
    list(POP_FRONT files path content)
    file(WRITE "${WORK}/${path}" "${content}\n")
  endwhile()
endfunction()

function(judge what regex)
  if(CHECK MATCHES "[.]py$")
    set(command ${PYTHON} ${CHECK} --root ${WORK} ${options})
  else()
    set(command ${CMAKE_COMMAND} -D ROOT=${WORK} ${options} -P ${CHECK})
  endif()
  execute_process(COMMAND ${command}
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
endfunction()

# git(<folder> <arguments>...): runs in a planted repository, without the user's settings.
function(git folder)
  execute_process(COMMAND git -c user.name=n -c user.email=e@e -c commit.gpgsign=false
    -c core.hooksPath=/dev/null -c init.defaultBranch=main ${ARGN}
    WORKING_DIRECTORY ${folder} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "git ${ARGN} failed:\n${output}")
  endif()
endfunction()

function(expect what regex)
  plant(${ARGN})
  judge("${what}" "${regex}")
  file(REMOVE_RECURSE "${WORK}")
endfunction()
