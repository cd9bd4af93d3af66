# hcomp_add_man_page(<page> <words> INSTALL|NO_INSTALL COMMAND <program>...
#                    [DEPENDS <target or file>...])
#
# Builds man/<page>.1 from the program's --help output with help2man, if available. The target `man`
# builds all pages. Pages of installed programs are installed with them.

find_program(HCOMP_HELP2MAN help2man)
mark_as_advanced(HCOMP_HELP2MAN)
if(HCOMP_SANITIZE)  # building a page runs its program
  set(HCOMP_HELP2MAN "")
  hcomp_note("man pages" "off, because HCOMP_SANITIZE is ${HCOMP_SANITIZE}")
elseif(HCOMP_HELP2MAN)
  add_custom_target(man ALL)
  hcomp_note("man pages" "on, by help2man")
else()
  hcomp_note("man pages" "off, because help2man was not found")
endif()

function(hcomp_add_man_page name words install)
  if(NOT HCOMP_HELP2MAN)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "COMMAND;DEPENDS")
  set(page ${PROJECT_BINARY_DIR}/man/${name}.1)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -D NAME=${name} -D ABOUT=${words} -D VERSION=${PROJECT_VERSION}
      -D HELP2MAN=${HCOMP_HELP2MAN} -D OUTPUT=${page}
      -P ${PROJECT_SOURCE_DIR}/cmake/man_page.cmake -- ${arg_COMMAND}
    DEPENDS ${arg_DEPENDS} ${PROJECT_SOURCE_DIR}/cmake/man_page.cmake VERBATIM)
  add_custom_target(man_${name} DEPENDS ${page})
  add_dependencies(man man_${name})
  if(install STREQUAL "INSTALL" AND HCOMP_INSTALL)
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools OPTIONAL)
  endif()
endfunction()
