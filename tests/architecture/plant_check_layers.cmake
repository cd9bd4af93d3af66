include(${CMAKE_CURRENT_LIST_DIR}/planted.cmake)

expect("a clean tree" ""
  include/hcomp/core/a.hpp "#include <vector>"
  include/hcomp/codec/detail/b.hpp "#include <hcomp/core/a.hpp>"
  plugins/hcomp/mpi/c.hpp "#include <mpi.h>"
  plugins/hcomp/ucx/d.hpp "#include <ucp/api/ucp.h>"
  kernels/hcomp/gpu/e.hpp "#include <cub/block/block_scan.cuh>")
expect("an upward include" "core/a.hpp #include <hcomp/op/b.hpp> core may include: core"
  include/hcomp/core/a.hpp "#include <hcomp/op/b.hpp>")
expect("an upward include in a nested folder" "codec may include: core, codec"
  include/hcomp/codec/detail/a.hpp "  #  include <hcomp/collective/b.hpp>")
expect("a codec that knows a transport" "codec may include: core, codec"
  include/hcomp/codec/a.hpp "#include <hcomp/transport/transport.hpp>")
expect("a transport that knows a codec" "transport may include: core, transport"
  include/hcomp/transport/a.hpp "#include <hcomp/codec/b.hpp>")
expect("a layer that includes the umbrella" "op may include: core, codec, op"
  include/hcomp/op/a.hpp "#include <hcomp/hcomp.hpp>")
expect("a collective that names a codec" "names the codec sign, and is not in the list"
  include/hcomp/collective/plan/a.hpp "#include <hcomp/codec/sign/sign.hpp>")
expect("an entry of the list that is not needed" "no longer includes the codec thc: delete it"
  include/hcomp/hcomp.hpp "// nothing")
expect("an engine that knows plans" "module engine may include: agreement, schedule"
  include/hcomp/collective/engine/detail/a.hpp "#include <hcomp/collective/plan/plan.hpp>")
expect("a module that is not in the table" "not in the table of modules"
  include/hcomp/collective/misc/a.hpp "#include <hcomp/collective/plan/plan.hpp>")
expect("a collective outside modules" "not in the table of modules"
  include/hcomp/collective/a.hpp "#include <hcomp/core/bits.hpp>")
expect("a collective that names a plugin" "collective may include"
  include/hcomp/collective/plan/a.hpp "#include <hcomp/mpi/transport.hpp>")
expect("MPI under include/" "does not know that library"
  include/hcomp/transport/a.hpp "#include <mpi.h>")
expect("UCX under include/" "does not know that library"
  include/hcomp/transport/a.hpp "#include <ucp/api/ucp.h>")
expect("the CUDA runtime under include/" "does not know that library"
  include/hcomp/exec/a.hpp "#include <cuda_runtime.h>")
expect("Thrust under include/" "does not know that library"
  include/hcomp/exec/a.hpp "#include <thrust/sort.h>")
expect("the ucx plugin that knows a codec" "ucx may include: core, transport, ucx"
  plugins/hcomp/ucx/a.hpp "#include <hcomp/codec/b.hpp>")
expect("the ucx plugin that knows MPI" "does not know that library"
  plugins/hcomp/ucx/a.hpp "#include <mpi.h>")
expect("a kernel that knows MPI" "does not know that library"
  kernels/hcomp/gpu/a.cu "#include <mpi.h>")
expect("an include in quotes" "never \"...\""
  include/hcomp/core/a.hpp "#include \"../op/b.hpp\"")
expect("a folder that is no layer" "not in the table of layers"
  include/hcomp/misc/a.hpp "#include <vector>")
expect("an empty tree" "no header was found" README.md "nothing")
