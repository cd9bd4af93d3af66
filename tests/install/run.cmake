# cmake -D WAY=<way to get hcomp> [-D COMPONENT=<component>] ... -P run.cmake
cmake_minimum_required(VERSION 3.25)

set(prefix ${WORK}/prefix)
set(build ${WORK}/${WAY}${COMPONENT})
set(consumer ${SOURCE}/tests/install/consumer)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${result}:\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

# Configures the consumer with the given arguments, builds and runs it.
function(build_consumer)
  file(REMOVE_RECURSE ${build})
  # That hcomp is found and linked does not depend on how well it is compiled.
  run(${CMAKE_COMMAND} -S ${consumer} -B ${build} -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DCMAKE_CXX_COMPILER=${COMPILER} -DCOMPONENT=${COMPONENT} ${ARGN})
  run(${CMAKE_COMMAND} --build ${build})
  run_consumer("hcomp ${VERSION}")
endfunction()

function(run_consumer expected)
  run(${build}/consumer)
  if(NOT output MATCHES "^${expected}")
    message(FATAL_ERROR "the consumer printed '${output}', not '${expected}'")
  endif()
endfunction()

if(WAY STREQUAL "prefix")
  file(REMOVE_RECURSE ${prefix})
  run(${CMAKE_COMMAND} --install ${BINARY} --prefix ${prefix} --config ${CONFIG})
elseif(WAY STREQUAL "find_package")
  build_consumer(-DCMAKE_PREFIX_PATH=${prefix} -DWAY=${WAY} -DVERSION=${VERSION})
elseif(WAY STREQUAL "add_subdirectory")
  build_consumer(-DWAY=${WAY} -DHCOMP_SOURCE=${SOURCE})
elseif(WAY STREQUAL "FetchContent")
  # What is committed, in a build that has seen nothing else.
  run(git -C ${SOURCE} rev-parse HEAD)
  string(STRIP "${output}" commit)
  build_consumer(-DWAY=${WAY} -DHCOMP_SOURCE=${SOURCE} -DCOMMIT=${commit})
  run(git -C ${build}/_deps/hcomp-src rev-parse HEAD)
  if(NOT output MATCHES "${commit}")
    message(FATAL_ERROR "FetchContent took '${output}', not '${commit}'")
  endif()
elseif(WAY STREQUAL "pkg_config")
  set(ENV{PKG_CONFIG_PATH} ${prefix}/share/pkgconfig:$ENV{PKG_CONFIG_PATH})
  find_program(pkg_config NAMES pkg-config pkgconf REQUIRED)
  separate_arguments(PACKAGES)
  run(${pkg_config} --cflags --libs ${PACKAGES})
  separate_arguments(flags UNIX_COMMAND "${output}")
  separate_arguments(COMPILE)
  file(MAKE_DIRECTORY ${build})
  run(${COMPILE} -o ${build}/consumer ${flags} WORKING_DIRECTORY ${consumer})
  run_consumer("hcomp ${VERSION}${PRINTED}")
elseif(WAY STREQUAL "unknown_component")
  file(REMOVE_RECURSE ${build})
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${consumer} -B ${build} -G ${GENERATOR}
      -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${prefix} -DWAY=find_package
      -DVERSION=${VERSION} -DCOMPONENT=nonsense
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result EQUAL 0 OR NOT output MATCHES "no[ \n]+component[ \n]+'nonsense'")
    message(FATAL_ERROR "an unknown component must be refused by its name, but (${result}):\n${output}")
  endif()
endif()
