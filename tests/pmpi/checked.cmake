# A report of two ranks and 30 sums of each type in turns, of which every second one of int32 and every
# third one of int64 was compared.

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
