// A plan of a codec that skips zeros without what runs it, and whether the compiler says which
// header is missing.
//
// CASE_WITHOUT_ITS_HEADER: need #include <hcomp/collective/sparse/sparse_plan\.hpp>

#include <hcomp/codec/sparse/lossless_sparse.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/in_process.hpp>
#if !defined(CASE_WITHOUT_ITS_HEADER)
#include <hcomp/collective/sparse/sparse_plan.hpp>
#endif

void use(hcomp::in_process& transport, hcomp::host_executor& executor) {
  hcomp::plan sum(10, hcomp::lossless_sparse<>{}, transport, executor);
}
