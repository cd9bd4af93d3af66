/* The C API from C: a stand-alone program for several ranks of both MPIs. */
#define _POSIX_C_SOURCE 200809L /* fork */
#include <hcomp/hcomp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

/* Returns true on all ranks if `mine` is true on all ranks. */
static int on_all(int mine) {
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  return all;
}

/* Returns true if all ranks have the same bytes. */
static int same_bytes(void const* x, size_t bytes) {
  void* first = malloc(bytes);
  int same;
  memcpy(first, x, bytes);
  MPI_Bcast(first, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  same = memcmp(first, x, bytes) == 0;
  free(first);
  return on_all(same);
}

static int says(char const* part) { return strstr(hcomp_last_error(), part) != NULL; }
#define CHECK_REFUSED(call) CHECK((call) == HCOMP_INVALID_ARGUMENT && says("is a fork"))

/* Returns value i of a rank, in [-1, 1], by a fixed rule. */
static double drawn(int of_rank, size_t i) {
  return 2 * (double)((i * 2654435761u + (unsigned)of_rank * 40503u) % 1000003u) / 1000002 - 1;
}

enum { values = 5003 };
static float x[values];
static double y[values];

/* Whole numbers: results are exact in any order of additions. */
static void sums_of_whole_numbers_are_exact(void) {
  char const* const methods[] = {"identity", "identity algorithm=direct", "lossless_sparse",
                                 "thc bits=2 algorithm=hierarchical"};
  size_t m, i, count;
  for (m = 0; m < 4; ++m) {
    hcomp_plan* sum = NULL;
    hcomp_report report;
    int exact = 1;
    CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, methods[m], &sum));
    CHECK_OK(hcomp_plan_values(sum, &count));
    CHECK(count == values);
    for (i = 0; i < values; ++i) x[i] = (float)(i % 100) * (float)(rank + 1);
    CHECK_OK(hcomp_all_reduce(sum, x, &report));
    for (i = 0; i < values; ++i)
      exact &= x[i] == (float)(i % 100) * (float)(ranks * (ranks + 1) / 2);
    CHECK(exact);
    CHECK(report.weight == (uint64_t)ranks);
    CHECK(m < 3 ? report.error == 0 : isnan(report.error));
    CHECK(report.dominance == 0);
    CHECK(report.seconds >= report.seconds_codec && report.seconds_codec > 0);
    CHECK(report.shared_memory == (ranks > 1 && (m == 0 || m == 3)));
    CHECK((report.bytes_sent > 0) == (ranks > 1 && !report.shared_memory));
    CHECK_OK(hcomp_plan_free(&sum));
    CHECK(sum == NULL);
  }
}

static void means_and_doubles(void) {
  hcomp_plan* sum = NULL;
  size_t i;
  int exact = 1;
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_DOUBLE, "identity", &sum));
  CHECK_OK(hcomp_plan_set_mean(sum, 1));
  for (i = 0; i < values; ++i) y[i] = (double)i * ranks * (rank + 1);
  CHECK_OK(hcomp_all_reduce(sum, y, NULL));
  for (i = 0; i < values; ++i) exact &= y[i] == (double)i * ranks * (ranks + 1) / 2;
  CHECK(exact);
  CHECK_OK(hcomp_plan_set_mean(sum, 0));
  for (i = 0; i < values; ++i) y[i] = 1;
  CHECK_OK(hcomp_all_reduce(sum, y, NULL));
  CHECK(y[0] == ranks && y[values - 1] == ranks);
  CHECK(hcomp_plan_set_mean(sum, 2) == HCOMP_INVALID_ARGUMENT && says("mean is 2"));
  CHECK_OK(hcomp_plan_free(&sum));
}

/* Means of whole numbers that every codec in the list encodes exactly. */
static void means_by_all_ways(void) {
  char const* const methods[] = {"identity", "identity algorithm=recursive_doubling", "fp16",
                                 "lossless_sparse", "error_bounded 1e-6"};
  size_t m, i, first, count;
  for (m = 0; m < 5; ++m) {
    hcomp_plan* sum = NULL;
    int exact = 1;
    CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, methods[m], &sum));
    CHECK_OK(hcomp_plan_set_mean(sum, 1));
    for (i = 0; i < values; ++i) x[i] = (float)((int)(i % 5) * ranks * (rank == 0));
    CHECK_OK(hcomp_all_reduce(sum, x, NULL));
    for (i = 0; i < values; ++i) exact &= fabs(x[i] - (float)(i % 5)) <= 1e-6;
    check(exact, __LINE__, methods[m]);
    if (strstr(methods[m], "recursive_doubling") == NULL) {
      for (i = 0; i < values; ++i) x[i] = (float)((int)(i % 5) * ranks * (rank == 0));
      CHECK_OK(hcomp_reduce_scatter(sum, x, NULL));
      CHECK_OK(hcomp_plan_shard(sum, &first, &count));
      for (i = first; i < first + count; ++i) exact &= fabs(x[i] - (float)(i % 5)) <= 1e-6;
      check(exact, __LINE__, methods[m]);
      CHECK_OK(hcomp_all_gather(sum, x, NULL)); /* forwards the values of each shard's owner */
      for (i = 0; i < values; ++i) exact &= fabs(x[i] - (float)(i % 5)) <= 2e-6;
      check(exact, __LINE__, methods[m]);
    }
    CHECK_OK(hcomp_plan_free(&sum));
  }
}

static void a_bound_is_kept(void) {
  float const bound = 1e-3f;
  hcomp_plan* sum = NULL;
  hcomp_report report;
  size_t i;
  int r;
  double worst = 0;
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "error_bounded 1e-3", &sum));
  for (i = 0; i < values; ++i) x[i] = (float)drawn(rank, i);
  CHECK_OK(hcomp_all_reduce(sum, x, &report));
  for (i = 0; i < values; ++i) {
    double exact = 0;
    for (r = 0; r < ranks; ++r) exact += (float)drawn(r, i);
    if (fabs(x[i] - exact) > worst) worst = fabs(x[i] - exact);
  }
  /* Half a unit in the last place of a float below 2^2, because the result is rounded. */
  CHECK(worst <= bound + 2.4e-7);
  CHECK(report.error <= bound && worst <= report.error + 2.4e-7);
  CHECK(ranks == 1 || worst > 0);
  CHECK(same_bytes(x, sizeof x));
  CHECK_OK(hcomp_plan_free(&sum));
}

/* With error feedback, errors telescope: the results of T calls together are off by one residual
   of each rank. Without error feedback, every call adds an error. */
static double error_of_mean(char const* codec) {
  enum { calls = 32 };
  static double total[values];
  hcomp_plan* sum = NULL;
  double norm = 0;
  size_t i;
  int r, call;
  memset(total, 0, sizeof total);
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, codec, &sum));
  for (call = 0; call < calls; ++call) {
    for (i = 0; i < values; ++i) x[i] = (float)drawn(rank, i);
    CHECK_OK(hcomp_all_reduce(sum, x, NULL));
    for (i = 0; i < values; ++i) total[i] += x[i];
  }
  CHECK(same_bytes(x, sizeof x));
  for (i = 0; i < values; ++i) {
    double exact = 0;
    for (r = 0; r < ranks; ++r) exact += (float)drawn(r, i);
    norm += (total[i] / calls - exact) * (total[i] / calls - exact);
  }
  CHECK_OK(hcomp_plan_free(&sum));
  return sqrt(norm / values);
}
static void a_plan_keeps_the_residual(void) {
  /* Independent errors of 32 calls average to 1/sqrt(32) of one error, a residual to 1/32 of it. */
  CHECK(error_of_mean("thc bits=2") < 0.5 * error_of_mean("thc bits=2 feedback=no"));
}

/* With one bit the residual has about 2.6 times the energy of x. */
static void a_residual_is_reported_and_stays_bounded(void) {
  hcomp_plan* sum = NULL;
  hcomp_report report;
  int call;
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "thc:bits=1", &sum));
  for (call = 0; call < 120; ++call) {
    size_t i;
    for (i = 0; i < values; ++i) x[i] = (float)drawn(rank, i);
    CHECK_OK(hcomp_all_reduce(sum, x, &report));
    CHECK(report.residual > 0.2 && report.residual < 4);
  }
  CHECK_OK(hcomp_plan_free(&sum));
}

static void calls_and_plans_draw_new_numbers(void) {
  static float first[values];
  int round, again = 0;
  for (round = 0; round < 2; ++round) {
    hcomp_plan* sum = NULL;
    int call;
    CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "thc bits=4 feedback=no", &sum));
    for (call = 0; call < 2; ++call) {
      size_t i;
      for (i = 0; i < values; ++i) x[i] = (float)drawn(rank, i);
      CHECK_OK(hcomp_all_reduce(sum, x, NULL));
      if (round == 0 && call == 0) memcpy(first, x, sizeof x);
      again = again * 2 + (memcmp(first, x, sizeof x) == 0);
    }
    CHECK_OK(hcomp_plan_free(&sum));
  }
  CHECK(again == 8); /* only the first call of the first plan repeats: 1000 in binary */
}

static void parts_make_the_whole(void) {
  hcomp_plan* sum = NULL;
  size_t first = 0, count = 0, i;
  unsigned long mine, all = 0;
  int exact = 1;
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "identity", &sum));
  CHECK_OK(hcomp_plan_shard(sum, &first, &count));
  mine = (unsigned long)count;
  MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
  CHECK(all == values && first + count <= values);
  for (i = 0; i < values; ++i) x[i] = (float)i;
  CHECK_OK(hcomp_reduce_scatter(sum, x, NULL));
  for (i = first; i < first + count; ++i) exact &= x[i] == (float)i * (float)ranks;
  CHECK(exact);
  for (i = first; i < first + count; ++i) x[i] += 1;
  CHECK_OK(hcomp_all_gather(sum, x, NULL));
  for (i = 0; i < values; ++i) exact &= x[i] == (float)i * (float)ranks + 1;
  CHECK(exact);
  CHECK_OK(hcomp_plan_free(&sum));
}

static void refused(size_t count, MPI_Datatype type, char const* codec, char const* part) {
  hcomp_plan* sum = (hcomp_plan*)x;
  CHECK(hcomp_plan_create(MPI_COMM_WORLD, count, type, codec, &sum) == HCOMP_INVALID_ARGUMENT);
  CHECK(sum == NULL);
  if (!says(part)) {
    printf("rank %d: '%s' does not say '%s'\n", rank, hcomp_last_error(), part);
    ++failures;
  }
}
static void wrong_arguments_are_refused_in_words(void) {
  hcomp_plan* sum = NULL;
  hcomp_request* request = (hcomp_request*)x;
  size_t count;
  refused(10, MPI_FLOAT, "gzip", "hcomp_plan_create: codec 'gzip': no codec is called 'gzip'");
  refused(10, MPI_FLOAT, "thc bits=9", "codec 'thc bits=9': 'bits=9': bits is a whole number");
  refused(10, MPI_FLOAT, "thc:bits=1,truncation=0.03125",
          "codec 'thc:bits=1,granularity=1,truncation=0.03125' loses 3.702 of a vector's energy, "
          "and error feedback works below 0.75; set feedback=no or other keys");
  refused(10, MPI_FLOAT, " ", "codec is empty");
  refused(10, MPI_FLOAT, NULL, "codec is a null pointer");
  refused(10, MPI_FLOAT, "none", "a plan needs a codec");
  refused(10, MPI_FLOAT, "thc min=1MiB", "are for the rules of the drop-in library");
  refused(10, MPI_FLOAT, "thc turns=2", "are for the rules of the drop-in library");
  refused(10, MPI_FLOAT, "fp16 when=faster", "are for the rules of the drop-in library");
  refused(10, MPI_FLOAT, "thc; double: fp16", "without ';'");
  refused(10, MPI_INT, "identity", "neither float (4 bytes) nor double");
  refused(10, MPI_DATATYPE_NULL, "identity", "neither float (4 bytes) nor double");
  refused(10, MPI_DOUBLE, "inceptionn", "float only");
  refused((size_t)-1, MPI_FLOAT, "identity", "18446744073709551615 values, there can be");
  refused(10, MPI_FLOAT, "identity algorithm=torus:5x7", "35");
  refused(10, MPI_FLOAT, "th\x1b[31mc", "codec 'th\\x1b[31mc': no codec is called 'th\\x1b[31mc'");
  CHECK(hcomp_plan_create(MPI_COMM_NULL, 10, MPI_FLOAT, "identity", &sum) ==
        HCOMP_INVALID_ARGUMENT);
  CHECK(says("comm is MPI_COMM_NULL"));
  CHECK(hcomp_plan_create(MPI_COMM_WORLD, 10, MPI_FLOAT, "identity", NULL) ==
        HCOMP_INVALID_ARGUMENT);
  CHECK(says("plan is a null pointer"));
  CHECK(hcomp_all_reduce(NULL, x, NULL) == HCOMP_INVALID_ARGUMENT &&
        says("hcomp_all_reduce: plan"));
  CHECK(hcomp_plan_values(NULL, &count) == HCOMP_INVALID_ARGUMENT &&
        says("plan is a null pointer"));
  CHECK(hcomp_plan_shard(NULL, &count, &count) == HCOMP_INVALID_ARGUMENT);
  CHECK(hcomp_plan_shard_alignment(NULL, &count) == HCOMP_INVALID_ARGUMENT);
  CHECK(hcomp_plan_set_draws(NULL, 1, 2) == HCOMP_INVALID_ARGUMENT);
  CHECK(hcomp_plan_get_residual(NULL, x) == HCOMP_INVALID_ARGUMENT);
  CHECK(hcomp_plan_free(NULL) == HCOMP_INVALID_ARGUMENT &&
        says("hcomp_plan_free: plan is a null pointer"));
  CHECK_OK(hcomp_plan_free(&sum)); /* *plan is NULL */

  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, 10, MPI_FLOAT, "fp16", &sum));
  CHECK(hcomp_plan_shard(sum, NULL, &count) == HCOMP_INVALID_ARGUMENT && says("first is a null"));
  CHECK(hcomp_plan_shard_alignment(sum, NULL) == HCOMP_INVALID_ARGUMENT && says("unit is a null"));
  CHECK(hcomp_plan_get_residual(sum, x) == HCOMP_INVALID_ARGUMENT && says("has no error feedback"));
  CHECK(hcomp_plan_set_residual(sum, x) == HCOMP_INVALID_ARGUMENT && says("has no error feedback"));
  CHECK(hcomp_all_reduce(sum, NULL, NULL) == HCOMP_INVALID_ARGUMENT);
  CHECK(says("hcomp_all_reduce: on rank 0 x is a null pointer"));
  CHECK(hcomp_all_reduce_sized(sum, x, 9, 4, NULL) == HCOMP_INVALID_ARGUMENT);
  CHECK(says("hcomp_all_reduce with 9 values of 4 bytes in x for a plan of 10 of 4: "));
  CHECK(hcomp_reduce_scatter_sized(sum, x, 10, 8, NULL) == HCOMP_INVALID_ARGUMENT);
  CHECK(hcomp_all_gather_sized(sum, x, 11, 4, NULL) == HCOMP_INVALID_ARGUMENT);
  CHECK_OK(hcomp_all_reduce_sized(sum, x, 10, 4, NULL));
  CHECK_OK(hcomp_plan_free(&sum));
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, 10, MPI_FLOAT, "sign algorithm=sampled", &sum));
  CHECK(hcomp_reduce_scatter(sum, x, NULL) == HCOMP_INVALID_ARGUMENT && says("sampled"));
  CHECK(hcomp_all_reduce_start(sum, x, &request) == HCOMP_INVALID_ARGUMENT);
  CHECK(request == NULL && says("over a group of hcomp_group_create only"));
  CHECK_OK(hcomp_plan_free(&sum));
}

/* 1 TiB, which some systems grant all the same. Sanitizers end the process instead. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif
static void too_large_plans_are_refused_in_words(void) {
#ifndef SANITIZED
  hcomp_plan* sum = NULL;
  int const code = hcomp_plan_create(MPI_COMM_WORLD, (size_t)1 << 38, MPI_FLOAT, "identity", &sum);
  if (code != HCOMP_OK) {
    CHECK(code == HCOMP_OTHER && sum == NULL);
    CHECK(says(
        "hcomp_plan_create: there is not enough memory for a plan of 274877906944 of float by"));
  }
  CHECK_OK(hcomp_plan_free(&sum));
#endif
}

/* The last rank differs: all ranks get an error, and the plan works in the next call. */
static void disagreement_is_told_to_all(void) {
  int const odd = rank == ranks - 1;
  hcomp_plan* sum = NULL;
  if (ranks == 1) return;
  CHECK(hcomp_plan_create(MPI_COMM_WORLD, 10, MPI_FLOAT, odd ? "fp16" : "bf16", &sum) ==
        HCOMP_DISAGREEMENT);
  CHECK(says("rank 0: 10 of float by 'bf16'; rank 2: 10 of float by 'fp16'"));
  CHECK(hcomp_plan_create(MPI_COMM_WORLD, odd ? 11 : 10, MPI_FLOAT, "fp16", &sum) ==
        HCOMP_DISAGREEMENT);
  CHECK(hcomp_plan_create(MPI_COMM_WORLD, 10, odd ? MPI_DOUBLE : MPI_FLOAT, "fp16", &sum) ==
        HCOMP_DISAGREEMENT);
  CHECK(hcomp_plan_create(MPI_COMM_WORLD, 10, MPI_FLOAT, odd ? "zip" : "fp16", &sum) ==
        HCOMP_DISAGREEMENT);
  CHECK(says("no codec is called 'zip'") && sum == NULL);
  CHECK(hcomp_plan_create(MPI_COMM_WORLD, 10, MPI_FLOAT, "fp16", odd ? NULL : &sum) ==
        HCOMP_DISAGREEMENT);

  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, 10, MPI_FLOAT, "fp16", &sum));
  memset(x, 0, sizeof x);
  x[0] = 1;
  CHECK(hcomp_all_reduce(sum, odd ? NULL : x, NULL) == HCOMP_INVALID_ARGUMENT);
  CHECK(says("hcomp_all_reduce: on rank 2 x is a null pointer (x has 10 values"));
  CHECK(hcomp_reduce_scatter(sum, odd ? NULL : x, NULL) == HCOMP_INVALID_ARGUMENT);
  CHECK(hcomp_all_gather(sum, odd ? NULL : x, NULL) == HCOMP_INVALID_ARGUMENT);
  CHECK(says("hcomp_all_gather: on rank 2 x is a null pointer"));
  CHECK(hcomp_plan_set_mean(sum, odd) == HCOMP_OK);
  CHECK(hcomp_all_reduce(sum, x, NULL) == HCOMP_DISAGREEMENT);
  CHECK_OK(hcomp_plan_set_mean(sum, 0));
  CHECK((odd ? hcomp_reduce_scatter : hcomp_all_reduce)(sum, x, NULL) == HCOMP_DISAGREEMENT);
  CHECK(x[0] == 1);
  CHECK_OK(hcomp_all_reduce(sum, x, NULL));
  CHECK(x[0] == ranks && x[1] == 0);
  CHECK_OK(hcomp_plan_free(&sum));
}

static void nan_is_told_to_all(void) {
  hcomp_plan* sum = NULL;
  memset(x, 0, sizeof x);
  if (rank == 0) x[3] = (float)NAN;
  x[0] = 2;
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, values, MPI_FLOAT, "thc", &sum));
  CHECK(hcomp_all_reduce(sum, x, NULL) == HCOMP_NONFINITE);
  CHECK(x[0] == 2);
  CHECK_OK(hcomp_plan_free(&sum));
}

static void communicators_of_any_kind(void) {
  MPI_Comm part;
  hcomp_plan* sum = NULL;
  int size, exact = 1;
  size_t i;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
  MPI_Comm_size(part, &size);
  CHECK_OK(hcomp_plan_create_f(MPI_Comm_c2f(part), values, 8, "identity", &sum));
  MPI_Comm_free(&part); /* the plan has its own */
  for (i = 0; i < values; ++i) y[i] = 3;
  CHECK_OK(hcomp_all_reduce(sum, y, NULL));
  for (i = 0; i < values; ++i) exact &= y[i] == 3 * size;
  CHECK(exact);
  CHECK_OK(hcomp_plan_free(&sum));
  CHECK(hcomp_plan_create_f(MPI_Comm_c2f(MPI_COMM_WORLD), 10, 2, "identity", &sum) ==
        HCOMP_INVALID_ARGUMENT);
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, 0, MPI_FLOAT, "identity", &sum));
  CHECK_OK(hcomp_all_reduce(sum, NULL, NULL));
  CHECK_OK(hcomp_plan_free(&sum));
}

/* More plans than MPICH has communicators. On one rank only: with several ranks the waiting
   takes long on a busy machine. */
static void many_plans_at_once(void) {
  enum { count = 2100 };
  static hcomp_plan* sums[count];
  int i, made = 0, right = 0;
  for (i = 0; i < count; ++i)
    made += hcomp_plan_create(MPI_COMM_WORLD, 3, MPI_FLOAT, "identity", &sums[i]) == HCOMP_OK;
  CHECK(made == count);
  for (i = 0; i < count; ++i) {
    float mine[3] = {1, (float)rank, (float)i};
    right += hcomp_all_reduce(sums[i], mine, NULL) == HCOMP_OK && mine[0] == (float)ranks &&
             mine[2] == (float)(i * ranks);
  }
  CHECK(right == count);
  for (i = 0; i < count; ++i) CHECK_OK(hcomp_plan_free(&sums[i]));
}

/* Without a free communicator of MPI, a plan for a new set of ranks is refused. */
static void no_communicator_is_left(void) {
#ifndef OPEN_MPI /* Open MPI's number is limited only by memory */
  static MPI_Comm taken[4096];
  int i, count = 0;
  hcomp_plan* sum = NULL;
  MPI_Comm other;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  while (count < 4096 && MPI_Comm_dup(MPI_COMM_WORLD, &taken[count]) == MPI_SUCCESS) ++count;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  CHECK(count < 2046);
  if (ranks > 1) {
    CHECK(hcomp_plan_create(other, 3, MPI_FLOAT, "identity", &sum) == HCOMP_TRANSPORT);
    CHECK(sum == NULL && says("MPI_Comm_create"));
  }
  CHECK_OK(
      /* uses the existing copy */
      hcomp_plan_create(MPI_COMM_WORLD, 3, MPI_FLOAT, "identity", &sum));
  CHECK_OK(hcomp_plan_free(&sum));
  for (i = 0; i < count; ++i) MPI_Comm_free(&taken[i]);
  if (ranks > 1) {
    CHECK_OK(hcomp_plan_create(other, 3, MPI_FLOAT, "identity", &sum));
    CHECK_OK(hcomp_plan_free(&sum));
  }
  MPI_Comm_free(&other);
#endif
}

/* A forked child may only free what it inherits; the parent goes on. */
static void a_forked_child_is_refused(void) {
  hcomp_plan *plan = NULL, *thc = NULL;
  int status = -1;
  pid_t child;
  x[0] = 1;
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, 1, MPI_FLOAT, "identity", &plan));
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, 1, MPI_FLOAT, "thc", &thc));
  CHECK_OK(hcomp_all_reduce(plan, x, NULL));
  fflush(stdout);
  child = fork();
  if (child == 0) {
    alarm(20); /* ends a child that waits for other ranks */
    failures = 0;
    CHECK_REFUSED(hcomp_all_reduce(plan, x, NULL));
    CHECK_REFUSED(hcomp_reduce_scatter(plan, x, NULL));
    CHECK_REFUSED(hcomp_all_gather(plan, x, NULL));
    CHECK_REFUSED(hcomp_plan_set_mean(plan, 1));
    CHECK_REFUSED(hcomp_plan_get_residual(thc, y));
    CHECK_OK(hcomp_plan_free(&plan));
    CHECK_OK(hcomp_plan_free(&thc));
    CHECK(plan == NULL && thc == NULL);
    fflush(stdout);
    _exit(failures != 0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK_OK(hcomp_all_reduce(plan, x, NULL));
  CHECK(x[0] == (float)ranks * (float)ranks);
  CHECK_OK(hcomp_plan_free(&plan));
  CHECK_OK(hcomp_plan_free(&thc));
}

static void the_drop_in_library_is_not_there(void) {
  CHECK(hcomp_comm_set(MPI_COMM_WORLD, "float: thc") == HCOMP_NOT_RUNNING);
  CHECK(says("hcomp_comm_set: ") && says("preload libhcomp_pmpi.so"));
  CHECK(hcomp_comm_set_f(MPI_Comm_c2f(MPI_COMM_WORLD), NULL) == HCOMP_NOT_RUNNING);
}

int main(int argc, char** argv) {
  hcomp_plan* sum = NULL;
  int major = -1, minor = -1, patch = -1, all;
  CHECK(strcmp(hcomp_last_error(), "") == 0);
  CHECK(hcomp_plan_create(MPI_COMM_WORLD, 10, MPI_FLOAT, "identity", &sum) == HCOMP_NOT_RUNNING);
  CHECK(says("before MPI_Init"));
  CHECK_OK(hcomp_version(&major, &minor, &patch));
  CHECK(major >= 0 && minor >= 0 && patch >= 0);
  CHECK_OK(hcomp_version(NULL, NULL, NULL));
#ifdef OPEN_MPI
  CHECK(strncmp(hcomp_built_for(), "Open MPI ", 9) == 0);
#else
  CHECK(strncmp(hcomp_built_for(), "MPICH ", 6) == 0);
#endif

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  sums_of_whole_numbers_are_exact();
  means_and_doubles();
  means_by_all_ways();
  a_bound_is_kept();
  a_plan_keeps_the_residual();
  a_residual_is_reported_and_stays_bounded();
  calls_and_plans_draw_new_numbers();
  parts_make_the_whole();
  wrong_arguments_are_refused_in_words();
  too_large_plans_are_refused_in_words();
  disagreement_is_told_to_all();
  nan_is_told_to_all();
  communicators_of_any_kind();
  no_communicator_is_left();
  if (ranks == 1) many_plans_at_once();
  a_forked_child_is_refused();
  the_drop_in_library_is_not_there();
  CHECK_OK(hcomp_plan_create(MPI_COMM_WORLD, 10, MPI_FLOAT, "identity", &sum));
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  CHECK(hcomp_all_reduce(sum, x, NULL) == HCOMP_NOT_RUNNING);
  CHECK_OK(hcomp_plan_free(&sum)); /* late, but frees the plan */
  if (rank == 0 && all == 0) printf("the C API does what it says on %d ranks\n", ranks);
  return all + failures > 0;
}
