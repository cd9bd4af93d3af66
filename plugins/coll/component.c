/// @file
/// mca_coll_hcomp.so: the features of libhcomp_pmpi.so as a component of Open MPI, without
/// preloading.
///
/// `--mca coll_hcomp_priority 90` selects it; the number must exceed the priorities of the other
/// components. It runs the collectives that HCOMP_CONFIG selects, and forwards the rest to the
/// previous module. It serves the bindings of all languages.

#include "ompi_config.h"  // before all other headers of Open MPI

#include <stdbool.h>
#include <stdio.h>

#include "glue.h"
#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/hook/base/base.h"
#include "ompi/mca/hook/hook.h"
#include "ompi/mca/mca.h"
#include "ompi/request/request.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"

#ifndef HCOMP_COLL_OPEN_MPI_MINOR  // a test defines another number
#define HCOMP_COLL_OPEN_MPI_MINOR OMPI_MINOR_VERSION
#endif

// ---- Module: the component's state for one communicator -----------------------------------------

/// The collectives that the component takes over.
#define HCOMP_COLLECTIVES(DO) \
  DO(allreduce)               \
  DO(allreduce_init)          \
  DO(iallreduce)              \
  DO(reduce)                  \
  DO(reduce_scatter)          \
  DO(reduce_scatter_block)

typedef struct {
  mca_coll_base_module_t super;
#define HCOMP_MEMBER(name)                          \
  mca_coll_base_module_##name##_fn_t before_##name; \
  mca_coll_base_module_t* module_##name;
  HCOMP_COLLECTIVES(HCOMP_MEMBER)
#undef HCOMP_MEMBER
} hcomp_module;

static void construct(hcomp_module* module) {
#define HCOMP_CLEAR(name)       \
  module->before_##name = NULL; \
  module->module_##name = NULL;
  HCOMP_COLLECTIVES(HCOMP_CLEAR)
#undef HCOMP_CLEAR
}
static void destruct(hcomp_module* module) {
#define HCOMP_RELEASE(name) \
  if (module->module_##name) OBJ_RELEASE(module->module_##name);
  HCOMP_COLLECTIVES(HCOMP_RELEASE)
#undef HCOMP_RELEASE
}
OBJ_CLASS_DECLARATION(hcomp_module);
OBJ_CLASS_INSTANCE(hcomp_module, mca_coll_base_module_t, construct, destruct);

/// Forwards the call to the previous module.
#define HCOMP_LEAVE(name, ...) \
  ((hcomp_module*)module)->before_##name(__VA_ARGS__, ((hcomp_module*)module)->module_##name)

#define HCOMP_CALL(function, count) \
  { function, __builtin_return_address(0), send, receive, count, type, op, comm }

static int allreduce(void const* send, void* receive, int count, struct ompi_datatype_t* type,
                     struct ompi_op_t* op, struct ompi_communicator_t* comm,
                     mca_coll_base_module_t* module) {
  if (!hcomp_coll_is_small(count)) {
    struct hcomp_coll_call const call = HCOMP_CALL("MPI_Allreduce", count);
    int code = MPI_SUCCESS;
    if (hcomp_coll_all_reduce(&call, &code)) return code;
  }
  return HCOMP_LEAVE(allreduce, send, receive, count, type, op, comm);
}

static int iallreduce(void const* send, void* receive, int count, struct ompi_datatype_t* type,
                      struct ompi_op_t* op, struct ompi_communicator_t* comm,
                      ompi_request_t** request, mca_coll_base_module_t* module) {
  if (!hcomp_coll_is_small(count)) {
    struct hcomp_coll_call const call = HCOMP_CALL("MPI_Iallreduce", count);
    int code = MPI_SUCCESS;
    if (hcomp_coll_iall_reduce(&call, request, &code)) return code;
  }
  return HCOMP_LEAVE(iallreduce, send, receive, count, type, op, comm, request);
}

static int reduce(void const* send, void* receive, int count, struct ompi_datatype_t* type,
                  struct ompi_op_t* op, int root, struct ompi_communicator_t* comm,
                  mca_coll_base_module_t* module) {
  if (!hcomp_coll_is_small(count)) {
    struct hcomp_coll_call const call = HCOMP_CALL("MPI_Reduce", count);
    int code = MPI_SUCCESS;
    if (hcomp_coll_reduce(&call, root, &code)) return code;
  }
  return HCOMP_LEAVE(reduce, send, receive, count, type, op, root, comm);
}

static int reduce_scatter(void const* send, void* receive, int const* counts,
                          struct ompi_datatype_t* type, struct ompi_op_t* op,
                          struct ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  if (!hcomp_coll_is_off()) {
    struct hcomp_coll_call const call = HCOMP_CALL("MPI_Reduce_scatter", 0);
    int code = MPI_SUCCESS;
    if (hcomp_coll_reduce_scatter(&call, counts, &code)) return code;
  }
  return HCOMP_LEAVE(reduce_scatter, send, receive, counts, type, op, comm);
}

static int reduce_scatter_block(void const* send, void* receive, int count,
                                struct ompi_datatype_t* type, struct ompi_op_t* op,
                                struct ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  if (!hcomp_coll_is_off()) {
    struct hcomp_coll_call const call = HCOMP_CALL("MPI_Reduce_scatter_block", 0);
    int code = MPI_SUCCESS;
    if (hcomp_coll_reduce_scatter_block(&call, count, &code)) return code;
  }
  return HCOMP_LEAVE(reduce_scatter_block, send, receive, count, type, op, comm);
}

// ---- Persistent requests: MPI calls the request's own functions to start and free it ------------

static ompi_request_start_fn_t start_of_receive = NULL;
static ompi_request_free_fn_t free_of_receive = NULL;

static int start_requests(size_t count, ompi_request_t** requests) {
  int const code = start_of_receive(count, requests);
  for (size_t i = 0; code == OMPI_SUCCESS && i < count; ++i) hcomp_coll_started(requests[i]);
  return code;
}
static int free_request(ompi_request_t** request) {
  hcomp_coll_request_freed(*request);
  (*request)->req_start = start_of_receive;  // MPI will reuse it
  (*request)->req_free = free_of_receive;
  return free_of_receive(request);
}

static int allreduce_init(void const* send, void* receive, int count, struct ompi_datatype_t* type,
                          struct ompi_op_t* op, struct ompi_communicator_t* comm,
                          struct ompi_info_t* info, ompi_request_t** request,
                          mca_coll_base_module_t* module) {
  if (!hcomp_coll_is_small(count)) {
    struct hcomp_coll_call const call = HCOMP_CALL("MPIX_Allreduce_init", count);
    int code = MPI_SUCCESS;
    if (hcomp_coll_all_reduce_init(&call, request, &code)) {
      if (code != MPI_SUCCESS) return code;
      if ((*request)->req_start == start_requests) return code;  // MPI has reused one unchanged
      start_of_receive = (*request)->req_start;
      free_of_receive = (*request)->req_free;
      (*request)->req_start = start_requests;
      (*request)->req_free = free_request;
      return code;
    }
  }
  return HCOMP_LEAVE(allreduce_init, send, receive, count, type, op, comm, info, request);
}

static int enable(mca_coll_base_module_t* module, struct ompi_communicator_t* comm) {
  hcomp_module* const us = (hcomp_module*)module;
#define HCOMP_KEEP(name)                                  \
  us->before_##name = comm->c_coll->coll_##name;          \
  us->module_##name = comm->c_coll->coll_##name##_module; \
  if (us->module_##name) OBJ_RETAIN(us->module_##name);   \
  us->super.coll_##name = us->before_##name ? name : NULL;
  HCOMP_COLLECTIVES(HCOMP_KEEP)
#undef HCOMP_KEEP
  return OMPI_SUCCESS;
}

// ---- Component ----------------------------------------------------------------------------------

static int priority = 0;

static int read_total(struct mca_base_pvar_t const* variable, void* value, void* object) {
  (void)object;
  *(unsigned long long*)value = hcomp_coll_total((enum hcomp_coll_counter)(intptr_t)variable->ctx);
  return OMPI_SUCCESS;
}

static int register_variables(void);
static int do_nothing(void) { return OMPI_SUCCESS; }
static int init_query(bool progress_threads, bool mpi_threads);
static mca_coll_base_module_t* comm_query(struct ompi_communicator_t* comm, int* our_priority);

__attribute__((visibility("default"))) mca_coll_base_component_2_0_0_t mca_coll_hcomp_component = {
    .collm_version = {MCA_COLL_BASE_VERSION_2_0_0, .mca_component_name = "hcomp",
                      MCA_BASE_MAKE_VERSION(component, HCOMP_VERSION_MAJOR, HCOMP_VERSION_MINOR,
                                            HCOMP_VERSION_PATCH),
                      .mca_open_component = do_nothing, .mca_close_component = do_nothing,
                      .mca_register_component_params = register_variables},
    .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};

static int register_variables(void) {
  mca_base_component_t const* const component = &mca_coll_hcomp_component.collm_version;
  mca_base_component_var_register(
      component, "priority",
      "hcomp compresses the sums that HCOMP_CONFIG asks for if this is above the priorities of the "
      "other coll components, such as 90; 0 or below: off",
      MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_6, MCA_BASE_VAR_SCOPE_READONLY, &priority);

  static struct {
    enum hcomp_coll_counter which;
    int kind;
    char const *name, *words;
  } const totals[HCOMP_COLL_TOTALS] = {
      {HCOMP_COLL_CALLS_TAKEN, MCA_BASE_PVAR_CLASS_COUNTER, "calls_taken",
       "Sums over the ranks that hcomp has done"},
      {HCOMP_COLL_CALLS_LEFT, MCA_BASE_PVAR_CLASS_COUNTER, "calls_left",
       "Calls that hcomp has left to MPI though they had as many values as the smallest it takes; "
       "with HCOMP_REPORT or HCOMP_SHADOW all calls"},
      {HCOMP_COLL_BYTES_PLAIN, MCA_BASE_PVAR_CLASS_AGGREGATE, "bytes_plain",
       "What a ring of uncompressed values would have sent for the sums taken"},
      {HCOMP_COLL_BYTES_SENT, MCA_BASE_PVAR_CLASS_AGGREGATE, "bytes_sent",
       "What was sent for them"},
  };
  for (int i = 0; i < HCOMP_COLL_TOTALS; ++i)
    mca_base_component_pvar_register(component, totals[i].name, totals[i].words, OPAL_INFO_LVL_4,
                                     totals[i].kind, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
                                     MCA_BASE_VAR_BIND_NO_OBJECT,
                                     MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS,
                                     read_total, NULL, NULL, (void*)(intptr_t)totals[i].which);
  return OMPI_SUCCESS;
}

/// True if the running Open MPI has the module layout of the headers at compile time.
static bool is_built_for_this(void) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0, major = 0, minor = 0;
  PMPI_Get_library_version(text, &length);
  if (sscanf(text, "Open MPI v%d.%d", &major, &minor) == 2 && major == OMPI_MAJOR_VERSION &&
      minor == HCOMP_COLL_OPEN_MPI_MINOR)
    return true;
  fprintf(stderr,
          "hcomp: mca_coll_hcomp.so was built for Open MPI %d.%d and stays off, because this is "
          "%.40s\n",
          OMPI_MAJOR_VERSION, HCOMP_COLL_OPEN_MPI_MINOR, text);
  return false;
}

static void at_end_of_init(int argc, char** argv, int requested, int* provided) {
  (void)argc, (void)argv, (void)requested, (void)provided;
  hcomp_coll_start();
}

static bool is_on = false;

/// Called once, in the middle of MPI_Init.
static int init_query(bool progress_threads, bool mpi_threads) {
  (void)progress_threads, (void)mpi_threads;
  // Open MPI closes an unavailable component and frees its variables, which other components still
  // use.
  if (priority <= 0 || hcomp_coll_is_interposed()) return OMPI_SUCCESS;
  if (!is_built_for_this()) return OMPI_ERR_NOT_AVAILABLE;
  is_on = true;
  // The end of MPI_Init is the earliest point at which all ranks meet on MPI_COMM_WORLD and can
  // detect that their settings differ. The first collective may use a communicator without some of
  // the ranks.
  static ompi_hook_base_component_t hook = {
      .hookm_version = {OMPI_HOOK_BASE_VERSION_1_0_0, .mca_component_name = "hcomp"},
      .hookm_mpi_init_bottom = at_end_of_init,
  };
  return ompi_hook_base_register_callbacks(&hook);
}

static mca_coll_base_module_t* comm_query(struct ompi_communicator_t* comm, int* our_priority) {
  if (!is_on || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2) return NULL;
  hcomp_module* const module = OBJ_NEW(hcomp_module);
  if (!module) return NULL;
  module->super.coll_module_enable = enable;
  *our_priority = priority;
  return &module->super;
}
