# Checks the report of two ranks that alternate 30 all-reduces of int32 and int64. The report has a
# comparison for every second call of int32 and every third call of int64.

set(found "")
foreach(i 0 1)
  string(JSON type GET "${json}" sites ${i} type)
  string(JSON compared GET "${json}" sites ${i} compared)
  list(APPEND found "${type} ${compared}")
endforeach()
list(SORT found)
if(NOT found STREQUAL "int32 30;int64 20")
  message(FATAL_ERROR "compared were ${found}, it should have been int32 30;int64 20")
endif()
