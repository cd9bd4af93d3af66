# Checks a report of programs that reduce on communicators of 3 ranks and of 1, and on an
# intercommunicator. There MPI reduces in the group of 2 ranks, which is not a reduction of the
# program. The component handled exactly the functions TAKEN, separated by |. The report attributes
# each handled call to the program.
string(JSON last LENGTH "${json}" sites)
math(EXPR last "${last} - 1")
set(taken "")
foreach(i RANGE ${last})
  string(JSON site GET "${json}" sites ${i})
  foreach(key function caller strategy ranks)
    string(JSON ${key} GET "${site}" ${key})
  endforeach()
  if(NOT strategy MATCHES "^MPI$")  # not STREQUAL: MPI is also a variable
    list(APPEND taken ${function})
    if(NOT ranks EQUAL 3 OR NOT caller MATCHES "^(coll_)?program[_f08mpi]*\\+0x")
      message(FATAL_ERROR "this should not be in the report: ${site}")
    endif()
  endif()
endforeach()
list(REMOVE_DUPLICATES taken)
list(SORT taken)
string(REPLACE "|" ";" wanted "${TAKEN}")
list(SORT wanted)
if(NOT taken STREQUAL wanted)
  message(FATAL_ERROR "taken over were ${taken}, should be ${wanted}")
endif()
