# cmake -D COMPILER= -D INCLUDE= -D FILE= -D CASE=<CASE_x or NONE> -P check.cmake
#
# Compiles FILE with CASE defined: it must fail with a message that matches the case's regex.
# Without a case it must compile, which shows that only the case causes the error.
cmake_minimum_required(VERSION 3.25)

set(definition "")
if(NOT CASE STREQUAL "NONE")
  set(definition -D${CASE})
  file(STRINGS "${FILE}" lines REGEX "^// ${CASE}: ")
  string(REGEX REPLACE "^// ${CASE}: *" "" regex "${lines}")
  if(regex STREQUAL "")
    message(FATAL_ERROR "${FILE} has no line `// ${CASE}: <regex>`")
  endif()
endif()

set(ENV{LC_ALL} C)  # plain quotes in messages
execute_process(COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -fsyntax-only -I${INCLUDE} ${definition}
    ${FILE}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)

if(CASE STREQUAL "NONE")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "without a case ${FILE} must compile, but:\n${output}")
  endif()
elseif(result EQUAL 0)
  message(FATAL_ERROR "${FILE} compiles with ${CASE}")
elseif(NOT output MATCHES "${regex}")
  message(FATAL_ERROR "${FILE} does not compile with ${CASE}, as it should, but no message matches "
    "'${regex}':\n${output}")
endif()
