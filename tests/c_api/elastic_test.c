/* Elastic groups from C: this program starts the ranks as processes, and kills some. */
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */

#include <hcomp/elastic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processes.h"

enum { values = 3000, most = 5, timeout = 20000 };

static char directory[64];
static void new_directory(void) {
  strcpy(directory, "/tmp/hcomp_elastic_c.XXXXXX");
  if (!mkdtemp(directory)) abort();
}
static void end(struct process* all, int first, int count) {
  int i, status;
  for (i = first; i < count; ++i) {
    waitpid(all[i].id, &status, 0);
    check(status == 0, __LINE__, "a process ends without failures");
    close(all[i].pipe);
  }
  remove_all(directory);
}
/* Runs `work` on ranks 0 to count - 1. */
static void on_ranks(int count, void (*work)(int pipe)) {
  struct process all[most];
  int i;
  new_directory();
  for (i = 0; i < count; ++i) all[i] = start(i, work);
  end(all, 0, count);
}

/* ---- One of four ranks is killed, and rank 4 joins */

struct model {
  long step, stop;
  float parameters[values];
};
static struct model model;

static void train(int pipe) {
  static float exact[values], lossy[values];
  hcomp_elastic* group = NULL;
  hcomp_elastic_state now;
  hcomp_plan *plain = NULL, *thc = NULL;
  hcomp_report report;
  int const is_new = number == 4;
  int needed, i, names[most], holds;
  uint64_t generation = 0;
  if (is_new)
    CHECK_OK(hcomp_elastic_join(directory, timeout, &group));
  else
    CHECK_OK(hcomp_elastic_create(directory, number, 4, timeout, &group));
  CHECK_OK(hcomp_elastic_now(group, &now));
  CHECK(now.lost == 0 && now.size == 4 && (is_new || (now.name == number && now.rank == number)));
  CHECK_OK(hcomp_plan_create_elastic(group, values, HCOMP_FLOAT, "identity", &plain));
  CHECK_OK(hcomp_plan_create_elastic(group, values, HCOMP_FLOAT, "thc bits=4", &thc));
  CHECK_OK(hcomp_plan_set_mean(thc, 1));
  model.stop = 20000; /* far in the future, until rank 4 has joined */
  if (is_new) CHECK_OK(hcomp_elastic_share(group, &model, sizeof model));
  for (; model.step < model.stop && failures == 0; ++model.step) {
    for (i = 0; i < values; ++i) {
      exact[i] = (float)(1 << number);
      lossy[i] = (float)((i * 7 + number * 31 + (int)model.step * 13) % 101) / 50 - 1;
    }
    CHECK_OK(hcomp_all_reduce(plain, exact, &report));
    if (number == 2 && model.step == 20) raise(SIGKILL);
    CHECK_OK(hcomp_all_reduce(thc, lossy, &report));
    CHECK_OK(hcomp_elastic_now(group, &now));
    CHECK(report.weight == (uint64_t)now.size);
    CHECK(exact[0] == exact[values - 1]);
    /* of 0 to 3 without 2, and with 4; the last sum of rank 2 may include it or not */
    holds = exact[0] == (is_new || model.stop < 20000 ? 27 : model.step <= 20 ? 15 : 11);
    CHECK(holds || (model.step == 20 && exact[0] == 11));
    for (i = 0; i < values; ++i) model.parameters[i] += exact[i] + lossy[i];
    CHECK(now.generation >= generation);
    generation = now.generation;
    rest(1);
    if (model.step % 5 != 0) continue;
    CHECK_OK(hcomp_elastic_admit(group, &needed));
    if (!needed) continue;
    model.stop = model.step + 20;
    ++model.step; /* the new rank starts here */
    CHECK_OK(hcomp_elastic_share(group, &model, sizeof model));
    --model.step;
  }
  CHECK_OK(hcomp_elastic_now(group, &now));
  CHECK(now.size == 4 && now.lost == !is_new && now.generation >= 2);
  CHECK_OK(hcomp_elastic_members(group, names));
  CHECK(names[now.rank] == now.name && names[0] == 0 && names[1] == 1 && names[2] == 3);
  CHECK(names[3] > 1000);
  if (!is_new) CHECK_OK(hcomp_elastic_lost(group, names));
  CHECK(is_new || names[0] == 2);
  CHECK_OK(hcomp_plan_free(&thc));
  CHECK_OK(hcomp_elastic_free(&group));
  CHECK_OK(hcomp_plan_free(&plain)); /* keeps a reference to its part of the group */
  CHECK(group == NULL && plain == NULL);
  if (write(pipe, &model, sizeof model) != (ssize_t)sizeof model) CHECK(!"the model is written");
}

static void those_who_are_left_go_on_and_a_newcomer_has_the_same_bits(void) {
  static struct model first, other;
  struct process all[most];
  int i, status;
  new_directory();
  for (i = 0; i < 4; ++i) all[i] = start(i, train);
  waitpid(all[2].id, &status, 0);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  close(all[2].pipe);
  all[2] = start(4, train);
  for (i = 0; i < 4; ++i) {
    CHECK(read_all(all[i].pipe, i == 0 ? &first : &other, sizeof first));
    CHECK(i == 0 || memcmp(&first, &other, sizeof first) == 0);
  }
  CHECK(first.step >= 40 && first.parameters[0] > 11 * 40);
  end(all, 0, 4);
}

/* ---- Errors */

static void wrong(int pipe) {
  hcomp_elastic* group = NULL;
  hcomp_plan *sum = NULL, *other = NULL;
  float x[10];
  char text[8];
  void const* state;
  size_t bytes, i;
  int needed;
  (void)pipe;
  CHECK_ERROR(hcomp_elastic_create(NULL, number, 3, 1000, &group), HCOMP_INVALID_ARGUMENT,
              "hcomp_elastic_create: directory is a null pointer");
  CHECK_ERROR(hcomp_elastic_create(directory, number, 3, -1, &group), HCOMP_INVALID_ARGUMENT,
              "timeout_ms is -1");
  CHECK_ERROR(hcomp_elastic_create(directory, 3, 3, 1000, &group), HCOMP_INVALID_ARGUMENT,
              "rank 3 of 3 ranks");
  CHECK_ERROR(hcomp_elastic_create("/proc/nowhere", number, 3, 1000, &group), HCOMP_OTHER, "/proc");
  CHECK_ERROR(hcomp_elastic_admit(group, &needed), HCOMP_INVALID_ARGUMENT, "group is a null");
  CHECK_ERROR(hcomp_plan_create_elastic(group, 10, HCOMP_FLOAT, "fp16", &sum),
              HCOMP_INVALID_ARGUMENT, "group is a null");
  CHECK_OK(hcomp_elastic_free(&group));

  CHECK_OK(hcomp_elastic_create(directory, number, 3, timeout, &group));
  CHECK_ERROR(hcomp_plan_create_elastic(group, 10, HCOMP_FLOAT, "gzip", &sum),
              HCOMP_INVALID_ARGUMENT, "no codec is called 'gzip'");
  CHECK_ERROR(hcomp_plan_create_elastic(group, 10, HCOMP_INT32, "fp16", &sum),
              HCOMP_INVALID_ARGUMENT, "neither float");
  CHECK_ERROR(
      hcomp_plan_create_elastic(group, 10, HCOMP_FLOAT, "fp16 algorithm=hierarchical", &sum),
      HCOMP_INVALID_ARGUMENT, "hierarchical is not for");
  CHECK(sum == NULL);
  CHECK_OK(hcomp_plan_create_elastic(group, 10, HCOMP_FLOAT, "identity", &sum));
  CHECK_ERROR(hcomp_reduce_scatter(sum, x, NULL), HCOMP_INVALID_ARGUMENT, "has no shards");
  CHECK_ERROR(hcomp_all_gather(sum, x, NULL), HCOMP_INVALID_ARGUMENT, "has no shards");
  CHECK_ERROR(hcomp_plan_shard(sum, &bytes, &bytes), HCOMP_INVALID_ARGUMENT, "has no shards");
  CHECK_ERROR(hcomp_plan_set_draws(sum, 1, 1), HCOMP_INVALID_ARGUMENT,
              "number of the group's call");

  /* An error on one rank reaches all ranks; the group works in the next call. */
  CHECK_OK(
      hcomp_plan_create_elastic(group, 10, HCOMP_FLOAT, number == 1 ? "fp16" : "bf16", &other));
  for (i = 0; i < 10; ++i) x[i] = 1;
  CHECK(hcomp_all_reduce(other, x, NULL) != HCOMP_OK && x[0] == 1 && hcomp_last_error_rank() < 0);
  CHECK_OK(hcomp_plan_free(&other));
  CHECK(hcomp_all_reduce(sum, number == 1 ? NULL : x, NULL) == HCOMP_INVALID_ARGUMENT);
  CHECK(hcomp_elastic_share(group, number == 1 ? NULL : x, sizeof x) == HCOMP_INVALID_ARGUMENT);
  CHECK_ERROR(hcomp_elastic_share(group, x, number == 1 ? 4 : 8), HCOMP_INVALID_ARGUMENT,
              "rank 0 has 8 bytes of state, rank 1 4");
  CHECK_OK(hcomp_all_reduce(sum, x, NULL));
  CHECK(x[0] == 3 && x[9] == 3);

  /* The state of one rank, with a size that the other ranks do not know. */
  CHECK_OK(hcomp_elastic_admit(group, &needed));
  CHECK(needed == 0);
  if (number != 1) CHECK_OK(hcomp_elastic_forget(group));
  CHECK_OK(hcomp_elastic_admit(group, &needed));
  CHECK(needed == 0); /* no rank has joined */
  CHECK_OK(hcomp_elastic_share_any(group, "state", number == 1 ? 6 : 0, &state, &bytes));
  CHECK(bytes == 6);
  memcpy(text, state, bytes == 6 ? 6 : 0);
  CHECK(strcmp(text, "state") == 0);

  CHECK_OK(hcomp_plan_free(&sum));
  CHECK_OK(hcomp_elastic_free(&group));
  CHECK_ERROR(hcomp_elastic_create(directory, number, 3, 1000, &group), HCOMP_INVALID_ARGUMENT,
              "who comes back joins");
  if (number == 0)
    CHECK_ERROR(hcomp_elastic_join(directory, 100, &group), HCOMP_TRANSPORT,
                "nobody has admitted this newcomer within 100 ms");
}

/* ---- A rank that is late beyond the timeout */

static void late(int pipe) {
  hcomp_elastic* group = NULL;
  hcomp_elastic_state now;
  hcomp_plan* sum = NULL;
  float x = 1;
  int needed;
  (void)pipe;
  CHECK_OK(hcomp_elastic_create(directory, number, 3, 2000, &group));
  CHECK_OK(hcomp_plan_create_elastic(group, 1, HCOMP_FLOAT, "identity", &sum));
  CHECK_OK(hcomp_all_reduce(sum, &x, NULL));
  if (number == 1) {
    rest(8000);
    CHECK_ERROR(hcomp_all_reduce(sum, &x, NULL), HCOMP_TRANSPORT,
                "the others have gone on without rank 1");
    CHECK(hcomp_last_error_rank() == 1);
    CHECK_ERROR(hcomp_all_reduce(sum, &x, NULL), HCOMP_TRANSPORT, "can only be freed");
    CHECK_ERROR(hcomp_elastic_admit(group, &needed), HCOMP_TRANSPORT, "can only be freed");
    CHECK(hcomp_last_error_rank() == 1);
  } else {
    CHECK_OK(hcomp_all_reduce(sum, &x, NULL));
    CHECK(x == 6);
    CHECK_OK(hcomp_elastic_now(group, &now));
    CHECK(now.size == 2 && now.lost == 1 && now.rank == number / 2 && now.name == number);
  }
  CHECK_OK(hcomp_plan_free(&sum));
  CHECK_OK(hcomp_elastic_free(&group));
}

int main(void) {
  those_who_are_left_go_on_and_a_newcomer_has_the_same_bits();
  on_ranks(3, wrong);
  on_ranks(3, late);
  number = -1;
  if (failures == 0) printf("elastic groups from C: all holds\n");
  return failures != 0;
}
