include(${CMAKE_CURRENT_LIST_DIR}/planted.cmake)

set(style .clang-format "BasedOnStyle: Google\nColumnLimit: 100")

plant(${style})
execute_process(COMMAND ${PYTHON} ${CHECK} --root ${WORK}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 77)
  string(STRIP "${output}" output)
  message("${output}")  # "Skipped: ..."
  return()
endif()

expect("formatted code" "" ${style} include/a.hpp "int a" plugins/x/b.c "int b")
expect("files of other folders and languages" "" ${style} cmake/a.hpp "int  a" tests/a.py "a  = 1")
foreach(name include/a.hpp plugins/x/a.cpp plugins/x/a.h plugins/x/a.bpf.c kernels/a.cuh kernels/a.cu
    tests/x/a.cpp examples/a.cpp)
  expect("two blanks in ${name}" "${name}:1:4: error: code should be clang-formatted"
    ${style} ${name} "int  a")
endforeach()
expect("how to format" "format them: clang-format-14 -i include/a.hpp include/b.hpp 3 files, 2 to format"
  ${style} include/a.hpp "int  a" include/b.hpp "int  b" include/c.hpp "int c")
expect("no style" "there is no .clang-format below" include/a.hpp "int a")
