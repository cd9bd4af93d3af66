# cmake [-DMPI=<mpi> -DPRELOAD=<libraries>] [-DCONFIG=...] [-DREPORT=...] [-DSHADOW=...]
#       [-DERROR=...] [-DTEXT=...] [-DCHECK=...] [-DTAKEN=<function>|...] -P preload.cmake
#       -- <launcher> <-n> <ranks> <program>...
#
# Runs a program as a user of the drop-in library does: with mpirun and environment variables. With
# ERROR, the program must fail and print that text once. Otherwise it must succeed, print TEXT, and
# write the JSON report that CHECK inspects. hcomp must have handled all calls of the functions
# TAKEN.

# With older policies, "MPI" in quotes would name the variable MPI.
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/CommandTest.cmake)
command_after_dashes(command)
list(POP_FRONT command launcher)

foreach(name CONFIG REPORT SHADOW)
  if(${name})
    string(REPLACE "|" ";" value "${${name}}")
    set(ENV{HCOMP_${name}} "${value}")
    set(export_${name} -x HCOMP_${name})
  endif()
endforeach()
if(NOT PRELOAD)
  set(options "")
elseif(MPI MATCHES "^openmpi")
  set(options -x LD_PRELOAD=${PRELOAD} ${export_CONFIG} ${export_REPORT} ${export_SHADOW})
else()
  set(options -genv LD_PRELOAD ${PRELOAD})
endif()
if(REPORT MATCHES "^json:(.*)")
  set(file ${CMAKE_MATCH_1})
  file(REMOVE ${file})
endif()

execute_process(COMMAND ${launcher} ${options} ${command}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
message("${output}${errors}")

if(ERROR)
  require_error("${status}" "${errors}" "${ERROR}")
  return()
endif()
if(NOT status EQUAL 0)
  message(FATAL_ERROR "it failed with ${status}")
endif()
if(NOT "${output}${errors}" MATCHES "${TEXT}")
  message(FATAL_ERROR "it should have said: ${TEXT}")
endif()
if(CHECK)
  file(READ ${file} json)
  include(${CHECK})
endif()
