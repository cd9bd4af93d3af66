# cmake -D NAME=<page> -D ABOUT=<words> -D VERSION= -D HELP2MAN= -D OUTPUT=<file>
#       -P man_page.cmake -- <program>...
#
# Builds a manual page from the program's --help output. The titles of its option groups become the
# headings of the page.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/CommandTest.cmake)

command_after_dashes(program)
execute_process(COMMAND ${program} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "\n\\[Option Group: ([^]]*)\\]\n  Options:" "\n\\1:" help "${help}")
string(REGEX REPLACE "\n    (-[^\n]*)" "\n  \\1" help "${help}")
string(REGEX REPLACE " \\.\\.\\. ([A-Z])" " ...  \\1" help "${help}")  # option, text

set(folder ${OUTPUT}.d)
file(WRITE ${folder}/help "${help}")
file(WRITE ${folder}/${NAME} "#!/bin/sh\ncat '${folder}/help'\n")
file(CHMOD ${folder}/${NAME} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
execute_process(COMMAND ${HELP2MAN} --no-info "--version-string=${NAME} (hcomp) ${VERSION}" "--name=${ABOUT}"
    --manual=hcomp --output=${OUTPUT} ${folder}/${NAME}
  COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${folder})
