/* A program that does not use hcomp. It reduces vectors with every function that the drop-in
 * library intercepts, and compares with results that it computes itself.
 *
 *   program exact        results must equal those of adding in rank order, bit for bit
 *   program whole        the same for whole numbers: holds for any MPI
 *   program within B     no value of a result may be off by more than B
 *   program integers     reductions of integers, of any type, must wrap around
 *   program converge S   gradient descent must come S times closer to the minimum
 *   program many N       creates, uses and frees N communicators in turn; memory may grow by the
 *                        fourth argument in MB, default 4
 *
 *   program alive N      creates N communicators, half of them with reversed ranks, and uses all of
 *                        them before it frees the first
 *   program alternate N  N times one reduction of 32-bit integers and one of 64-bit integers
 *   program fork         reduces, forks, and continues in both processes
 *   program left         many nonblocking reductions, some of them left to MPI
 *   program cancel       MPI_Cancel of a reduction fails with an error; the reduction continues
 *   program wrong        wrong arguments must give the errors that MPI defines for them
 *
 * A third argument of 1 asks for MPI_THREAD_MULTIPLE; with 2, the program also frees communicators
 * during reductions.
 */
#include <math.h>
#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#endif
#if MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5 || defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define HAS_PERSISTENT
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures = 0;
static double tolerance = 0;  /* of one value of a result */
static int whole_numbers = 0; /* in all vectors */

static int rank_in(MPI_Comm comm) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
static int size_of(MPI_Comm comm) {
  int size;
  MPI_Comm_size(comm, &size);
  return size;
}

/* Value i of a rank's vector: mostly 0. */
static double value(int rank, int i, int vector) {
  unsigned const hash =
      (unsigned)(i * 2654435761u + (unsigned)rank * 40503u + (unsigned)vector * 97u);
  int const whole = (int)(hash >> 16) % 9 - 4;
  if ((hash >> 8) % 4 != 0) return 0;
  return whole_numbers ? whole : whole * 0.37 + rank * 0.011;
}
/* The same for integers: mostly small; reductions of the large ones overflow. */
static uint64_t integer(int rank, int i, int vector) {
  unsigned const hash =
      (unsigned)(i * 2654435761u + (unsigned)rank * 40503u + (unsigned)vector * 97u);
  return i % 640 < 64 ? 0x7fffffff7fffffffu - hash % 1000 : hash % 1000;
}
static int is_integer(MPI_Datatype type) { return type != MPI_FLOAT && type != MPI_DOUBLE; }
static size_t bytes_of(MPI_Datatype type) {
  int bytes;
  MPI_Type_size(type, &bytes);
  return (size_t)bytes;
}
static void fill(void* x, MPI_Datatype type, int n, int rank, int vector) {
  for (int i = 0; i < n; ++i)
    if (is_integer(type)) {
      uint64_t const whole = integer(rank, i, vector);
      memcpy((char*)x + bytes_of(type) * (size_t)i, &whole, bytes_of(type));
    } else if (type == MPI_FLOAT)
      ((float*)x)[i] = (float)value(rank, i, vector);
    else
      ((double*)x)[i] = value(rank, i, vector);
}
/* The sum over `ranks` in their order, rank 0 first. */
static double sum_of(MPI_Datatype type, int i, int ranks, int vector) {
  double in_double = value(0, i, vector);
  float in_float = (float)in_double;
  for (int r = 1; r < ranks; ++r) {
    in_float += (float)value(r, i, vector);
    in_double += value(r, i, vector);
  }
  return type == MPI_FLOAT ? (double)in_float : in_double;
}
static void check_integers(char const* what, void const* got, MPI_Datatype type, int first, int n,
                           int ranks, int vector) {
  size_t const bytes = bytes_of(type);
  for (int i = 0; i < n; ++i) {
    uint64_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += integer(r, first + i, vector);
    if (memcmp((char const*)got + bytes * (size_t)i, &sum, bytes) == 0) continue;
    fprintf(stderr, "rank %d, %s of %d integers of %d bytes: value %d is wrong\n",
            rank_in(MPI_COMM_WORLD), what, n, (int)bytes, i);
    ++failures;
    return;
  }
}
static void check(char const* what, void const* got, MPI_Datatype type, int first, int n, int ranks,
                  int vector) {
  if (is_integer(type)) {
    check_integers(what, got, type, first, n, ranks, vector);
    return;
  }
  for (int i = 0; i < n; ++i) {
    double const is = type == MPI_FLOAT ? ((float const*)got)[i] : ((double const*)got)[i];
    double const should_be = sum_of(type, first + i, ranks, vector);
    if (fabs(is - should_be) <= tolerance) continue;
    fprintf(stderr, "rank %d, %s of %d: value %d is %.9g, should be %.9g\n",
            rank_in(MPI_COMM_WORLD), what, n, i, is, should_be);
    ++failures;
    return;
  }
}

/* A persistent all-reduce from x to y, of vectors first, first + 1 and first + 2. */
static void start_thrice(char const* what, MPI_Request request, void* x, void* y, MPI_Datatype type,
                         int n, int rank, int ranks, int first) {
  for (int vector = first; vector < first + 3; ++vector) {
    fill(x, type, n, rank, vector);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(what, y, type, 0, n, ranks, vector);
  }
}

#if MPI_VERSION >= 4
/* All-reduces from x to y by functions whose counts may exceed int. */
static void reduce_with_large_counts(MPI_Comm comm, MPI_Datatype type, int n, void* x, void* y) {
  int const rank = rank_in(comm), ranks = size_of(comm), root = ranks - 1, each = n / ranks;
  MPI_Request request;
  fill(x, type, n, rank, 15);
  MPI_Allreduce_c(x, y, n, type, MPI_SUM, comm);
  check("MPI_Allreduce_c", y, type, 0, n, ranks, 15);
  fill(x, type, n, rank, 16);
  MPI_Iallreduce_c(x, y, n, type, MPI_SUM, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check("MPI_Iallreduce_c", y, type, 0, n, ranks, 16);
  fill(x, type, n, rank, 17);
  MPI_Reduce_c(x, rank == root ? y : NULL, n, type, MPI_SUM, root, comm);
  if (rank == root) check("MPI_Reduce_c", y, type, 0, n, ranks, 17);
  MPI_Reduce_scatter_block_c(x, y, each, type, MPI_SUM, comm);
  check("MPI_Reduce_scatter_block_c", y, type, rank * each, each, ranks, 17);
  MPI_Count* const counts = malloc(sizeof(MPI_Count) * (size_t)ranks);
  for (int r = 0; r < ranks; ++r) counts[r] = each + (r == root ? n % ranks : 0);
  MPI_Reduce_scatter_c(x, y, counts, type, MPI_SUM, comm);
  check("MPI_Reduce_scatter_c", y, type, rank * each, (int)counts[rank], ranks, 17);
  free(counts);
  MPI_Allreduce_init_c(x, y, n, type, MPI_SUM, comm, MPI_INFO_NULL, &request);
  start_thrice("MPI_Allreduce_init_c", request, x, y, type, n, rank, ranks, 18);
  MPI_Request_free(&request);
}
#endif

static void reduce_everywhere(MPI_Comm comm, MPI_Datatype type, int n, int threads) {
  int const rank = rank_in(comm), ranks = size_of(comm);
  size_t const size = bytes_of(type);
  char *x = malloc(size * (size_t)n + 1), *y = malloc(size * (size_t)n + 1);

  fill(x, type, n, rank, 1);
  MPI_Allreduce(x, y, n, type, MPI_SUM, comm);
  check("MPI_Allreduce", y, type, 0, n, ranks, 1);
  MPI_Allreduce(MPI_IN_PLACE, x, n, type, MPI_SUM, comm);
  check("MPI_Allreduce in place", x, type, 0, n, ranks, 1);

  int const root = ranks - 1;
  fill(x, type, n, rank, 2);
  MPI_Reduce(x, rank == root ? y : NULL, n, type, MPI_SUM, root, comm);
  if (rank == root) check("MPI_Reduce", y, type, 0, n, ranks, 2);
  /* in place at rank 0 only: MPI_IN_PLACE at another root crashes MPICH 4.0 itself */
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : x, rank == 0 ? x : NULL, n, type, MPI_SUM, 0, comm);
  if (rank == 0) check("MPI_Reduce in place", x, type, 0, n, ranks, 2);

  int const each = n / ranks;
  fill(x, type, n, rank, 3);
  MPI_Reduce_scatter_block(x, y, each, type, MPI_SUM, comm);
  check("MPI_Reduce_scatter_block", y, type, rank * each, each, ranks, 3);

  int* counts = malloc(sizeof(int) * (size_t)ranks);
  int first = 0, all = 0;
  for (int r = 0; r < ranks; ++r) {
    counts[r] = r == 0 ? n - (ranks - 1) * (each / 2) : each / 2;
    if (r < rank) first += counts[r];
    all += counts[r];
  }
  if (all != n) ++failures;
  MPI_Reduce_scatter(x, y, counts, type, MPI_SUM, comm);
  check("MPI_Reduce_scatter", y, type, first, counts[rank], ranks, 3);
  MPI_Reduce_scatter(MPI_IN_PLACE, x, counts, type, MPI_SUM, comm);
  check("MPI_Reduce_scatter in place", x, type, first, counts[rank], ranks, 3);
  free(counts);

  /* three at once, with a blocking one between them */
  char* z[3];
  MPI_Request requests[3];
  MPI_Status statuses[3];
  for (int k = 0; k < 3; ++k) {
    z[k] = malloc(size * (size_t)n + 1);
    fill(z[k], type, n, rank, 4 + k);
    MPI_Iallreduce(MPI_IN_PLACE, z[k], n, type, MPI_SUM, comm, &requests[k]);
  }
  fill(x, type, n, rank, 7);
  MPI_Allreduce(x, y, n, type, MPI_SUM, comm);
  check("MPI_Allreduce between others", y, type, 0, n, ranks, 7);
  MPI_Waitall(3, requests, statuses);
  for (int k = 0; k < 3; ++k) {
    check("MPI_Iallreduce", z[k], type, 0, n, ranks, 4 + k);
    free(z[k]);
  }

#ifdef HAS_PERSISTENT
  MPI_Request persistent;
  MPI_Allreduce_init(x, y, n, type, MPI_SUM, comm, MPI_INFO_NULL, &persistent);
  start_thrice("MPI_Allreduce_init", persistent, x, y, type, n, rank, ranks, 8);
  MPI_Request_free(&persistent);
#endif

#if MPI_VERSION >= 4
  reduce_with_large_counts(comm, type, n, x, y);
#endif

  /* A program may free a communicator during its reductions. Open MPI 4.1 crashes without the
   * library. */
  if (threads == 2) {
    MPI_Comm other;
    MPI_Request pending;
    MPI_Comm_dup(comm, &other);
    fill(x, type, n, rank, 11);
    MPI_Allreduce(x, y, n, type, MPI_SUM, other); /* with Open MPI, otherwise MPI's */
    MPI_Iallreduce(x, y, n, type, MPI_SUM, other, &pending);
    MPI_Comm_free(&other);
    MPI_Wait(&pending, MPI_STATUS_IGNORE);
    check("MPI_Iallreduce of a freed communicator", y, type, 0, n, ranks, 11);
#ifdef HAS_PERSISTENT
    MPI_Comm_dup(comm, &other);
    MPI_Allreduce_init(x, y, n, type, MPI_SUM, other, MPI_INFO_NULL, &pending);
    MPI_Comm_free(&other);
    start_thrice("MPI_Allreduce_init of a freed communicator", pending, x, y, type, n, rank, ranks,
                 12);
    MPI_Request_free(&pending);
#endif
  }
  free(x);
  free(y);
}

/* By every function, and by every MPI datatype for integers of 32 and 64 bits. */
static void reduce_integers(int threads) {
  int const sizes[] = {0, 1, 1000, 20011};
  for (int s = 0; s < 4; ++s) {
    reduce_everywhere(MPI_COMM_WORLD, MPI_INT, sizes[s], threads);
    reduce_everywhere(MPI_COMM_WORLD, MPI_UINT64_T, sizes[s], threads);
  }
  MPI_Datatype const types[] = {MPI_UNSIGNED,
                                MPI_INT32_T,
                                MPI_UINT32_T,
                                MPI_LONG,
                                MPI_UNSIGNED_LONG,
                                MPI_LONG_LONG,
                                MPI_UNSIGNED_LONG_LONG,
                                MPI_INT64_T,
                                MPI_AINT,
                                MPI_OFFSET,
                                MPI_COUNT,
                                MPI_INTEGER,
                                MPI_INTEGER4,
                                MPI_INTEGER8};
  enum { n = 1000 };
  uint64_t x[n];
  for (size_t t = 0; t < sizeof types / sizeof *types; ++t) {
    if (types[t] == MPI_DATATYPE_NULL) continue; /* this MPI has no Fortran */
    fill(x, types[t], n, rank_in(MPI_COMM_WORLD), (int)t);
    MPI_Allreduce(MPI_IN_PLACE, x, n, types[t], MPI_SUM, MPI_COMM_WORLD);
    check("MPI_Allreduce", x, types[t], 0, n, size_of(MPI_COMM_WORLD), (int)t);
  }
  /* left to MPI */
  short few[n];
  for (int i = 0; i < n; ++i) few[i] = 1;
  MPI_Allreduce(MPI_IN_PLACE, few, n, MPI_SHORT, MPI_SUM, MPI_COMM_WORLD);
  if (few[n - 1] != size_of(MPI_COMM_WORLD)) ++failures;
  int most = rank_in(MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (most != size_of(MPI_COMM_WORLD) - 1) ++failures;
}

static void alternate(int turns) {
  MPI_Datatype const types[] = {MPI_INT32_T, MPI_INT64_T};
  enum { n = 1000 };
  uint64_t x[n];
  for (int k = 0; k < 2 * turns; ++k) {
    fill(x, types[k % 2], n, rank_in(MPI_COMM_WORLD), k);
    MPI_Allreduce(MPI_IN_PLACE, x, n, types[k % 2], MPI_SUM, MPI_COMM_WORLD);
    check("MPI_Allreduce", x, types[k % 2], 0, n, size_of(MPI_COMM_WORLD), k);
  }
}

/* Reductions that the library leaves to MPI. */
static void reduce_otherwise(MPI_Comm comm) {
  int const rank = rank_in(comm), ranks = size_of(comm);
  enum { n = 5000 };
  float *x = malloc(sizeof(float) * n), *y = malloc(sizeof(float) * n);
  for (int i = 0; i < n; ++i) x[i] = (float)rank;
  MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_MAX, comm);
  if (y[0] != (float)(ranks - 1) || y[n - 1] != y[0]) ++failures;
  MPI_Allreduce(x, y, 0, MPI_FLOAT, MPI_SUM, comm);
  int one = 1, all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
  if (all != ranks) ++failures;

  if (ranks >= 2) { /* the even ranks and the odd ones */
    MPI_Comm half, between;
    MPI_Comm_split(comm, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, comm, 1 - rank % 2, 1, &between);
    MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, between);
    float sum = 0;
    for (int r = 1 - rank % 2; r < ranks; r += 2) sum += (float)r;
    if (y[0] != sum || y[n - 1] != sum) {
      fprintf(stderr, "rank %d, an intercommunicator: %g, should be %g\n", rank, y[0], sum);
      ++failures;
    }
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
  }

  x[7] = NAN; /* must come out at the same index with every codec */
  MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, comm);
  if (!isnan(y[7]) || isnan(y[8])) {
    fprintf(stderr, "rank %d: the sum of NaN is %g, beside it %g\n", rank, y[7], y[8]);
    ++failures;
  }
  float* const all_of = malloc(sizeof(float) * n * (size_t)ranks);
  for (int i = 0; i < n * ranks; ++i) all_of[i] = i % n == 7 ? NAN : 1;
  MPI_Reduce_scatter_block(all_of, y, n, MPI_FLOAT, MPI_SUM, comm);
  if (!isnan(y[7]) || fabsf(y[8] - (float)ranks) > 0.01f) {
    fprintf(stderr, "rank %d: the part of a sum with NaN is %g, beside it %g\n", rank, y[7], y[8]);
    ++failures;
  }
  MPI_Reduce_scatter_block(MPI_IN_PLACE, all_of, n, MPI_FLOAT, MPI_SUM, comm);
  if (!isnan(all_of[7]) || fabsf(all_of[8] - (float)ranks) > 0.01f) {
    fprintf(stderr, "rank %d: the same in place is %g, beside it %g\n", rank, all_of[7], all_of[8]);
    ++failures;
  }
  free(all_of);

  /* a rank that receives no values needs no receive buffer */
  int* const counts = malloc(sizeof(int) * (size_t)ranks);
  for (int r = 0; r < ranks; ++r) counts[r] = r == ranks - 1 && ranks > 1 ? 0 : n;
  float* const parts = malloc(sizeof(float) * n * (size_t)ranks);
  for (int i = 0; i < n * ranks; ++i) parts[i] = 1;
  float* const part = counts[rank] > 0 ? malloc(sizeof(float) * n) : NULL;
  MPI_Reduce_scatter(parts, part, counts, MPI_FLOAT, MPI_SUM, comm);
  if (part && fabsf(part[n - 1] - (float)ranks) > 0.01f) {
    fprintf(stderr, "rank %d: beside a rank without a part %g\n", rank, part[n - 1]);
    ++failures;
  }
  free(part);
  free(parts);
  free(counts);
  free(x);
  free(y);
}

/* Expects MPI's own error for wrong arguments. */
static void expect(char const* what, int got, int expected) {
  int got_class = MPI_SUCCESS, expected_class = MPI_SUCCESS;
  MPI_Error_class(got, &got_class);
  MPI_Error_class(expected, &expected_class);
  if (got_class != expected_class || got_class == MPI_SUCCESS) {
    fprintf(stderr, "rank %d, %s: class %d, MPI's is %d\n", rank_in(MPI_COMM_WORLD), what,
            got_class, expected_class);
    ++failures;
  }
}
#define EXPECT(name, ...) \
  expect(#name " (" #__VA_ARGS__ ")", MPI_##name(__VA_ARGS__), PMPI_##name(__VA_ARGS__))
static void be_wrong(void) {
  enum { n = 5000 };
  static float x[n * 8], y[n * 8];
  MPI_Comm const world = MPI_COMM_WORLD;
  int const ranks = size_of(world);
  int counts[8], negative[8];
  for (int r = 0; r < 8; ++r) counts[r] = negative[r] = n;
  negative[0] = -1;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF,
                          MPI_ERRORS_RETURN); /* handles errors of calls without a communicator */
  EXPECT(Allreduce, x, x, n, MPI_FLOAT, MPI_SUM, world);
  EXPECT(Allreduce, x, y, -1, MPI_FLOAT, MPI_SUM, world);
  EXPECT(Allreduce, x, MPI_IN_PLACE, n, MPI_FLOAT, MPI_SUM, world);
  EXPECT(Allreduce, x, y, n, MPI_DATATYPE_NULL, MPI_SUM, world);
  EXPECT(Allreduce, x, y, n, MPI_FLOAT, MPI_OP_NULL, world);
  EXPECT(Allreduce, x, y, n, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL);
  EXPECT(Reduce, x, y, n, MPI_FLOAT, MPI_SUM, 99, world);
  EXPECT(Reduce, x, y, n, MPI_FLOAT, MPI_SUM, -7, world);
  EXPECT(Reduce, x, y, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_NULL);
  EXPECT(Reduce_scatter, x, y, negative, MPI_FLOAT, MPI_SUM, world);
  EXPECT(Reduce_scatter, x, y, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL);
  EXPECT(Reduce_scatter_block, x, y, -1, MPI_FLOAT, MPI_SUM, world);
  EXPECT(Reduce_scatter_block, x, y, n, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL);
  /* other ranks would wait */
  if (ranks == 1) EXPECT(Reduce, x, x, n, MPI_FLOAT, MPI_SUM, 0, world);
}

/* Results must be within the bound where a float lies within it. Elsewhere they are rounded
 * once, and a quarter of the bound allows for the additions. */
static void keep_bound(double bound) {
  enum { n = 65536 };
  static float x[n], y[n];
  static double exact[n];
  double const largest[] = {8, 300, 1e6};
  for (int k = 0; k < 3; ++k) {
    int possible = 0, beyond = 0, too_far = 0;
    for (int i = 0; i < n; ++i) {
      unsigned const hash = (unsigned)(3 * i + k) * 2654435761u ^
                            (unsigned)(rank_in(MPI_COMM_WORLD) + 1) * 2246822519u;
      x[i] = (float)(largest[k] * (0.7 + 0.3 * ldexp((double)(hash * 2654435761u), -32)));
      exact[i] = x[i];
    }
    PMPI_Allreduce(MPI_IN_PLACE, exact, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(x, y, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; ++i) {
      double const off = fabs(y[i] - exact[i]);
      int const has_float = fabs((float)exact[i] - exact[i]) <= bound;
      possible += has_float;
      beyond += has_float && off > bound;
      too_far += !has_float && off > bound / 4 + ldexp(exact[i], -24);
    }
    if (beyond > 0 || too_far > 0 || (k < 2 && possible < n)) {
      printf("sums of values up to %g: %d are possible, %d of them beyond %g, %d others too far\n",
             largest[k], possible, beyond, bound, too_far);
      ++failures;
    }
  }
}

/* Minimizes the sum over the ranks of |p - c_rank|^2 / 2. */
static void descend(double wanted) {
  int const rank = rank_in(MPI_COMM_WORLD), ranks = size_of(MPI_COMM_WORLD);
  enum { n = 20000, steps = 300 };
  float *p = calloc(n, sizeof(float)), *gradient = malloc(sizeof(float) * n);
  double distance = 0, first = 0;
  for (int t = 0; t <= steps; ++t) {
    distance = 0;
    for (int i = 0; i < n; ++i) {
      double centre = 0;
      for (int r = 0; r < ranks; ++r) centre += cos(i * 0.7 + r) / ranks;
      distance += (p[i] - centre) * (p[i] - centre);
      gradient[i] = p[i] - (float)cos(i * 0.7 + rank);
    }
    distance = sqrt(distance);
    if (t == 0) first = distance;
    if (t == steps) break;
    MPI_Allreduce(MPI_IN_PLACE, gradient, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    float const rate = 0.2f / (1 + 0.1f * (float)t) / (float)ranks;
    for (int i = 0; i < n; ++i) p[i] -= rate * gradient[i];
  }
  if (rank == 0) printf("%.1f times closer\n", first / distance);
  if (!(first / distance >= wanted)) ++failures;
  free(p);
  free(gradient);
}

/* Two groups of ranks, or two communicators of one group, round the same vectors. Independent
 * errors of n values correlate by 1 / sqrt(n); the limit is 6 times this value. */
static void round_apart(void) {
  enum { n = 65536 };
  int const rank = rank_in(MPI_COMM_WORLD), ranks = size_of(MPI_COMM_WORLD);
  MPI_Comm row, copy;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
  MPI_Comm_dup(row, &copy);
  float *x = malloc(sizeof(float) * n), *off = malloc(sizeof(float) * n * 2),
        *all = malloc(sizeof(float) * n * 2 * (size_t)ranks);
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < n; ++i)
      x[i] = (float)(sin(i * 1.3 + i % 17) + cos(i * 0.7 * (1 + rank % 2)));
    float* const mine = off + k * n;
    MPI_Allreduce(x, mine, n, MPI_FLOAT, MPI_SUM, k ? copy : row);
    for (int i = 0; i < n; ++i)
      mine[i] -= (float)(2 * sin(i * 1.3 + i % 17) + cos(i * 0.7) + cos(i * 1.4));
  }
  PMPI_Allgather(off, 2 * n, MPI_FLOAT, all, 2 * n, MPI_FLOAT, MPI_COMM_WORLD);
  /* results of row 0; results of the next row and of the copy */
  float const* const others[] = {all + (size_t)n * 4, all + n};
  for (int k = 0; k < 2; ++k) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; ++i) {
      ab += (double)all[i] * others[k][i];
      aa += (double)all[i] * all[i];
      bb += (double)others[k][i] * others[k][i];
    }
    double const correlation = ab / sqrt(aa * bb);
    if (rank == 0) printf("errors correlate by %.4f\n", correlation);
    if (!(aa > 0 && fabs(correlation) < 6 / sqrt(n))) ++failures;
  }
  free(x);
  free(off);
  free(all);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&row);
}

static long resident_kb(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*d %ld", &pages) != 1) ++failures;
  if (file) fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}
static void keep_alive(int count) {
  enum { n = 300 };
  float x[n];
  MPI_Comm* comms = malloc(sizeof(MPI_Comm) * (size_t)count);
  int const rank = rank_in(MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i)
    MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? -rank : rank, &comms[i]);
  for (int turn = 0; turn < 2; ++turn)
    for (int i = 0; i < count; ++i) {
      fill(x, MPI_FLOAT, n, rank_in(comms[i]), i + turn);
      MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, comms[i]);
      check("MPI_Allreduce", x, MPI_FLOAT, 0, n, size_of(comms[i]), i + turn);
    }
  for (int i = 0; i < count; ++i) MPI_Comm_free(&comms[i]);
  free(comms);
}
static void make_many(int count, long mb) {
  enum { n = 2000 };
  float* x = malloc(sizeof(float) * n);
  long before = 0;
  for (int i = 0; i < count; ++i) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    fill(x, MPI_FLOAT, n, rank_in(comm), i);
    MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, comm);
    check("MPI_Allreduce", x, MPI_FLOAT, 0, n, size_of(comm), i);
    MPI_Comm_free(&comm);
    if (i == count / 10) before = resident_kb();
  }
  long const grown = resident_kb() - before;
  if (rank_in(MPI_COMM_WORLD) == 0) printf("memory grew by %ld kB\n", grown);
  if (grown > mb * 1024) ++failures;
  free(x);
}

static void go_on_after_fork(void) {
  reduce_everywhere(MPI_COMM_WORLD, MPI_FLOAT, 3000, 0);
  fflush(NULL);
  pid_t const child = fork();
  if (child == 0) exit(0); /* runs the exit handlers of libraries */
  int status = 1;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fprintf(stderr, "the child of a fork ended with status %d\n", status);
    ++failures;
  }
  reduce_everywhere(MPI_COMM_WORLD, MPI_FLOAT, 3000, 0);
}

/* Rank 0 cancels before the other ranks start. With MPI_THREAD_MULTIPLE. */
static void cancel_a_reduction(MPI_Comm comm) {
  int const rank = rank_in(comm), n = 3000;
  float x[3000], y[3000];
  int code = MPI_SUCCESS, class = MPI_SUCCESS, is_cancelled = 0;
  MPI_Request request;
  MPI_Status status;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  fill(x, MPI_FLOAT, n, rank, 1);
  if (rank > 0) MPI_Recv(&code, 1, MPI_INT, rank - 1, 7, comm, MPI_STATUS_IGNORE);
  MPI_Iallreduce(x, y, n, MPI_FLOAT, MPI_SUM, comm, &request);
  if (rank == 0) {
    MPI_Error_class(MPI_Cancel(&request), &class);
    if (class != MPI_ERR_REQUEST) {
      fprintf(stderr, "MPI_Cancel gave the error class %d\n", class);
      ++failures;
    }
  }
  if (rank + 1 < size_of(comm)) MPI_Send(&code, 1, MPI_INT, rank + 1, 7, comm);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &is_cancelled);
  if (is_cancelled) {
    fprintf(stderr, "rank %d: the sum was cancelled\n", rank);
    ++failures;
  }
  check("MPI_Iallreduce", y, MPI_FLOAT, 0, n, size_of(comm), 1);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/* hcomp asks this function whether a message has arrived. `late` is an odd number, another one
 * on each rank. Once it is set, three of four answers are "not yet", as MPI permits. Concurrent
 * reductions then progress in a different order on each rank. */
static unsigned late;
int MPI_Test(MPI_Request* request, int* is_done, MPI_Status* status) {
  static _Thread_local unsigned draw;
  draw = draw * 1664525u + late;
  if (late == 0 || draw >> 30 == 0) return PMPI_Test(request, is_done, status);
  *is_done = 0;
  return MPI_SUCCESS;
}

/* Every second of many concurrent reductions has NaN on some rank, which the codec cannot
 * encode: MPI makes these. The reductions of whole numbers have exact results. hcomp detects NaN
 * in a long vector later than in the short vectors behind it. With MPI_THREAD_MULTIPLE. */
static void leave_some_to_mpi(MPI_Comm comm) {
  enum { sums = 12, most = 200000 };
  static float x[sums][most];
  MPI_Request requests[sums];
  int const rank = rank_in(comm), ranks = size_of(comm);
  late = 2 * (unsigned)rank + 1;
  for (int turn = 0; turn < 20; ++turn) {
    MPI_Allreduce(MPI_IN_PLACE, x[0], 100, MPI_FLOAT, MPI_SUM, comm);
    for (int k = 0; k < sums; ++k) {
      int const n = k % 6 == 1 ? most : 100;
      fill(x[k], MPI_FLOAT, n, rank, turn * sums + k);
      if (k % 2 == 1 && rank == k % ranks) x[k][0] = NAN;
      MPI_Iallreduce(MPI_IN_PLACE, x[k], n, MPI_FLOAT, MPI_SUM, comm, &requests[k]);
    }
    MPI_Waitall(sums, requests, MPI_STATUSES_IGNORE);
    for (int k = 1; k < sums; k += 2) {
      if (!isnan(x[k][0])) ++failures;
      x[k][0] = (float)sum_of(MPI_FLOAT, 0, ranks, turn * sums + k);
      check("MPI_Iallreduce with NaN", x[k], MPI_FLOAT, 0, k % 6 == 1 ? most : 100, ranks,
            turn * sums + k);
    }
  }
}

int main(int argc, char** argv) {
  char const* const mode = argc > 1 ? argv[1] : "whole";
  double const number = argc > 2 ? atof(argv[2]) : 0;
  int const wants_threads = argc > 3 ? atoi(argv[3]) : 0;
  int provided = MPI_THREAD_SINGLE;
  if (wants_threads)
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  else
    MPI_Init(&argc, &argv);
  whole_numbers = strcmp(mode, "whole") == 0 || strcmp(mode, "many") == 0 ||
                  strcmp(mode, "alive") == 0 || strcmp(mode, "cancel") == 0 ||
                  strcmp(mode, "left") == 0;
  if (strcmp(mode, "within") == 0) tolerance = number;
  if (strcmp(mode, "converge") == 0) {
    descend(number);
  } else if (strcmp(mode, "integers") == 0) {
    reduce_integers(wants_threads);
  } else if (strcmp(mode, "alternate") == 0) {
    alternate((int)number);
  } else if (strcmp(mode, "apart") == 0) {
    round_apart();
  } else if (strcmp(mode, "bound") == 0) {
    keep_bound(number);
  } else if (strcmp(mode, "many") == 0) {
    make_many((int)number, argc > 4 ? atol(argv[4]) : 4);
  } else if (strcmp(mode, "alive") == 0) {
    keep_alive((int)number);
  } else if (strcmp(mode, "fork") == 0) {
    go_on_after_fork();
  } else if (strcmp(mode, "cancel") == 0) {
    cancel_a_reduction(MPI_COMM_WORLD);
  } else if (strcmp(mode, "left") == 0) {
    leave_some_to_mpi(MPI_COMM_WORLD);
  } else if (strcmp(mode, "wrong") == 0) {
    be_wrong();
  } else {
    MPI_Comm copy, part;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, rank_in(MPI_COMM_WORLD) > 0, 0, &part);
    int const sizes[] = {0, 1, 7, 1000, 4096, 100003};
    for (int s = 0; s < 6; ++s) {
      reduce_everywhere(MPI_COMM_WORLD, MPI_FLOAT, sizes[s], wants_threads);
      if (strcmp(mode, "exact") != 0)
        reduce_everywhere(MPI_COMM_WORLD, MPI_DOUBLE, sizes[s], wants_threads);
      reduce_everywhere(copy, MPI_FLOAT, sizes[s], wants_threads);
      if (rank_in(MPI_COMM_WORLD) == 0 || whole_numbers)
        reduce_everywhere(part, MPI_FLOAT, sizes[s], wants_threads);
    }
    MPI_Comm_free(&part); /* MPI_Finalize frees the other one */
    reduce_otherwise(MPI_COMM_WORLD);
  }
  int all = 0;
  PMPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank_in(MPI_COMM_WORLD) == 0 && all == 0) puts("as it should be");
  MPI_Finalize();
  return all > 0;
}
