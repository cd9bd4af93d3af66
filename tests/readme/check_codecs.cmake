# cmake -D PAGE=<file> -D INFO=<hcomp-info> -P check_codecs.cmake: the table of codecs on the page
# equals the output of `hcomp-info --codecs`.
cmake_minimum_required(VERSION 3.25)

set(ENV{HCOMP_CODECS})
execute_process(COMMAND ${INFO} --codecs OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
file(READ "${PAGE}" page)
string(FIND "${page}" "<!-- codecs -->\n${table}<!-- end of codecs -->\n" found)
if(table STREQUAL "" OR found EQUAL -1)
  message(FATAL_ERROR "${PAGE}: between <!-- codecs --> and <!-- end of codecs --> there should be\n${table}")
endif()
