# cmake -D README=<file> -D INFO=<hcomp-info> -P check_codecs.cmake: the codecs of the first page are those
# of `hcomp-info --codecs`.
cmake_minimum_required(VERSION 3.25)

set(ENV{HCOMP_CODECS})
execute_process(COMMAND ${INFO} --codecs OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
file(READ "${README}" page)
string(FIND "${page}" "<!-- codecs -->\n${table}<!-- end of codecs -->\n" found)
if(table STREQUAL "" OR found EQUAL -1)
  message(FATAL_ERROR "between <!-- codecs --> and <!-- end of codecs --> there should be\n${table}")
endif()
