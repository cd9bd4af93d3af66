# Enables the CUDA language for tests, examples and benchmarks. Users of hcomp::gpu enable it
# themselves. Afterwards HCOMP_CUDA is true if .cu files can be compiled.
#
# Tests that cover all kernels are compiled for all architectures; in a test build only for the
# first, HCOMP_CUDA_FIRST_ARCHITECTURE. Programs with complete plans or CUB take nvcc a minute per
# architecture, so they are compiled only for the last, HCOMP_CUDA_ONE_ARCHITECTURE.
#
# HCOMP_UNTIMED_CUDA is the last compile option of code that nobody times in a test build. It takes
# two thirds of nvcc's time. The tests of all kernels, and of their instructions, do without it.

set(HCOMP_CUDA OFF)
set(HCOMP_UNTIMED_CUDA "")
if(TARGET hcomp::gpu)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  list(GET CMAKE_CUDA_ARCHITECTURES 0 HCOMP_CUDA_FIRST_ARCHITECTURE)
  list(GET CMAKE_CUDA_ARCHITECTURES -1 HCOMP_CUDA_ONE_ARCHITECTURE)
  if(HCOMP_FAST_BUILD)
    foreach(architecture HCOMP_CUDA_FIRST_ARCHITECTURE HCOMP_CUDA_ONE_ARCHITECTURE)
      if(${architecture} MATCHES "^[0-9]+$")
        string(APPEND ${architecture} -virtual)  # PTX only; the GPU's driver compiles it
      endif()
    endforeach()
  endif()
  if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(HCOMP_CUDA ON)
    if(HCOMP_FAST_BUILD)  # host code only; kernels are compiled as usual
      string(REGEX REPLACE "-O[23]" "-O0" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
    endif()
    if(HCOMP_FAST_BUILD AND CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND
       CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.9)
      set(HCOMP_UNTIMED_CUDA $<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=mid>)
    endif()
    hcomp_note("CUDA code" "on, by ${CMAKE_CUDA_COMPILER}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  else()
    hcomp_note("CUDA code" "skipped, because no CUDA compiler works here")
  endif()
endif()
