/* Nonblocking calls from C: this program starts the ranks as processes, of one node or several. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */

#include <hcomp/elastic.h>
#include <hcomp/group.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "processes.h"

enum { ranks = 4, most_bytes = 1 << 14, milliseconds = 20000 };

/* ---- Placement of ranks on nodes */

/* Which ranks share memory: those of one user do. */
enum nodes { one_node, nodes_of_two, one_each };
static enum nodes nodes;

static struct {
  int arrived[2], connected;
  char mine[2][ranks][most_bytes];
} * meeting;
static int round_of_meeting;

static int exchange(void* context, void const* mine, size_t bytes, void* all) {
  int const round = round_of_meeting++;
  int r;
  (void)context;
  if (round > 1 || bytes > most_bytes) return 1;
  memcpy(meeting->mine[round][number], mine, bytes);
  __sync_add_and_fetch(&meeting->arrived[round], 1);
  while (__sync_add_and_fetch(&meeting->arrived[round], 0) < ranks) rest(1);
  for (r = 0; r < ranks; ++r)
    memcpy((char*)all + (size_t)r * bytes, meeting->mine[round][r], bytes);
  return 0;
}
static hcomp_group* connected(int timeout_ms) {
  hcomp_group* group = NULL;
  int const host = nodes == one_each ? number : nodes == nodes_of_two ? number / 2 : 0;
  if (host > 0 && setuid((uid_t)(40000 + host)) != 0) abort();
  /* keeps the memory open to other processes of the user */
  if (host > 0) prctl(PR_SET_DUMPABLE, 1);
  CHECK_OK(hcomp_group_create(number, ranks, exchange, NULL, timeout_ms, 0, &group));
  return group;
}

static void new_meeting(void) {
  meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (meeting == MAP_FAILED) abort();
}
static void start_ranks(struct process* all, void (*work)(int pipe)) {
  int r;
  new_meeting();
  for (r = 0; r < ranks; ++r) all[r] = start(r, work);
}
/* @param killed  the rank that may fail; -1: none */
static void end_ranks(struct process* all, int killed) {
  int r, status;
  for (r = 0; r < ranks; ++r) {
    waitpid(all[r].id, &status, 0);
    if (status == 0 || (r == killed && WIFSIGNALED(status))) continue;
    ++failures;
    printf("rank %d ends with status %d\n", r, status);
  }
  for (r = 0; r < ranks; ++r) close(all[r].pipe);
  munmap(meeting, sizeof *meeting);
}
static void on_ranks(void (*work)(int pipe), int killed) {
  struct process all[ranks];
  start_ranks(all, work);
  end_ranks(all, killed);
}

/* ---- Nonblocking calls give the bits of blocking ones */

static int is_started; /* this run uses nonblocking calls */

enum { steps = 6, sums = 8, calls = 23 };
static struct {
  size_t values;
  int type;
  char const* codec;
} const made[sums] = {
    {5000, HCOMP_FLOAT, "thc bits=4"},
    {1, HCOMP_FLOAT, "fp16"},
    {20000, HCOMP_FLOAT, "sign"},
    {0, HCOMP_FLOAT, "identity"},
    {3000, HCOMP_DOUBLE, "error_bounded 1e-3"},
    {9999, HCOMP_FLOAT, "thc bits=4 algorithm=hierarchical"},
    {16384, HCOMP_FLOAT, "thc bits=4 algorithm=ring"},
    {777, HCOMP_DOUBLE, "identity"},
};

/* A call on a plan or on the group. */
enum kind { sum_all, sum_scatter, sum_gather, all_reduce, reduce_scatter, all_gather, broadcast };
struct call {
  enum kind kind;
  int sum;       /* index into `made` */
  size_t values; /* for calls on the group; bytes for all_gather and broadcast */
  int type;
};
static struct call const list[calls] = {
    {sum_all, 0, 0, 0},
    {sum_all, 1, 0, 0},
    {sum_all, 2, 0, 0},
    {all_reduce, 0, 100, HCOMP_FLOAT},
    {all_reduce, 0, 4000, HCOMP_FLOAT}, /* codec by a rule */
    {sum_all, 0, 0, 0},                 /* follows the first call on the plan */
    {sum_all, 3, 0, 0},
    {broadcast, 0, 50, 0},
    {sum_all, 4, 0, 0},
    {sum_all, 5, 0, 0},
    {reduce_scatter, 0, 4096, HCOMP_FLOAT}, /* codec by a rule */
    {all_gather, 0, 1000, 0},
    {all_reduce, 0, 300, HCOMP_INT64},
    {all_reduce, 0, 500, HCOMP_BFLOAT16},
    {reduce_scatter, 0, 10, HCOMP_INT32},
    {sum_scatter, 6, 0, 0},
    {sum_gather, 6, 0, 0},
    {all_reduce, 0, 400000, HCOMP_FLOAT}, /* too long to be fused with other calls */
    {all_gather, 0, 100000, 0},
    {sum_all, 7, 0, 0},
    {broadcast, 0, 300000, 0},
    {reduce_scatter, 0, 30000, HCOMP_DOUBLE},
    {all_reduce, 0, 4000, HCOMP_FLOAT},
};
static size_t const bytes_of[] = {4, 8, 2, 2, 4, 8};

static size_t input_bytes(struct call const* it) {
  switch (it->kind) {
    case all_reduce: return it->values * bytes_of[it->type];
    case reduce_scatter: return ranks * it->values * bytes_of[it->type];
    case all_gather:
    case broadcast: return it->values;
    default: return made[it->sum].values * bytes_of[made[it->sum].type];
  }
}
static size_t output_bytes(struct call const* it) {
  if (it->kind == reduce_scatter) return it->values * bytes_of[it->type];
  return it->kind == all_gather ? ranks * it->values : 0;
}
/* Fills `x` with small finite numbers of the call's type. */
static void fill(void* x, struct call const* it, int step) {
  size_t const bytes = input_bytes(it);
  int const is_of_sum = it->kind <= sum_gather;
  int const type = is_of_sum ? made[it->sum].type : it->type;
  size_t i;
  if (it->kind == all_gather || it->kind == broadcast) {
    memset(x, number * 10 + step, bytes);
    return;
  }
  for (i = 0; i < bytes / bytes_of[type]; ++i) {
    int const value = (int)((i * 7 + (size_t)(number * 31 + step * 13)) % 101) - 50;
    if (type == HCOMP_FLOAT) ((float*)x)[i] = (float)value / 50;
    if (type == HCOMP_DOUBLE) ((double*)x)[i] = (double)value / 50;
    if (type == HCOMP_BFLOAT16) ((uint16_t*)x)[i] = (uint16_t)(0x3f80 + (value & 15));
    if (type == HCOMP_INT32) ((int32_t*)x)[i] = value;
    if (type == HCOMP_INT64) ((int64_t*)x)[i] = value;
  }
}

static int call_it(struct call const* it, hcomp_group* group, hcomp_plan* sum, void* x, void* out,
                   hcomp_report* report) {
  switch (it->kind) {
    case sum_all: return hcomp_all_reduce(sum, x, report);
    case sum_scatter: return hcomp_reduce_scatter(sum, x, report);
    case sum_gather: return hcomp_all_gather(sum, x, report);
    case all_reduce: return hcomp_group_all_reduce(group, x, it->values, it->type, 0, report);
    case reduce_scatter:
      return hcomp_group_reduce_scatter(group, x, it->values, it->type, 0, out, report);
    case all_gather: return hcomp_group_all_gather(group, x, it->values, out);
    default: return hcomp_group_broadcast(group, x, it->values, 1);
  }
}
static int start_it(struct call const* it, hcomp_group* group, hcomp_plan* sum, void* x, void* out,
                    hcomp_request** request) {
  switch (it->kind) {
    case sum_all: return hcomp_all_reduce_start(sum, x, request);
    case sum_scatter: return hcomp_reduce_scatter_start(sum, x, request);
    case sum_gather: return hcomp_all_gather_start(sum, x, request);
    case all_reduce:
      return hcomp_group_all_reduce_start(group, x, it->values, it->type, 0, request);
    case reduce_scatter:
      return hcomp_group_reduce_scatter_start(group, x, it->values, it->type, 0, out, request);
    case all_gather: return hcomp_group_all_gather_start(group, x, it->values, out, request);
    default: return hcomp_group_broadcast_start(group, x, it->values, 1, request);
  }
}

/* Writes the results of all calls and their reports. */
static void all_calls(int pipe) {
  hcomp_group* group = connected(milliseconds);
  hcomp_plan* sum[sums];
  void *x[calls], *out[calls];
  int i, k, step;
  CHECK_OK(hcomp_group_set(group, "float: thc bits=4 min=8KiB"));
  for (i = 0; i < sums; ++i)
    CHECK_OK(hcomp_plan_create_group(group, made[i].values, made[i].type, made[i].codec, &sum[i]));
  for (k = 0; k < calls; ++k) {
    x[k] = malloc(input_bytes(&list[k]) + 8);
    out[k] = malloc(output_bytes(&list[k]) + 8);
  }
  for (step = 0; step < steps && failures == 0; ++step) {
    hcomp_request* requests[calls] = {NULL};
    hcomp_report reports[calls];
    memset(reports, 0, sizeof reports);
    for (k = 0; k < calls; ++k) {
      /* Blocking calls in turn, with nonblocking ones from the last steps between them. */
      struct call const* const it = &list[k];
      fill(x[k], it, step);
      if (!is_started || (step >= 4 && k % 5 == 4))
        CHECK_OK(call_it(it, group, sum[it->sum], x[k], out[k], &reports[k]));
      else
        CHECK_OK(start_it(it, group, sum[it->sum], x[k], out[k], &requests[k]));
    }
    for (i = 0; i < calls; ++i) { /* another order on every rank */
      k = (i * (5 + number) + 3 * step) % calls;
      if (!requests[k]) continue;
      CHECK_OK(hcomp_wait(&requests[k], &reports[k]));
      CHECK(requests[k] == NULL);
    }
    for (k = 0; k < calls; ++k) {
      uint64_t const sent = reports[k].bytes_sent;
      if (write(pipe, x[k], input_bytes(&list[k])) != (ssize_t)input_bytes(&list[k]) ||
          write(pipe, out[k], output_bytes(&list[k])) != (ssize_t)output_bytes(&list[k]) ||
          write(pipe, &sent, sizeof sent) != (ssize_t)sizeof sent ||
          write(pipe, &reports[k].error, sizeof(double)) != (ssize_t)sizeof(double))
        CHECK(!"what was made is written");
    }
  }
  for (i = 0; i < sums; ++i) CHECK_OK(hcomp_plan_free(&sum[i]));
  CHECK_OK(hcomp_group_free(&group));
}

static void started_calls_have_the_bits_of_others(void) {
  struct process one_by_one[ranks], started[ranks];
  void* first_meeting;
  int k, r, step;
  is_started = 0;
  start_ranks(one_by_one, all_calls);
  first_meeting = meeting;
  is_started = 1;
  start_ranks(started, all_calls);
  for (step = 0; step < steps; ++step)
    for (r = 0; r < ranks; ++r)
      for (k = 0; k < calls; ++k) {
        size_t const bytes =
            input_bytes(&list[k]) + output_bytes(&list[k]) + sizeof(uint64_t) + sizeof(double);
        char *const a = malloc(bytes), *const b = malloc(bytes);
        CHECK(read_all(one_by_one[r].pipe, a, bytes));
        CHECK(read_all(started[r].pipe, b, bytes));
        if (memcmp(a, b, bytes) != 0) {
          printf("nodes %d, step %d, rank %d: call %d differs\n", (int)nodes, step, r, k);
          CHECK(!"started calls have the bits of others");
        }
        free(a), free(b);
      }
  end_ranks(started, -1);
  meeting = first_meeting;
  end_ranks(one_by_one, -1);
}

/* ---- Errors */

static void wrong(int pipe) {
  hcomp_group* group = connected(milliseconds);
  hcomp_plan *first = NULL, *other = NULL;
  hcomp_request *one = NULL, *two = NULL, *three = NULL;
  hcomp_report report;
  float x[10], y[10], z[20];
  int i, done = -1;
  (void)pipe;
  CHECK_OK(hcomp_plan_create_group(group, 10, HCOMP_FLOAT, "identity", &first));
  CHECK_OK(hcomp_plan_create_group(group, 20, HCOMP_FLOAT, "thc bits=4", &other));
  for (i = 0; i < 10; ++i) x[i] = y[i] = 1;
  for (i = 0; i < 20; ++i) z[i] = 0;

  /* Starts nothing. */
  CHECK_ERROR(hcomp_all_reduce_start(NULL, x, &one), HCOMP_INVALID_ARGUMENT,
              "hcomp_all_reduce_start: plan is a null pointer");
  CHECK_ERROR(hcomp_all_reduce_start(first, x, NULL), HCOMP_INVALID_ARGUMENT, "request is a null");
  CHECK_ERROR(hcomp_group_broadcast_start(NULL, x, 1, 0, &one), HCOMP_INVALID_ARGUMENT,
              "hcomp_group_broadcast_start: group is a null pointer");
  CHECK_ERROR(hcomp_test(NULL, 0, &done), HCOMP_INVALID_ARGUMENT, "request is a null pointer");
  CHECK_ERROR(hcomp_wait(NULL, NULL), HCOMP_INVALID_ARGUMENT, "request is a null pointer");
  CHECK_OK(hcomp_wait(&one, NULL));

  /* One of three calls is wrong on one rank: it fails on all ranks, the other calls succeed. */
  CHECK_OK(hcomp_all_reduce_start(first, x, &one));
  CHECK_OK(hcomp_all_reduce_start(other, number == 1 ? NULL : z, &two));
  CHECK_OK(hcomp_all_reduce_start(first, y, &three));
  CHECK_ERROR(hcomp_test(two, -1, &done), HCOMP_INVALID_ARGUMENT, "milliseconds is -1");
  CHECK_ERROR(hcomp_wait(&two, NULL), HCOMP_INVALID_ARGUMENT,
              "hcomp_all_reduce: on rank 1 x is a null pointer");
  CHECK(two == NULL && hcomp_last_error_rank() == -1);
  CHECK_OK(hcomp_test(three, milliseconds, &done));
  CHECK(done == 1);
  CHECK_OK(hcomp_wait(&three, &report));
  CHECK_OK(hcomp_wait(&one, NULL));
  CHECK(x[0] == ranks && y[9] == ranks && report.weight == ranks);
  CHECK_OK(hcomp_all_reduce_start_sized(first, x, number == 2 ? 9 : 10, 4, &one));
  CHECK(hcomp_wait(&one, NULL) == HCOMP_DISAGREEMENT);
  CHECK(strstr(hcomp_last_error(), number == 2 ? "9 values of 4 bytes in x for" : "rank 2") !=
        NULL);
  CHECK_OK(hcomp_group_all_reduce_start(group, number == 3 ? NULL : z, 20, HCOMP_FLOAT, 0, &one));
  CHECK_OK(hcomp_group_broadcast_start(group, y, sizeof y, 0, &two));
  CHECK(hcomp_wait(&one, NULL) != HCOMP_OK);
  CHECK(strstr(hcomp_last_error(), "x is a null pointer") != NULL);
  CHECK_OK(hcomp_wait(&two, NULL));

  /* Pending calls complete before anything is freed. */
  for (i = 0; i < 10; ++i) x[i] = y[i] = 2;
  CHECK_OK(hcomp_all_reduce_start(first, x, &one));
  CHECK_OK(hcomp_all_reduce_start(other, z, &two));
  CHECK_OK(hcomp_plan_free(&first));
  CHECK(x[0] == 2 * ranks);
  CHECK_OK(hcomp_group_all_reduce_start(group, y, 10, HCOMP_FLOAT, 0, &three));
  CHECK_OK(hcomp_group_free(&group));
  CHECK(y[9] == 2 * ranks);
  CHECK_OK(hcomp_plan_free(&other));
  CHECK_OK(hcomp_wait(&one, &report));
  CHECK(report.weight == ranks);
  CHECK_OK(hcomp_wait(&two, NULL));
  CHECK_OK(hcomp_wait(&three, NULL));
}

/* Returns success and writes nothing. */
static int exchange_nothing(void* context, void const* mine, size_t bytes, void* all) {
  (void)context, (void)mine, (void)bytes, (void)all;
  return 0;
}
static void without_an_exchange(int pipe) {
  hcomp_group* group = NULL;
  (void)pipe;
  CHECK_ERROR(hcomp_group_create(number, ranks, exchange_nothing, NULL, milliseconds, 0, &group),
              HCOMP_TRANSPORT, "did not return this rank's own bytes");
}

/* One rank makes an impossible call: it ends the group on all ranks, for all later calls. */
enum { impossible_calls = 4 };
static int impossible; /* the call */

static void end_the_group(int pipe) {
  hcomp_group* group = connected(milliseconds);
  float x[10] = {0}, all[10 * ranks];
  size_t const most = (size_t)-1;
  int const is_odd = number == 1;
  int i, code = HCOMP_OK;
  (void)pipe;
  __sync_add_and_fetch(&meeting->connected, 1);
  while (__sync_add_and_fetch(&meeting->connected, 0) < ranks) rest(1);
  switch (impossible) {
    case 0: code = hcomp_group_all_reduce(group, x, 10, is_odd ? 77 : HCOMP_FLOAT, 0, NULL); break;
    case 1:
      code = hcomp_group_all_reduce(group, x, is_odd ? most / 2 : 10, HCOMP_FLOAT, 0, NULL);
      break;
    case 2: code = hcomp_group_all_gather(group, x, is_odd ? most : sizeof x, all); break;
    case 3: code = hcomp_group_broadcast(group, x, is_odd ? most : sizeof x, 0); break;
  }
  CHECK(code == (is_odd ? HCOMP_INVALID_ARGUMENT : HCOMP_DAMAGED));
  CHECK(strstr(hcomp_last_error(), impossible == 0 ? "type is 77" : " is 18446744073709551615") ||
        strstr(hcomp_last_error(), " is 9223372036854775807"));
  for (i = 0; i < 2; ++i)
    CHECK(hcomp_group_all_reduce(group, x, 10, HCOMP_FLOAT, 0, NULL) == HCOMP_DAMAGED);
  CHECK_OK(hcomp_group_free(&group));
}

/* Ranks start calls in different orders: all affected ranks get an error, long before the
   timeout. */
enum { disordered = 5 };
static int disorder; /* the two calls to exchange */

static void start_one_of_two(int second, hcomp_group* group, hcomp_plan* const* sum, float* x,
                             hcomp_request** request) {
  switch (disorder * 2 + second) {
    case 0: CHECK_OK(hcomp_all_reduce_start(sum[0], x, request)); break;
    case 1: CHECK_OK(hcomp_all_reduce_start(sum[1], x, request)); break;
    case 2: CHECK_OK(hcomp_group_all_reduce_start(group, x, 7, HCOMP_FLOAT, 0, request)); break;
    case 3: CHECK_OK(hcomp_group_all_reduce_start(group, x, 8, HCOMP_FLOAT, 0, request)); break;
    case 4: CHECK_OK(hcomp_all_reduce_start(sum[0], x, request)); break;
    case 5: CHECK_OK(hcomp_group_all_reduce_start(group, x, 8, HCOMP_FLOAT, 0, request)); break;
    case 6: CHECK_OK(hcomp_all_reduce_start(sum[2], x, request)); break; /* hierarchical */
    case 7: CHECK_OK(hcomp_all_reduce_start(sum[0], x, request)); break;
    case 8: CHECK_OK(hcomp_group_all_gather_start(group, x, 40, x + 100, request)); break;
    default: CHECK_OK(hcomp_all_reduce_start(sum[2], x, request)); break;
  }
}
static void in_disorder(int pipe) {
  hcomp_group* group = connected(milliseconds);
  hcomp_plan* sum[3] = {NULL};
  hcomp_request* request[2] = {NULL};
  static float x[2][1000];
  time_t const begin = time(NULL);
  int i;
  (void)pipe;
  CHECK_OK(hcomp_plan_create_group(group, 100, HCOMP_FLOAT, "identity", &sum[0]));
  CHECK_OK(hcomp_plan_create_group(group, 900, HCOMP_FLOAT, "fp16", &sum[1]));
  CHECK_OK(hcomp_plan_create_group(group, 90, HCOMP_FLOAT, "fp16 algorithm=hierarchical", &sum[2]));
  rest(300); /* an error may end the creation of plans on ranks that are late */
  for (i = 0; i < 2; ++i) start_one_of_two((i + (number == 2)) % 2, group, sum, x[i], &request[i]);
  for (i = 0; i < 2; ++i) CHECK(hcomp_wait(&request[i], NULL) != HCOMP_OK);
  CHECK(time(NULL) - begin < 10);
  for (i = 0; i < 3; ++i) CHECK_OK(hcomp_plan_free(&sum[i]));
  CHECK_OK(hcomp_group_free(&group));
}

/* Rank 2 makes a blocking call where other ranks start a nonblocking one: an error on all ranks,
   at once on one node, otherwise within the timeout. */
static void partly_started(int pipe) {
  hcomp_group* group = connected(2000);
  hcomp_plan* sum = NULL;
  hcomp_request* request = NULL;
  float x[10] = {0};
  time_t const begin = time(NULL);
  int code;
  (void)pipe;
  CHECK_OK(hcomp_plan_create_group(group, 10, HCOMP_FLOAT, "identity", &sum));
  if (number != 2) CHECK_OK(hcomp_all_reduce_start(sum, x, &request));
  code = number == 2 ? hcomp_all_reduce(sum, x, NULL) : hcomp_wait(&request, NULL);
  CHECK(code == (nodes == one_node ? HCOMP_DISAGREEMENT : HCOMP_TRANSPORT));
  if (nodes == one_node) CHECK(strstr(hcomp_last_error(), "started hcomp_all_reduce") != NULL);
  CHECK(time(NULL) - begin < 10);
  CHECK_OK(hcomp_plan_free(&sum));
  CHECK_OK(hcomp_group_free(&group));
}

/* ---- A rank is killed with several calls pending */

static void with_a_dead_rank(int pipe) {
  enum { under_way = 6, values = 200000 };
  hcomp_group* group = connected(milliseconds);
  hcomp_plan* sum[under_way];
  hcomp_request* request[under_way] = {NULL};
  static float x[under_way][values];
  char first[300] = "";
  time_t begin;
  int i, step, failed = 0;
  (void)pipe;
  for (i = 0; i < under_way; ++i)
    CHECK_OK(hcomp_plan_create_group(group, values, HCOMP_FLOAT, i % 2 ? "thc bits=4" : "fp16",
                                     &sum[i]));
  for (step = 0; failed == 0; ++step) {
    begin = time(NULL);
    for (i = 0; i < under_way; ++i) {
      if (number == 1 && step == 2 && i == 2) {
        rest(500); /* the other ranks have completed the step before, and started more */
        raise(SIGKILL);
      }
      CHECK_OK(hcomp_all_reduce_start(sum[i], x[i], &request[i]));
    }
    for (i = 0; i < under_way; ++i) {
      if (hcomp_wait(&request[i], NULL) == HCOMP_OK) continue;
      ++failed;
      CHECK(hcomp_last_error_rank() == 1 && strstr(hcomp_last_error(), "rank 1 failed") != NULL);
      if (!first[0]) strncpy(first, hcomp_last_error(), sizeof first - 1);
    }
    CHECK(time(NULL) - begin < 10);
  }
  CHECK(step == 3 && failed >= under_way - 2);
  CHECK_ERROR(hcomp_all_reduce(sum[0], x[0], NULL), HCOMP_TRANSPORT, "rank 1 failed");
  CHECK_OK(hcomp_all_reduce_start(sum[1], x[1], &request[1]));
  CHECK_OK(hcomp_group_all_reduce_start(group, x[0], 10, HCOMP_FLOAT, 0, &request[0]));
  CHECK_ERROR(hcomp_wait(&request[1], NULL), HCOMP_TRANSPORT, "rank 1 failed");
  CHECK(hcomp_wait(&request[0], NULL) == HCOMP_TRANSPORT);
  for (i = 0; i < under_way; ++i) CHECK_OK(hcomp_plan_free(&sum[i]));
  CHECK_OK(hcomp_group_free(&group));
}

/* ---- A short reduction overtakes a long one that started before it */

static void overtaking(int pipe) {
  enum { values = 1 << 22, tries = 30 };
  hcomp_group* group = connected(milliseconds);
  hcomp_plan *large = NULL, *small = NULL;
  hcomp_request *first = NULL, *second = NULL;
  float* const x = calloc(values, sizeof(float));
  float y[10] = {0};
  int i, done, overtaken = 0;
  (void)pipe;
  CHECK_OK(hcomp_plan_create_group(group, values, HCOMP_FLOAT, "identity", &large));
  CHECK_OK(hcomp_plan_create_group(group, 10, HCOMP_FLOAT, "identity", &small));
  for (i = 0; i < tries; ++i) {
    CHECK_OK(hcomp_all_reduce_start(large, x, &first));
    CHECK_OK(hcomp_all_reduce_start(small, y, &second));
    CHECK_OK(hcomp_wait(&second, NULL));
    CHECK_OK(hcomp_test(first, 0, &done));
    overtaken += !done;
    CHECK_OK(hcomp_wait(&first, NULL));
  }
  CHECK(overtaken > 0);
  CHECK_OK(hcomp_plan_free(&large));
  CHECK_OK(hcomp_plan_free(&small));
  CHECK_OK(hcomp_group_free(&group));
  free(x);
}

static void of_an_elastic_group(int pipe) {
  hcomp_elastic* group = NULL;
  hcomp_plan* sum = NULL;
  hcomp_request* request = NULL;
  float x = 1;
  char directory[] = "/tmp/hcomp_started_c.XXXXXX";
  (void)pipe;
  if (!mkdtemp(directory)) abort();
  CHECK_OK(hcomp_elastic_create(directory, 0, 1, milliseconds, &group));
  CHECK_OK(hcomp_plan_create_elastic(group, 1, HCOMP_FLOAT, "identity", &sum));
  CHECK_ERROR(hcomp_all_reduce_start(sum, &x, &request), HCOMP_INVALID_ARGUMENT,
              "over a group of hcomp_group_create only");
  CHECK_OK(hcomp_all_reduce(sum, &x, NULL));
  CHECK_OK(hcomp_plan_free(&sum));
  CHECK_OK(hcomp_elastic_free(&group));
  remove_all(directory);
}

/* ---- A forked child may only free what it inherits */

static void fork_and_check(void (*of_child)(void)) {
  int status;
  pid_t child;
  fflush(stdout);
  child = fork();
  if (child == 0) {
    alarm(20);
    of_child();
    fflush(stdout);
    _exit(failures != 0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static hcomp_group* of_parent;
static hcomp_plan* plan_of_parent;
static hcomp_elastic* elastic_of_parent;
static hcomp_request* request_of_parent;

#define CHECK_REFUSED(call) CHECK_ERROR(call, HCOMP_INVALID_ARGUMENT, "is a fork")
static void use_the_parents(void) {
  hcomp_elastic_state now;
  hcomp_request* request = NULL;
  hcomp_plan* plan = NULL;
  float x = 1;
  int done;
  if (of_parent) {
    CHECK_REFUSED(hcomp_group_all_reduce(of_parent, &x, 1, HCOMP_FLOAT, 0, NULL));
    CHECK_REFUSED(hcomp_group_all_reduce_start(of_parent, &x, 1, HCOMP_FLOAT, 0, &request));
    CHECK_REFUSED(hcomp_group_set(of_parent, "float: fp16"));
    CHECK_REFUSED(hcomp_plan_create_group(of_parent, 1, HCOMP_FLOAT, "identity", &plan));
    CHECK_REFUSED(hcomp_all_reduce_start(plan_of_parent, &x, &request));
    CHECK_REFUSED(hcomp_test(request_of_parent, 1, &done));
    CHECK_REFUSED(hcomp_wait(&request_of_parent, NULL));
    CHECK(request_of_parent == NULL);
  } else {
    CHECK_REFUSED(hcomp_elastic_admit(elastic_of_parent, &done));
    CHECK_REFUSED(hcomp_elastic_now(elastic_of_parent, &now));
  }
  CHECK_REFUSED(hcomp_all_reduce(plan_of_parent, &x, NULL));
  CHECK_REFUSED(hcomp_plan_set_mean(plan_of_parent, 1));
  CHECK_OK(hcomp_plan_free(&plan_of_parent));
  CHECK_OK(hcomp_group_free(&of_parent));
  CHECK_OK(hcomp_elastic_free(&elastic_of_parent));
  CHECK(plan_of_parent == NULL && of_parent == NULL && elastic_of_parent == NULL);
}

static void with_a_fork(int pipe) {
  float x = 1;
  hcomp_request* late = NULL;
  (void)pipe;
  of_parent = connected(milliseconds);
  CHECK_OK(hcomp_plan_create_group(of_parent, 1, HCOMP_FLOAT, "identity", &plan_of_parent));
  CHECK_OK(hcomp_all_reduce(plan_of_parent, &x, NULL));
  if (number != 0) { /* rank 0 comes later: the calls are under way in the forks */
    CHECK_OK(hcomp_all_reduce_start(plan_of_parent, &x, &request_of_parent));
    fork_and_check(use_the_parents);
  } else {
    rest(200);
    CHECK_OK(hcomp_all_reduce_start(plan_of_parent, &x, &late));
    request_of_parent = late;
  }
  CHECK_OK(hcomp_wait(&request_of_parent, NULL));
  CHECK_OK(hcomp_all_reduce(plan_of_parent, &x, NULL));
  CHECK(x == ranks * ranks * ranks);
  CHECK_OK(hcomp_plan_free(&plan_of_parent));
  CHECK_OK(hcomp_group_free(&of_parent));
}

static char elastic_place[] = "/tmp/hcomp_fork_c.XXXXXX";
static void elastic_with_a_fork(int pipe) {
  float x = 1;
  (void)pipe;
  CHECK_OK(hcomp_elastic_create(elastic_place, number, ranks, milliseconds, &elastic_of_parent));
  CHECK_OK(
      hcomp_plan_create_elastic(elastic_of_parent, 1, HCOMP_FLOAT, "identity", &plan_of_parent));
  CHECK_OK(hcomp_all_reduce(plan_of_parent, &x, NULL));
  fork_and_check(use_the_parents);
  CHECK_OK(hcomp_all_reduce(plan_of_parent, &x, NULL));
  CHECK(x == ranks * ranks);
  CHECK_OK(hcomp_plan_free(&plan_of_parent));
  CHECK_OK(hcomp_elastic_free(&elastic_of_parent));
}

int main(void) {
  for (nodes = one_node; nodes <= one_each; ++nodes) {
    if (nodes != one_node && geteuid() != 0) {
      printf("not root: ranks of several nodes are left out\n");
      break;
    }
    started_calls_have_the_bits_of_others();
    on_ranks(wrong, -1);
    on_ranks(without_an_exchange, -1);
    for (impossible = 0; impossible < impossible_calls; ++impossible) on_ranks(end_the_group, -1);
    for (disorder = 0; disorder < disordered; ++disorder) on_ranks(in_disorder, -1);
    on_ranks(partly_started, -1);
    on_ranks(with_a_dead_rank, 1);
    on_ranks(overtaking, -1);
    on_ranks(with_a_fork, -1);
  }
  if (!mkdtemp(elastic_place)) abort();
  on_ranks(elastic_with_a_fork, -1);
  remove_all(elastic_place);
  of_an_elastic_group(0);
  if (failures == 0) printf("started calls from C: all holds\n");
  return failures != 0;
}
