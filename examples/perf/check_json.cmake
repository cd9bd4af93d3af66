# Checks that the JSON has ROWS rows and that their numbers are finite.
string(JSON rows LENGTH "${json}" rows)
if(NOT rows EQUAL ROWS)
  message(FATAL_ERROR "it has ${rows} rows, it should have ${ROWS}")
endif()
foreach(figure seconds seconds_min seconds_max vs_mpi error)
  # NaN and infinity are null in JSON
  string(REGEX MATCHALL "\"${figure}\": [0-9][-+.0-9e]*[,\n]" found "${json}")
  list(LENGTH found found)
  if(NOT found EQUAL ROWS)
    message(FATAL_ERROR "${figure} is a number in ${found} of ${ROWS} rows")
  endif()
endforeach()
