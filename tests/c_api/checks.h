/* Checks for tests of the C API on MPI ranks. */
#ifndef HCOMP_TESTS_C_API_CHECKS_H
#define HCOMP_TESTS_C_API_CHECKS_H

#include <hcomp/hcomp.h>
#include <stdio.h>

static int rank, ranks, failures;

static void check(int holds, int line, char const* what) {
  if (holds) return;
  ++failures;
  printf("rank %d of %d, line %d: %s does not hold; the last error was '%s'\n", rank, ranks, line,
         what, hcomp_last_error());
}
#define CHECK(condition) check((condition), __LINE__, #condition)
#define CHECK_OK(call) check((call) == HCOMP_OK, __LINE__, #call)

#endif
