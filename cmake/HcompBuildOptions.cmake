# hcomp::build_options: warnings and sanitizers for this build. Never part of the interface that
# users of the headers link.

add_library(hcomp_build_options INTERFACE)
add_library(hcomp::build_options ALIAS hcomp_build_options)

# Plain C++20, without a compiler's extensions.
set(CMAKE_CXX_EXTENSIONS OFF)

# hcomp::strict: all warnings are errors, regardless of HCOMP_WERROR.
add_library(hcomp_strict INTERFACE)
add_library(hcomp::strict ALIAS hcomp_strict)

if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  # No -Wpedantic for CUDA: nvcc's generated host code is not pedantic.
  target_compile_options(hcomp_build_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
  target_compile_options(hcomp_strict INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Werror>
    # A call of a host function on the device is only a warning, and nvcc drops the code around it.
    $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--Werror=cross-execution-space-call>)
  if(HCOMP_WERROR)
    target_link_libraries(hcomp_build_options INTERFACE hcomp::strict)
  endif()
endif()

# Compile options for code whose run time does not matter. They come last on the command line. -O3
# takes twice as long to compile as -O1, and -O1 twice as long as -O0. Builds below -O2, with clang
# or with sanitizers choose their own optimisation.
#
# | variable               | for                                      | test build | other builds |
# | HCOMP_UNTIMED          | programs and libraries                   | -O0        | -O1          |
# | HCOMP_UNTIMED_TEST     | tests                                    | -O0        | -O0          |
# | HCOMP_UNTIMED_IN_TESTS | examples, benchmarks, our own reductions | -O1        | none         |
#
# A test build sets HCOMP_FAST_BUILD. Measurements need -O3.
option(HCOMP_FAST_BUILD "For test runs: optimise less what nobody times, one GPU architecture" OFF)
set(HCOMP_UNTIMED "")
set(HCOMP_UNTIMED_TEST "")
set(HCOMP_UNTIMED_IN_TESTS "")
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" AND CMAKE_CXX_FLAGS_RELEASE MATCHES "-O[23]")
  set(HCOMP_UNTIMED "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
  set(HCOMP_UNTIMED_TEST "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O0>")
  if(HCOMP_FAST_BUILD)
    set(HCOMP_UNTIMED_IN_TESTS ${HCOMP_UNTIMED})
    set(HCOMP_UNTIMED ${HCOMP_UNTIMED_TEST})
  endif()
endif()

# HCOMP_SANITIZER_LIBRARY: library that a foreign program must load before one of ours.
set(HCOMP_SANITIZER_LIBRARY "")
if(HCOMP_SANITIZE)
  string(REPLACE ";" "," sanitizers "${HCOMP_SANITIZE}")
  set(flags -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(hcomp_build_options INTERFACE -fsanitize=${sanitizers})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND flags -Wno-maybe-uninitialized)  # false alarms in code that sanitizers add
  endif()
  target_compile_options(hcomp_build_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
  if(HCOMP_SANITIZE MATCHES "address")
    set(library libasan.so)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      set(library libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
    endif()
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${library}
      OUTPUT_VARIABLE HCOMP_SANITIZER_LIBRARY OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # shared, like g++'s: programs load our libraries
      cmake_path(GET HCOMP_SANITIZER_LIBRARY PARENT_PATH folder)
      target_link_options(hcomp_build_options INTERFACE -shared-libasan -Wl,-rpath,${folder})
    endif()
  endif()
  hcomp_note("sanitizers" "${sanitizers}")
endif()
