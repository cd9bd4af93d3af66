# Turns test files into ctest cases. A new test file needs no edit of any CMakeLists.txt:
#
#   tests/<folder>/*_test.cpp   one ctest case <folder>.<file> per file; one doctest program per
#                               folder and optimisation, because a linker keeps only one of two
#                               definitions of a template
#
#   tests/mpi/*_test.cpp        one program per file and MPI, cases mpi.<file>.<mpi>.np<ranks>
#   tests/ucx/*_test.cpp        the same with UCX
#
#   tests/gpu/*_test.cu         one program per file; skipped without a GPU. Cases ptx.<file> run
#                               the same program on the emulator of tests/support/ptx
#   tests/ucx/device_test.cu    the same, with UCX
#
#   tests/compile_fail/*.cpp    must not compile; see tests/compile_fail/check.cmake
#   tests/bench/*.cpp           one benchmark per file, a short smoke run in ctest
#   tests/<folder>/CMakeLists.txt   replaces these rules for its folder
#
# A file may set compile options in comment lines of their own:
#
#   // optimise: -O1            default: -O3 in core and codec, -O0 in other folders
#   // optimise sanitized: -O1  default: -O0 with sanitizers
#   // max_simd: avx2 baseline  also cases <folder>.<file>.avx2, ..., with HCOMP_MAX_SIMD=avx2, ...
#   // part: full              the part of its cases, instead of that of the folder; see below
#
# A file of tests/mpi or tests/ucx may also contain:
#
#   // ranks: 2 4               numbers of ranks; default: 1 2 3 4 5 7 8
#   // main: own                the file has its own main()
#   // run: single              started as one process without an MPI launcher; forks its ranks
#   // beside: nothing          with `run: single`: no other case runs at the same time
#
#   // run: ulfm                like `run: single`, but starts MPI jobs with HCOMP_TEST_LAUNCH and
#                               kills ranks; only for MPIs that continue then
#   // timeout: 200             seconds for one case; default: 120
#
# A case that cannot run here is registered and shows as "Skipped" with the reason.

set(HCOMP_TEST_PREFIX "" CACHE STRING "Put before the name of every ctest case, e.g. 'asan.'")
option(HCOMP_TEST_FEW_CASES "Tests of all value types, rank counts or bits take a few of them" OFF)
set(HCOMP_TEST_RANKS "" CACHE STRING "If set, MPI tests run only with these rank counts, e.g. 1;3;4")
set(HCOMP_TEST_ONLY "" CACHE STRING "If set, only these folders of tests/, or files such as collective/plan")
set(HCOMP_TEST_EXCLUDE "" CACHE STRING "Folders of tests/, or files such as collective/plan, that are left out")
# Every case belongs to one part, its ctest label. tests/run.sh runs the part default; its options
# add parts:
#   default   libraries, codecs, both MPIs, UCX, the preloaded library, C, Fortran, Python, pages
#   gpu       CUDA code, executed by a GPU where there is one, and by the PTX machine
#   torch     PyTorch
#   wheels    PyPI's MPICH 5 and Open MPI 5
#   full      more rank counts, headers compiled alone, emulated networks, simulated clusters,
#             aggregation over UDP, hcomp_perf, the training job, benchmarks, INCEPTIONN's RTL
set(HCOMP_ALL_TEST_PARTS default gpu torch wheels full)
set(HCOMP_TEST_PARTS "${HCOMP_ALL_TEST_PARTS}" CACHE STRING
  "Parts of the tests to build and register: default, gpu, torch, wheels, full")
foreach(part IN LISTS HCOMP_TEST_PARTS)
  if(NOT part IN_LIST HCOMP_ALL_TEST_PARTS)
    list(JOIN HCOMP_ALL_TEST_PARTS ", " parts)
    message(FATAL_ERROR "hcomp: HCOMP_TEST_PARTS has '${part}'; the parts are ${parts}")
  endif()
endforeach()
set(HCOMP_TEST_PART default)  # of the cases of this folder and those below it
option(HCOMP_TEST_LONG "Also register the tests that take a minute of a processor" ON)

# Sanitizers slow tests down. Generous limits are fine, because such runs look for other errors.
set(HCOMP_TEST_SLOWDOWN 1 CACHE STRING "Factor of the tests' time limits; with sanitizers 4")
set(HCOMP_SANITIZER_ENVIRONMENT "")
set(HCOMP_ENVIRONMENT_WITHOUT_MPI "")
if(HCOMP_SANITIZE)
  set(HCOMP_TEST_SLOWDOWN 4)
  set(HCOMP_SANITIZER_ENVIRONMENT
    # MPI leaks are suppressed by library name. For that the leak checker needs complete stacks.
    ASAN_OPTIONS=fast_unwind_on_malloc=0
    LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0
    UBSAN_OPTIONS=print_stacktrace=1
    TSAN_OPTIONS=halt_on_error=1)
  # Complete stacks take a tenth of the time of most tests, and most of it with many small
  # allocations.
  set(HCOMP_ENVIRONMENT_WITHOUT_MPI ASAN_OPTIONS=fast_unwind_on_malloc=1)
endif()

# hcomp_is_chosen(<variable> <folder> [<folder>/<file>]): by HCOMP_TEST_ONLY and HCOMP_TEST_EXCLUDE.
function(hcomp_is_chosen variable)
  set(chosen TRUE)
  if(HCOMP_TEST_ONLY)
    set(chosen FALSE)
  endif()
  foreach(name IN LISTS ARGN)
    if(name IN_LIST HCOMP_TEST_ONLY)
      set(chosen TRUE)
    endif()
  endforeach()
  foreach(name IN LISTS ARGN)
    if(name IN_LIST HCOMP_TEST_EXCLUDE)
      set(chosen FALSE)
    endif()
  endforeach()
  set(${variable} ${chosen} PARENT_SCOPE)
endfunction()

# hcomp_enter_test_part(<part> <folder>): the cases of this folder and those below it belong to that
# part. Returns from the calling file, after one skipped case <folder>, where HCOMP_TEST_PARTS lacks
# the part.
macro(hcomp_enter_test_part part folder)
  set(HCOMP_TEST_PART ${part})
  if(NOT "${part}" IN_LIST HCOMP_TEST_PARTS)
    set(HCOMP_TEST_PART default)
    hcomp_add_skipped_test(${folder} "tests/run.sh --${part} runs these tests")
    return()
  endif()
endmacro()

# hcomp_label_of(<variable> <name>): the part of a case; sanitizers in a build with sanitizers.
function(hcomp_label_of variable name)
  set(label ${HCOMP_TEST_PART})
  if(HCOMP_SANITIZE)
    set(label sanitizers)
  elseif(label STREQUAL "default" AND name MATCHES "[.-]gpu$")
    set(label gpu)
  elseif(label STREQUAL "default" AND name MATCHES "lammps")
    set(label full)
  elseif(label STREQUAL "default" AND name MATCHES "[._-](abi|mpich5|openmpi5)([._]|$)" AND NOT name MATCHES "preload_abi")
    set(label wheels)
  endif()
  set(${variable} ${label} PARENT_SCOPE)
endfunction()

# hcomp_add_test(<name> [TIMEOUT <seconds>] [PROCESSORS <n> | RANKS <n> | ALONE | WAITS]
#                [ENVIRONMENT <var=value>...] [LABELS <label>...] COMMAND <command>...)
#
# add_test with the prefix, a time limit, and exit status 77 for a skipped test. tests/run.sh runs
# twice as many cases at a time as the machine has cores.
#
# RANKS: up to four ranks count as one processor, because they mostly wait for each other.
# ALONE: for cases that measure time.
# WAITS: for cases that measure time with a margin for a busy machine, and mostly wait for time
# limits. One such case runs at a time, from the start of the run, beside half of the other cases.
function(hcomp_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE;WAITS" "TIMEOUT;PROCESSORS;RANKS"
    "ENVIRONMENT;COMMAND;LABELS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(arg_WAITS OR arg_RANKS GREATER 4)
    set(arg_PROCESSORS 2)
  elseif(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  math(EXPR timeout "${arg_TIMEOUT} * ${HCOMP_TEST_SLOWDOWN}")
  math(EXPR seconds "${timeout} - 5")
  set(case ${HCOMP_TEST_PREFIX}${name})
  hcomp_label_of(label ${name})
  add_test(NAME ${case} COMMAND ${arg_COMMAND})
  set_tests_properties(${case} PROPERTIES
    TIMEOUT ${timeout}
    PROCESSORS ${arg_PROCESSORS}
    RUN_SERIAL ${arg_ALONE}
    LABELS "${label};${arg_LABELS}"
    SKIP_RETURN_CODE 77
    ENVIRONMENT "HCOMP_TEST_SECONDS=${seconds};${HCOMP_SANITIZER_ENVIRONMENT};${arg_ENVIRONMENT}")
  if(arg_WAITS)
    set_tests_properties(${case} PROPERTIES RESOURCE_LOCK waits COST 1000)
  endif()
endfunction()

# hcomp_add_skipped_test(<name> <why>): a case that prints why it does not run.
function(hcomp_add_skipped_test name why)
  set(case ${HCOMP_TEST_PREFIX}${name})
  hcomp_label_of(label ${name})
  add_test(NAME ${case} COMMAND ${CMAKE_COMMAND} -E echo "Skipped: ${why}")
  set_tests_properties(${case} PROPERTIES LABELS "${label}" SKIP_REGULAR_EXPRESSION "^Skipped: ")
endfunction()

# hcomp_read_directive(<variable> <file> <key> <default>): the value of a line `// key: value`.
function(hcomp_read_directive variable file key default)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines REGEX "^// ${key}: ")
  set(value "${default}")
  if(lines)
    list(GET lines 0 line)
    string(REGEX REPLACE "^// ${key}: *([^ ].*[^ ]|[^ ]) *$" "\\1" value "${line}")
    string(REPLACE " " ";" value "${value}")
  endif()
  set(${variable} "${value}" PARENT_SCOPE)
endfunction()

# hcomp_read_part(<variable> <file>): the part of a file, by its directive or that of the folder;
# empty if it is not in HCOMP_TEST_PARTS.
function(hcomp_read_part variable file)
  hcomp_read_directive(part ${file} part ${HCOMP_TEST_PART})
  if(NOT part IN_LIST HCOMP_TEST_PARTS)
    set(part "")
  endif()
  set(${variable} "${part}" PARENT_SCOPE)
endfunction()

# hcomp_test_name(<variable> <file>): tests/codec/sign_test.cpp is codec.sign.
function(hcomp_test_name variable file)
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/tests ${file})
  string(REGEX REPLACE "_test\\.[a-z]+$" "" name ${name})
  string(REPLACE "/" "." name ${name})
  set(${variable} ${name} PARENT_SCOPE)
endfunction()

# hcomp_read_optimisation(<variable> <file> <default>): the compile option that the file sets.
function(hcomp_read_optimisation variable file default)
  if(HCOMP_SANITIZE)
    hcomp_read_directive(option ${file} "optimise sanitized" "${default}")
  elseif(HCOMP_UNTIMED_TEST)
    hcomp_read_directive(option ${file} optimise "${default}")
  else()
    set(option "${default}")
  endif()
  set(${variable} "${option}" PARENT_SCOPE)
endfunction()

# The standard library, precompiled for tests.
set(HCOMP_STANDARD_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <concepts>
  <condition_variable> <cstddef> <cstdint> <cstring> <functional> <limits> <memory> <mutex> <optional>
  <span> <stdexcept> <string> <string_view> <thread> <tuple> <type_traits> <utility> <vector>
  <immintrin.h>)

# hcomp_precompile(<target> [<other>]): precompiles the standard library and doctest for all files
# of the target. With <other>, a target with equal compile options, it reuses that target's result.
# Only for tests: check_includes finds missing includes of headers.
function(hcomp_precompile target)
  if(ARGN)
    target_precompile_headers(${target} REUSE_FROM ${ARGV1})
  else()
    target_precompile_headers(${target} PRIVATE ${HCOMP_STANDARD_HEADERS} <doctest/doctest.h>)
  endif()
endfunction()

# hcomp_add_test_folder(<folder> <file>...): one ctest case per file.
function(hcomp_add_test_folder folder)
  set(part_of_folder ${HCOMP_TEST_PART})
  # Kernels are tested with users' optimisation; the code around them need not be.
  if(folder MATCHES "^(codec|core)$")
    set(usual "")
    set(precompiled hcomp_test_optimised)
  else()
    set(usual ${HCOMP_UNTIMED_TEST})
    set(precompiled hcomp_test_main)
  endif()
  foreach(file IN LISTS ARGN)
    hcomp_read_optimisation(option ${file} "${usual}")
    set(program test_${folder})
    if(NOT option STREQUAL usual)
      string(APPEND program ${option})
    endif()
    if(NOT TARGET ${program})
      add_executable(${program})
      target_link_libraries(${program} PRIVATE hcomp_test_main)
      target_compile_options(${program} PRIVATE "$<$<CONFIG:Release>:${option}>")
      if(option STREQUAL usual)
        hcomp_precompile(${program} ${precompiled})
      endif()
    endif()
    target_sources(${program} PRIVATE ${file})
    hcomp_test_name(name ${file})
    set(HCOMP_TEST_PART ${part_of_folder})
    hcomp_read_part(HCOMP_TEST_PART ${file})
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${file})
    hcomp_add_test(${name} ENVIRONMENT ${HCOMP_ENVIRONMENT_WITHOUT_MPI}
      COMMAND ${program} --source-file=*${path})
    set(cases ${name})
    hcomp_read_directive(levels ${file} max_simd "")
    if(HCOMP_TEST_FEW_CASES)
      list(REMOVE_ITEM levels baseline)
    endif()
    foreach(level IN LISTS levels)
      hcomp_add_test(${name}.${level}
        ENVIRONMENT ${HCOMP_ENVIRONMENT_WITHOUT_MPI} HCOMP_MAX_SIMD=${level}
        COMMAND ${program} --source-file=*${path})
      list(APPEND cases ${name}.${level})
    endforeach()
    # A file without any case found must not pass as "0 of 0".
    list(TRANSFORM cases PREPEND "${HCOMP_TEST_PREFIX}")
    set_tests_properties(${cases} PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 ")
  endforeach()
endfunction()

# hcomp_choose_ranks(<variable> <ranks>...): the wanted rank counts within HCOMP_TEST_RANKS; if none
# is, the smallest wanted count.
function(hcomp_choose_ranks variable)
  set(chosen ${ARGN})
  if(HCOMP_TEST_RANKS)
    set(chosen "")
    foreach(ranks IN LISTS ARGN)
      if(ranks IN_LIST HCOMP_TEST_RANKS)
        list(APPEND chosen ${ranks})
      endif()
    endforeach()
    if(NOT chosen)
      list(GET ARGN 0 chosen)
    endif()
  endif()
  set(${variable} "${chosen}" PARENT_SCOPE)
endfunction()

# hcomp_split_ranks(<default> <more> <mpi> <ranks>...): the rank counts of the part default: 1, 3
# and 4 by MPICH, 3 by Open MPI, whose jobs take longer to start; otherwise the first count. The
# other counts belong to the part full.
function(hcomp_split_ranks default more mpi)
  set(usual 3)
  if(mpi STREQUAL "mpich")
    set(usual 1 3 4)
  endif()
  set(of_default "")
  set(of_full "")
  foreach(ranks IN LISTS ARGN)
    if(ranks IN_LIST usual)
      list(APPEND of_default ${ranks})
    else()
      list(APPEND of_full ${ranks})
    endif()
  endforeach()
  if(NOT of_default)
    list(POP_FRONT of_full of_default)
  endif()
  if(NOT "full" IN_LIST HCOMP_TEST_PARTS)
    set(of_full "")
  endif()
  set(${default} "${of_default}" PARENT_SCOPE)
  set(${more} "${of_full}" PARENT_SCOPE)
endfunction()

# hcomp_add_mpi_test(<name> SOURCES <file>... [RANKS <n>...] [LIBRARIES <target>...]
#                    [TIMEOUT <seconds>] [OWN_MAIN])
#
# Builds test_<name>.<mpi> for every MPI found and adds the cases <name>.<mpi>.np<n>.
function(hcomp_add_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OWN_MAIN" "TIMEOUT" "SOURCES;RANKS;LIBRARIES")
  if(NOT arg_RANKS)
    set(arg_RANKS 1 2 3 4 5 7 8)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  list(GET arg_SOURCES 0 file)
  set(part_of_folder ${HCOMP_TEST_PART})
  hcomp_read_optimisation(option ${file} "${HCOMP_UNTIMED_TEST}")
  hcomp_choose_ranks(rank_counts ${arg_RANKS})
  foreach(mpi IN LISTS HCOMP_MPIS)
    if(HCOMP_MISSING_${mpi})
      hcomp_add_skipped_test(${name}.${mpi} "${HCOMP_MISSING_${mpi}}")
      continue()
    endif()
    hcomp_split_ranks(default_ranks more_ranks ${mpi} ${rank_counts})
    set(program test_${name}.${mpi})
    add_executable(${program} ${arg_SOURCES})
    target_link_libraries(${program} PRIVATE hcomp_test_base ${arg_LIBRARIES} hcomp_tests::${mpi})
    target_compile_options(${program} PRIVATE "$<$<CONFIG:Release>:${option}>")
    target_link_libraries(${program} PRIVATE
      $<IF:$<BOOL:${arg_OWN_MAIN}>,hcomp_test_support_${mpi},hcomp_test_main_${mpi}>)
    if(option STREQUAL HCOMP_UNTIMED_TEST)
      hcomp_precompile(${program} hcomp_test_main_${mpi})
    endif()
    foreach(ranks IN LISTS default_ranks more_ranks)
      if(ranks IN_LIST more_ranks)
        set(HCOMP_TEST_PART full)
      endif()
      hcomp_add_test(${name}.${mpi}.np${ranks} TIMEOUT ${arg_TIMEOUT} RANKS ${ranks}
        ENVIRONMENT ${HCOMP_ENVIRONMENT_${mpi}}
        COMMAND ${HCOMP_LAUNCH_${mpi}} ${ranks} $<TARGET_FILE:${program}>)
    endforeach()
    set(HCOMP_TEST_PART ${part_of_folder})
  endforeach()
endfunction()

# hcomp_add_ulfm_test(<name> <file> <seconds>): the case <name>.<mpi>, which has its own main().
function(hcomp_add_ulfm_test name file timeout)
  foreach(mpi IN LISTS HCOMP_MPIS ITEMS openmpi5)
    if(HCOMP_NO_ULFM_${mpi})
      hcomp_add_skipped_test(${name}.${mpi} "${HCOMP_NO_ULFM_${mpi}}")
      continue()
    endif()
    set(program test_${name}.${mpi})
    add_executable(${program} ${file})
    target_compile_options(${program} PRIVATE ${HCOMP_UNTIMED_TEST})
    target_link_libraries(${program} PRIVATE
      hcomp_test_base hcomp_tests::${mpi} $<TARGET_NAME_IF_EXISTS:hcomp_test_support_${mpi}>)
    list(JOIN HCOMP_LAUNCH_ULFM_${mpi} " " launch)
    hcomp_add_test(${name}.${mpi} TIMEOUT ${timeout} PROCESSORS 2
      ENVIRONMENT ${HCOMP_ENVIRONMENT_${mpi}} "HCOMP_TEST_LAUNCH=${launch}"
      COMMAND ${program})
  endforeach()
endfunction()

# hcomp_add_distributed_test_file(<file> [LIBRARIES <target>...]): a file of tests/mpi or tests/ucx.
function(hcomp_add_distributed_test_file file)
  hcomp_read_part(HCOMP_TEST_PART ${file})
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES")
  hcomp_test_name(name ${file})
  hcomp_read_directive(ranks ${file} ranks "")
  hcomp_read_directive(main ${file} main doctest)
  hcomp_read_directive(run ${file} run mpi)
  hcomp_read_directive(beside ${file} beside others)
  hcomp_read_directive(timeout ${file} timeout 120)
  if(run STREQUAL "single")
    add_executable(test_${name} ${file})
    target_compile_options(test_${name} PRIVATE ${HCOMP_UNTIMED_TEST})
    target_link_libraries(test_${name} PRIVATE hcomp_test_base ${arg_LIBRARIES}
      $<$<NOT:$<STREQUAL:${main},own>>:hcomp_test_main>)
    set(how WAITS)
    if(beside STREQUAL "nothing")
      set(how ALONE)
    endif()
    hcomp_add_test(${name} TIMEOUT ${timeout} ${how} COMMAND test_${name})
  elseif(run STREQUAL "ulfm")
    hcomp_add_ulfm_test(${name} ${file} ${timeout})
  else()
    set(own_main "")
    if(main STREQUAL "own")
      set(own_main OWN_MAIN)
    endif()
    hcomp_add_mpi_test(${name} ${own_main} SOURCES ${file} RANKS ${ranks} TIMEOUT ${timeout}
      LIBRARIES ${arg_LIBRARIES})
  endif()
endfunction()

# hcomp_add_header_check(<target> <root> <headers below it...> LIBRARIES <target>...)
#
# Compiles every header alone and included twice, without warnings; in a test build not those in
# folders called detail. The standard library is precompiled where that saves time; check_includes
# finds includes that are missing because of that.
function(hcomp_add_header_check target root)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "HEADERS;LIBRARIES")
  if(NOT "full" IN_LIST HCOMP_TEST_PARTS)
    return()  # some 200 files, in other builds 350
  endif()
  set(sources "")
  if(HCOMP_FAST_BUILD)
    list(FILTER arg_HEADERS EXCLUDE REGEX "/detail/")
  endif()
  foreach(header IN LISTS arg_HEADERS)
    file(RELATIVE_PATH line ${PROJECT_SOURCE_DIR}/${root} ${header})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}/${line}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include <@line@>\n#include <@line@>\n" @ONLY)
    list(APPEND sources ${source})
  endforeach()
  if(sources)
    add_library(${target} OBJECT ${sources})
    target_compile_options(${target} PRIVATE -O0)
    target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} hcomp::strict)
    list(LENGTH sources count)
    if(count GREATER 5)
      target_precompile_headers(${target} PRIVATE ${HCOMP_STANDARD_HEADERS})
    endif()
  endif()
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/HcompPlotTests.cmake)
