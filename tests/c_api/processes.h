/* Checks for tests of the C API without MPI, and a program that starts ranks as processes.
 * Includers define _XOPEN_SOURCE 700 first. */
#ifndef HCOMP_TESTS_C_API_PROCESSES_H
#define HCOMP_TESTS_C_API_PROCESSES_H

#include <ftw.h>
#include <hcomp/plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int number; /* of this process */
static int failures;

static void check(int holds, int line, char const* what) {
  if (holds) return;
  ++failures;
  printf("process %d, line %d: %s does not hold; the last error was '%s'\n", number, line, what,
         hcomp_last_error());
}
#define CHECK(condition) check((condition), __LINE__, #condition)
#define CHECK_OK(call) check((call) == HCOMP_OK, __LINE__, #call)
#define CHECK_ERROR(call, code, words) \
  check((call) == (code) && strstr(hcomp_last_error(), words) != NULL, __LINE__, #call " " words)

static void rest(int ms) {
  struct timespec time;
  time.tv_sec = ms / 1000;
  time.tv_nsec = ms % 1000 * 1000000L;
  nanosleep(&time, NULL);
}

/* A process that runs `work`, which writes its results to the pipe. */
struct process {
  pid_t id;
  int pipe;
};
static struct process start(int its_number, void (*work)(int pipe)) {
  struct process one;
  int ends[2];
  fflush(stdout);
  if (pipe(ends) != 0) abort();
  one.id = fork();
  one.pipe = ends[0];
  if (one.id == 0) {
    number = its_number;
    failures = 0;
    alarm(100);
    close(ends[0]);
    work(ends[1]);
    fflush(stdout);
    _exit(failures != 0);
  }
  close(ends[1]);
  return one;
}

static int read_all(int pipe, void* to, size_t bytes) {
  size_t have = 0;
  ssize_t came;
  while (have < bytes && (came = read(pipe, (char*)to + have, bytes - have)) > 0)
    have += (size_t)came;
  return have == bytes;
}

static int remove_one(char const* path, struct stat const* s, int type, struct FTW* place) {
  (void)s, (void)type, (void)place;
  return remove(path);
}
static void remove_all(char const* directory) {
  nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
