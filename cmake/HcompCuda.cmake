# The CUDA language for tests, examples and benchmarks. Users of hcomp::gpu enable it themselves.
# HCOMP_CUDA says afterwards whether .cu files can be compiled.
# Kernels are compiled for all architectures, by most tests; programs that take nvcc a minute for each
# of them, by whole plans or by CUB, only for HCOMP_CUDA_ONE_ARCHITECTURE, the last, and in a build for tests
# those only for HCOMP_CUDA_FIRST_ARCHITECTURE. HCOMP_UNTIMED_CUDA is a compile
# option, after all others, of examples and benchmarks: nvcc takes half as long in a build for tests.

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
  if(HCOMP_QUICK_BUILD AND HCOMP_CUDA_ONE_ARCHITECTURE MATCHES "^[0-9]+$")
    string(APPEND HCOMP_CUDA_ONE_ARCHITECTURE -virtual)  # PTX alone, from which a GPU's driver goes on
  endif()
  if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(HCOMP_CUDA ON)
    if(HCOMP_QUICK_BUILD AND CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND
       CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.9)
      set(HCOMP_UNTIMED_CUDA $<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=mid>)
    endif()
    hcomp_note("CUDA code" "on, by ${CMAKE_CUDA_COMPILER}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  else()
    hcomp_note("CUDA code" "skipped, because no CUDA compiler works here")
  endif()
endif()
