# cmake -D ROOT=<source> -P check_layers.cmake: a layer, and a module of collective/, includes only
# what is listed for it here. A header outside codec/ that includes a concrete codec is listed, too.
cmake_minimum_required(VERSION 3.25)

# ---- The table: folder, then which folders of hcomp/ it may include ------------------------------
set(layer_core       core)
set(layer_codec      core codec)
set(layer_exec       core exec)
set(layer_transport  core transport)
set(layer_op         core codec op)
set(layer_feedback   core codec op exec feedback)
set(layer_collective core codec op exec feedback transport collective)
set(layer_gpu        core codec op exec feedback transport gpu)
set(layer_node       core codec op exec feedback transport collective node)
set(layer_ucx        core transport ucx)
set(layer_nccl       core gpu transport nccl)
set(layer_udp        core codec op exec feedback transport collective udp)
set(layer_elastic    core codec op exec feedback transport collective ucx mpi elastic)
set(layer_mpi        core codec op exec feedback transport collective gpu ucx mpi)
# The modules of include/hcomp/collective, lowest level first, then which other modules they may
# include.
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
set(layer_device_plans.hpp ${layer_hcomp.hpp})
# Shared objects with codecs, and how they are loaded.
set(layer_codec_library.hpp core collective)
# The C API, for compilers that know nothing of the rest.
set(layer_plan.h      "")
set(layer_hcomp.h    plan.h)
set(layer_group.h    plan.h)
set(layer_elastic.h  plan.h group.h)
set(layer_bucket.h   plan.h)

# Headers outside codec/ and the umbrellas that include headers of concrete codecs, FILE=CODEC,...:
# registries of codecs by name, and engines for one codec. The list may
# only become shorter.
set(codecs_of_files
  collective/aggregation/aggregation_layout.hpp=thc
  collective/aggregation/detail/partial_sums.hpp=thc
  collective/by_name/detail/builtin_entries.hpp=error_bounded,float_cast,inceptionn,lossless,lossless_integers,reproducible,sign,sparse,thc
  collective/by_name/detail/codec_probe.hpp=sign
  collective/by_name/detail/compiled_plans.hpp=error_bounded,inceptionn,lossless,lossless_integers
  collective/by_name/detail/top_k_plan.hpp=sparse
  collective/engine/detail/sampled_bits.hpp=sign
  collective/engine/detail/sampled_engine.hpp=sign
  collective/plan/marsit.hpp=float_cast,sign
  collective/sparse/detail/device_index.hpp=sparse
  collective/sparse/detail/device_shard_lanes.hpp=sparse
  collective/sparse/detail/device_sketch.hpp=sparse
  collective/sparse/detail/shard_lanes.hpp=sparse
  collective/sparse/detail/shard_message.hpp=sparse
  collective/sparse/detail/shard_values.hpp=sparse
  collective/sparse/detail/shard_work.hpp=sparse
  collective/sparse/detail/sparse_phases.hpp=sparse
  collective/sparse/sparse_plan.hpp=sparse
  mpi/sparse.hpp=sparse
  op/detail/shard_runs.hpp=sparse
  op/detail/sketch_runs.hpp=sparse
  op/detail/sparse_runs.hpp=sparse
  op/sparse_sum.hpp=sparse
  op/thc_lanes.hpp=thc
  udp/make_plan.hpp=thc)

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
    if(NOT layer STREQUAL "codec" AND NOT layer MATCHES "[.]hpp$" AND line MATCHES "<hcomp/codec/([a-z_]+)/")
      set(codec "${CMAKE_MATCH_1}")
      if(NOT complaint AND NOT codec STREQUAL "detail" AND NOT codec IN_LIST codecs_of_${path})
        set(complaint "it names the codec ${codec}, and is not in the list codecs_of_files of \
cmake/check_layers.cmake")
      endif()
      set_property(GLOBAL APPEND PROPERTY codecs_of_${path} ${codec})
    endif()
    if(NOT complaint AND path MATCHES "^collective/([^/]+)")
      check_module("${CMAKE_MATCH_1}" "${line}" complaint)
    endif()
    if(complaint)
      message(SEND_ERROR "${root}/hcomp/${path}\n  ${line}\n  ${complaint}")
    endif()
  endforeach()
endfunction()

foreach(row IN LISTS codecs_of_files)
  string(REGEX MATCH "^([^=]+)=(.*)$" _ "${row}")
  string(REPLACE "," ";" codecs_of_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()
foreach(root include plugins kernels)
  file(GLOB_RECURSE files
    "${ROOT}/${root}/hcomp/*.hpp" "${ROOT}/${root}/hcomp/*.h" "${ROOT}/${root}/hcomp/*.cuh"
    "${ROOT}/${root}/hcomp/*.cu" "${ROOT}/${root}/hcomp/*.cpp")
  foreach(file IN LISTS files)
    check_file(${root} "${file}")
    math(EXPR checked "${checked} + 1")
  endforeach()
endforeach()

# Only in the project itself, which has all files: planted trees have a few.
if(EXISTS "${ROOT}/include/hcomp/hcomp.hpp")
  foreach(row IN LISTS codecs_of_files)
    string(REGEX REPLACE "=.*" "" path "${row}")
    get_property(included GLOBAL PROPERTY codecs_of_${path})
    foreach(codec IN LISTS codecs_of_${path})
      if(NOT codec IN_LIST included)
        message(SEND_ERROR "${path} no longer includes the codec ${codec}: delete it from codecs_of_files")
      endif()
    endforeach()
  endforeach()
endif()
if(checked EQUAL 0)
  message(SEND_ERROR "no header was found below ${ROOT}")
endif()
message(STATUS "${checked} files checked")
