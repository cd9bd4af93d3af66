# cmake -D ROOT=<source> -P check_layers.cmake: a layer, and a module of collective/, includes only what is
# listed for it here. A header outside codec/ that includes a concrete codec is listed, too.
cmake_minimum_required(VERSION 3.25)

# ---- The table: folder, then which folders of hcomp/ it may include ------------------------------
set(layer_core       core)
set(layer_codec      core codec)
set(layer_exec       core exec)
set(layer_transport  core transport)
set(layer_op         core codec op)
set(layer_feedback   core codec op exec feedback)
set(layer_collective core codec op exec feedback transport collective)
set(layer_gpu        core codec op exec feedback gpu)
set(layer_node       core codec op exec feedback transport collective node)
set(layer_ucx        core transport ucx)
set(layer_udp        core codec op exec feedback transport collective udp)
set(layer_elastic    core codec op exec feedback transport collective ucx mpi elastic)
set(layer_mpi        core codec op exec feedback transport collective gpu ucx mpi)
# The modules of include/hcomp/collective, lowest level first, then which other modules they may include.
set(module_schedule    "")
set(module_aggregation "")
set(module_agreement   schedule)
set(module_engine      agreement schedule)
set(module_cost        agreement engine schedule)
set(module_plan        agreement engine schedule)
set(module_sparse      agreement engine plan schedule)
set(module_by_name     agreement cost engine plan schedule sparse)
set(module_automatic   agreement by_name cost plan schedule)
# The umbrellas themselves.
set(layer_hcomp.hpp  core codec op exec feedback transport collective)
set(layer_extend.hpp ${layer_hcomp.hpp})
set(layer_lanes.hpp  ${layer_hcomp.hpp})
set(layer_model.hpp  ${layer_hcomp.hpp})
set(layer_aggregation.hpp ${layer_hcomp.hpp})
set(layer_concurrent.hpp ${layer_hcomp.hpp})
# Shared objects with codecs, and how they are loaded.
set(layer_codec_library.hpp core collective)
# The C API, for compilers that know nothing of the rest.
set(layer_plan.h      "")
set(layer_hcomp.h    plan.h)
set(layer_group.h    plan.h)
set(layer_elastic.h  plan.h group.h)

# Whose headers are whose: these names open the include line of a library that only some may see.
set(mpi_headers  "mpi\\.h|mpi-ext\\.h")
set(ucx_headers  "uc[pstm]/")
set(cuda_headers "cuda|cub/|thrust/|cooperative_groups|device_launch|nccl|nv/")
set(forbidden_for_include "${mpi_headers}|${ucx_headers}|${cuda_headers}")
set(forbidden_for_kernels "${mpi_headers}|${ucx_headers}")
set(forbidden_for_plugins_ucx "${mpi_headers}|${cuda_headers}")
set(forbidden_for_plugins_udp "${forbidden_for_include}")

# ---- The check -----------------------------------------------------------------------------------
set(checked 0)

# check_module(<module> <line> <complaint variable>): modules of collective/ among each other.
function(check_module module line complaint)
  if(NOT DEFINED module_${module})
    set(${complaint} "the folder 'collective/${module}' is not in the table of modules in \
cmake/check_layers.cmake" PARENT_SCOPE)
  elseif(line MATCHES "<hcomp/collective/([A-Za-z0-9_.]+)" AND NOT CMAKE_MATCH_1 STREQUAL module
      AND NOT CMAKE_MATCH_1 IN_LIST module_${module})
    list(JOIN module_${module} ", " allowed)
    set(${complaint} "module ${module} may include: ${allowed}" PARENT_SCOPE)
  endif()
endfunction()

function(check_file root file)
  file(RELATIVE_PATH path "${ROOT}/${root}/hcomp" "${file}")
  string(REGEX REPLACE "/.*" "" layer "${path}")
  set(forbidden "${forbidden_for_${root}}")
  if(DEFINED forbidden_for_${root}_${layer})
    set(forbidden "${forbidden_for_${root}_${layer}}")
  endif()
  if(NOT DEFINED layer_${layer})
    message(SEND_ERROR "${root}/hcomp/${path}: the folder '${layer}' is not in the table of layers "
      "in cmake/check_layers.cmake")
    return()
  endif()

  file(STRINGS "${file}" lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    set(complaint "")
    if(line MATCHES "include[ \t]*\"")
      set(complaint "includes are written <hcomp/...>, never \"...\"")
    elseif(line MATCHES "<hcomp/([A-Za-z0-9_.]+)")
      if(NOT CMAKE_MATCH_1 IN_LIST layer_${layer})
        list(JOIN layer_${layer} ", " allowed)
        set(complaint "${layer} may include: ${allowed}")
      endif()
    elseif(forbidden AND line MATCHES "<(${forbidden})")
      set(complaint "a header of '${layer}' does not know that library")
    endif()
    if(NOT complaint AND path MATCHES "^collective/([^/]+)")
      check_module("${CMAKE_MATCH_1}" "${line}" complaint)
    endif()
    if(complaint)
      message(SEND_ERROR "${root}/hcomp/${path}\n  ${line}\n  ${complaint}")
    endif()
  endforeach()
endfunction()

foreach(root include plugins kernels)
  file(GLOB_RECURSE files
    "${ROOT}/${root}/hcomp/*.hpp" "${ROOT}/${root}/hcomp/*.h" "${ROOT}/${root}/hcomp/*.cuh"
    "${ROOT}/${root}/hcomp/*.cu" "${ROOT}/${root}/hcomp/*.cpp")
  foreach(file IN LISTS files)
    check_file(${root} "${file}")
    math(EXPR checked "${checked} + 1")
  endforeach()
endforeach()

if(checked EQUAL 0)
  message(SEND_ERROR "no header was found below ${ROOT}")
endif()
message(STATUS "${checked} files checked")
