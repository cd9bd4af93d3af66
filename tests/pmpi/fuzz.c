/* Random calls of all functions that the drop-in library intercepts. The program does not use
 * hcomp.
 *
 *   fuzz [CALLS [SEED [FIRST]]]      default: 2000 calls, seed 1, FIRST 0
 *
 * With FIRST 1, the first all-reduce on every communicator is blocking.
 *
 * All values and all partial results are small whole numbers. Therefore exactly one result is right
 * in any order of additions, and the program compares every bit. Bytes around each buffer must keep
 * their values. All ranks make the same calls; each rank completes its requests in its own order.
 */
#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#endif
#if MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5 || defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define HAS_PERSISTENT
#endif
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { most_ranks = 8, most_groups = 6, most_pending = 12, most_named = 3, around = 64 };

static int me, ranks;
static int failures = 0;
static long step = 0;
static int is_first_blocking = 0;
static unsigned long long seed = 1;

/* ---- Random numbers -------------------------------------------------------------------------- */
static uint64_t mix(uint64_t x) { /* from splitmix64 */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}
static uint64_t common, own; /* generator states: equal on all ranks; of this rank only */
static int draw(uint64_t* state, int choices) {
  *state = mix(*state);
  return (int)(*state >> 33) % choices;
}
static int all_draw(int choices) { return draw(&common, choices); }
static int i_draw(int choices) { return draw(&own, choices); }

static int draw_count(void) {
  switch (all_draw(12)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return 4096;
    case 3: return all_draw(20000);
    default: return all_draw(300);
  }
}

/* ---- Vectors --------------------------------------------------------------------------------- */
static MPI_Datatype type_of[] = {MPI_FLOAT, MPI_FLOAT, MPI_DOUBLE, MPI_INT};
static int const size_of[] = {4, 4, 8, 4};
static MPI_Op op_of[] = {MPI_SUM, MPI_SUM, MPI_SUM, MPI_MAX, MPI_OP_NULL /* user-defined */};

static void our_sum(void* in, void* inout, int* n, MPI_Datatype* type) {
  for (int i = 0; i < *n; ++i)
    if (*type == MPI_FLOAT)
      ((float*)inout)[i] += ((float*)in)[i];
    else if (*type == MPI_DOUBLE)
      ((double*)inout)[i] += ((double*)in)[i];
    else
      ((int*)inout)[i] += ((int*)in)[i];
}

/* Value i of a rank. In some vectors most values are 0, in some vectors all. */
static int value(uint64_t vector, int rank, int i) {
  uint64_t const hash = mix(vector ^ (uint64_t)rank << 32 ^ (uint64_t)i << 40 ^ (uint64_t)i);
  int const density = (int)(vector % 4);
  if ((int)(hash % 16) >= density * density * 2) return 0;
  return (int)(hash >> 20) % 33 - 16;
}
static void put(void* x, int type, int i, int v) {
  if (type_of[type] == MPI_FLOAT)
    ((float*)x)[i] = (float)v;
  else if (type_of[type] == MPI_DOUBLE)
    ((double*)x)[i] = v;
  else
    ((int*)x)[i] = v;
}

struct buffer {
  char *all, *data;
  size_t bytes, all_bytes;
};
static struct buffer make_buffer(size_t bytes, int value_bytes) {
  struct buffer b;
  b.bytes = bytes;
  b.all_bytes = bytes + 2 * around;
  b.all = malloc(b.all_bytes);
  b.data = b.all + around - value_bytes * i_draw(4); /* aligned to one value only */
  memset(b.all, 0xa5, b.all_bytes);
  return b;
}
static int is_kept_around(struct buffer const* b) {
  for (char* c = b->all; c != b->all + b->all_bytes; ++c)
    if ((unsigned char)*c != 0xa5 && (c < b->data || c >= b->data + b->bytes)) return 0;
  return 1;
}

/* ---- Communicators --------------------------------------------------------------------------- */
/* All ranks know the members of every group. */
static struct group {
  MPI_Comm comm; /* MPI_COMM_NULL on ranks outside the group */
  int size;      /* 0: unused */
  int members[most_ranks];
} groups[most_groups];

static int place_in(struct group const* g) {
  for (int r = 0; r < g->size; ++r)
    if (g->members[r] == me) return r;
  return -1;
}

/* ---- Calls ----------------------------------------------------------------------------------- */
enum function {
  all_reduce,
  reduce,
  reduce_scatter,
  reduce_scatter_block,
  iall_reduce,
  all_reduce_init,
  message, /* point to point */
  functions
};
static char const* const names[] = {
    "MPI_Allreduce",  "MPI_Reduce",         "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
    "MPI_Iallreduce", "MPI_Allreduce_init", "MPI_Irecv",          ""};
struct call {
  enum function function;
  struct group group; /* a copy from the time of the call */
  int type, op, count, in_place, root, counts[most_ranks];
  uint64_t vector;
  struct buffer send, receive;
  long step;
};

static void fail(struct call const* c, char const* what, double is, double should_be, int at) {
  ++failures;
  if (failures > 20) return;
  fprintf(
      stderr,
      "seed %llu, step %ld, rank %d, %s of %d values of type %d, op %d, in place %d, root %d, %d "
      "ranks: %s; value %d is %.9g, should be %.9g\n",
      seed, c->step, me, names[c->function], c->count, c->type, c->op, c->in_place, c->root,
      c->group.size, what, at, is, should_be);
}

static struct call draw_call(enum function f) {
  struct call c;
  memset(&c, 0, sizeof c);
  c.function = f;
  c.step = step;
  do c.group = groups[all_draw(most_groups)];
  while (c.group.size == 0);
  c.type = all_draw(4);
  c.op = all_draw(5);
  c.count = draw_count();
  c.in_place = all_draw(3) == 0;
  c.root = all_draw(c.group.size);
  c.vector = mix(common);
  if (f == reduce_scatter_block) {
    c.count /= c.group.size;
    for (int r = 0; r < c.group.size; ++r) c.counts[r] = c.count;
    c.count *= c.group.size;
  } else if (f == reduce_scatter) {
    int left = c.count;
    int const even = all_draw(2);
    for (int r = 0; r < c.group.size; ++r) {
      c.counts[r] = even ? left / (c.group.size - r) : all_draw(3) == 0 ? 0 : all_draw(left + 1);
      if (r == c.group.size - 1 && all_draw(2)) c.counts[r] = left;
      left -= c.counts[r];
    }
    c.count -= left;
  } else if (f == reduce && c.root != 0) {
    c.in_place = 0; /* MPICH 4.0 itself crashes with a root other than 0 */
  } else if (f == message) {
    c.in_place = 0;
    c.group = groups[0];
  }
  return c;
}

/* Returns whether this rank has a separate send buffer, and how many values it receives. */
static int sends_apart(struct call const* c) {
  return !c->in_place || (c->function == reduce && place_in(&c->group) != c->root);
}
static int received(struct call const* c) {
  int const place = place_in(&c->group);
  if (c->function == reduce) return place == c->root ? c->count : 0;
  if (c->function == reduce_scatter || c->function == reduce_scatter_block) return c->counts[place];
  return c->count;
}
static void fill(struct call* c) {
  char* const x = sends_apart(c) ? c->send.data : c->receive.data;
  for (int i = 0; i < c->count; ++i) put(x, c->type, i, value(c->vector, me, i));
}
static void make_buffers(struct call* c) {
  int const size = size_of[c->type];
  int const apart = sends_apart(c);
  c->send = make_buffer((size_t)(apart ? c->count : 0) * size, size);
  c->receive = make_buffer((size_t)(apart ? received(c) : c->count) * size, size);
  fill(c);
}
static void const* sent(struct call const* c) {
  if (!sends_apart(c)) return MPI_IN_PLACE;
  return c->count == 0 && i_draw(2) ? NULL : c->send.data;
}
static void* where(struct call const* c) {
  int const unused = received(c) == 0 && sends_apart(c) && c->count > 0;
  return unused && i_draw(2) ? NULL : c->receive.data;
}

static void check(struct call const* c) {
  int const place = place_in(&c->group);
  int first = 0;
  if (c->function == reduce_scatter || c->function == reduce_scatter_block)
    for (int r = 0; r < place; ++r) first += c->counts[r];
  for (int i = 0; i < received(c); ++i) {
    int should_be =
        value(c->vector, c->group.members[c->function == message ? c->root : 0], first + i);
    for (int r = 1; r < c->group.size && c->function != message; ++r) {
      int const v = value(c->vector, c->group.members[r], first + i);
      should_be = op_of[c->op] != MPI_MAX ? should_be + v : v > should_be ? v : should_be;
    }
    double right;
    put(&right, c->type, 0, should_be);
    if (memcmp(c->receive.data + i * size_of[c->type], &right, (size_t)size_of[c->type]) == 0)
      continue;
    fail(c, "wrong",
         type_of[c->type] == MPI_FLOAT    ? ((float*)c->receive.data)[i]
         : type_of[c->type] == MPI_DOUBLE ? ((double*)c->receive.data)[i]
                                          : ((int*)c->receive.data)[i],
         should_be, i);
    break;
  }
  if (!is_kept_around(&c->receive)) fail(c, "written outside the receive buffer", 0, 0, 0);
  if (!is_kept_around(&c->send)) fail(c, "written outside the send buffer", 0, 0, 0);
  for (int i = 0; i < c->count && sends_apart(c); ++i) {
    double right;
    put(&right, c->type, 0, value(c->vector, me, i));
    if (memcmp(c->send.data + i * size_of[c->type], &right, (size_t)size_of[c->type]) == 0)
      continue;
    fail(c, "the send buffer was written", 0, 0, i);
    break;
  }
}
static void free_buffers(struct call* c) {
  free(c->send.all);
  free(c->receive.all);
}

static void call_now(struct call* c) {
  if (place_in(&c->group) < 0) return;
  make_buffers(c);
  void const* const send = sent(c);
  void* const receive = where(c);
  MPI_Datatype const type = type_of[c->type];
  MPI_Op const op = op_of[c->op];
  MPI_Comm const comm = c->group.comm;
  if (c->function == all_reduce)
    MPI_Allreduce(send, receive, c->count, type, op, comm);
  else if (c->function == reduce)
    MPI_Reduce(send, receive, c->count, type, op, c->root, comm);
  else if (c->function == reduce_scatter)
    MPI_Reduce_scatter(send, receive, c->counts, type, op, comm);
  else
    MPI_Reduce_scatter_block(send, receive, c->counts[0], type, op, comm);
  check(c);
  free_buffers(c);
}

static void use_first(int number) {
  if (!is_first_blocking || groups[number].size == 0) return;
  struct call c;
  memset(&c, 0, sizeof c);
  c.group = groups[number];
  c.count = 10;
  c.vector = mix(common);
  c.step = step;
  call_now(&c);
}

/* ---- Requests -------------------------------------------------------------------------------- */
static struct pending {
  struct call call;
  MPI_Request request;
  int is_used, is_active;
  int name; /* of a persistent request, equal on all ranks; otherwise -1 */
} pending[most_pending];

/* Completes request number i of this rank. */
static void ended(int i) {
  struct pending* const p = &pending[i];
  if (!p->is_used || !p->is_active) return;
  check(&p->call);
  p->is_active = 0;
  if (p->name >= 0) {
    if (p->request == MPI_REQUEST_NULL) fail(&p->call, "the persistent request is gone", 0, 0, 0);
    return;
  }
  if (p->request != MPI_REQUEST_NULL) fail(&p->call, "the request is still there", 0, 0, 0);
  free_buffers(&p->call);
  p->is_used = 0;
}

static void wait_for(int i) {
  if (!pending[i].is_used || !pending[i].is_active) return;
  MPI_Wait(&pending[i].request, MPI_STATUS_IGNORE);
  ended(i);
}

/* MPICH 4.0 and 5.0 wait forever for an inactive persistent all-reduce. Their MPI_Testall fails
 * for an active one. */
#if defined(MPICH) || MPI_ABI_VERSION >= 1
static int const knows_persistent = 0;
#else
static int const knows_persistent = 1;
#endif

/* Completes some requests of this rank, in any order, by any completion function. The array may
 * contain inactive persistent requests and MPI_REQUEST_NULL. */
static void finish_some(void) {
  int which[most_pending], n = 0, first = i_draw(most_pending), done = 0, index = 0;
  enum { by_testall = 3 };
  int const all = i_draw(2), how = i_draw(8);
  MPI_Request requests[most_pending];
  MPI_Status statuses[most_pending];
  for (int k = 0; k < most_pending; ++k) {
    int const i = (first + 5 * k) % most_pending;
    if (!knows_persistent && pending[i].is_used && pending[i].name >= 0 &&
        (how == by_testall || !pending[i].is_active))
      continue;
    if ((pending[i].is_used || i_draw(8) == 0) && (all || i_draw(2))) which[n++] = i;
  }
  for (int k = 0; k < n; ++k)
    requests[k] = pending[which[k]].is_used ? pending[which[k]].request : MPI_REQUEST_NULL;
  int indices[most_pending];
  MPI_Status* const told = i_draw(2) ? statuses : MPI_STATUSES_IGNORE;
  MPI_Status* const told_one = i_draw(2) ? statuses : MPI_STATUS_IGNORE;
  int ends[most_pending] = {0};
  switch (how) {
    case 0:
      MPI_Waitall(n, requests, told);
      for (int k = 0; k < n; ++k) ends[k] = 1;
      break;
    case 1:
      MPI_Waitany(n, requests, &index, told_one);
      if (index != MPI_UNDEFINED) ends[index] = 1;
      break;
    case 2:
      MPI_Waitsome(n, requests, &done, indices, told);
      for (int k = 0; done != MPI_UNDEFINED && k < done; ++k) ends[indices[k]] = 1;
      break;
    case by_testall:
      MPI_Testall(n, requests, &done, told);
      for (int k = 0; done && k < n; ++k) ends[k] = 1;
      break;
    case 4:
      MPI_Testany(n, requests, &index, &done, told_one);
      if (done && index != MPI_UNDEFINED) ends[index] = 1;
      break;
    case 5:
      MPI_Testsome(n, requests, &done, indices, told);
      for (int k = 0; done != MPI_UNDEFINED && k < done; ++k) ends[indices[k]] = 1;
      break;
    case 6:
      for (int k = 0; k < n; ++k) MPI_Wait(&requests[k], told_one), ends[k] = 1;
      break;
    default:
      for (int k = 0; k < n; ++k) {
        if (i_draw(2)) {
          MPI_Test(&requests[k], &done, told_one);
          ends[k] = done;
        } else if (requests[k] != MPI_REQUEST_NULL) {
          MPI_Request_get_status(requests[k], &done, told_one);
          if (done) MPI_Wait(&requests[k], told_one), ends[k] = 1;
        }
      }
  }
  for (int k = 0; k < n; ++k) {
    if (!pending[which[k]].is_used) continue;
    pending[which[k]].request = requests[k];
    if (ends[k]) ended(which[k]);
  }
}

/* Returns a free slot for a request of this rank. */
static struct pending* find_place(void) {
  for (;;) {
    for (int i = 0; i < most_pending; ++i)
      if (!pending[i].is_used) return &pending[i];
    for (int i = 0; i < most_pending; ++i)
      if (pending[i].name < 0) wait_for(i);
  }
}
static struct pending* find_named(int name) {
  for (int i = 0; i < most_pending; ++i)
    if (pending[i].is_used && pending[i].name == name) return &pending[i];
  return NULL;
}

static void call_with_request(struct call* c) {
  if (place_in(&c->group) < 0) return;
  struct pending* const p = find_place();
  make_buffers(c);
  MPI_Iallreduce(sent(c), where(c), c->count, type_of[c->type], op_of[c->op], c->group.comm,
                 &p->request);
  p->call = *c;
  p->is_used = p->is_active = 1;
  p->name = -1;
}

/* A message from c->root to another rank, concurrent with the reductions. */
static void call_message(struct call* c) {
  int const to = (c->root + 1 + all_draw(ranks - 1)) % ranks;
  if (me != c->root && me != to) return;
  make_buffers(c);
  if (me == c->root) {
    MPI_Send(c->send.data, c->count, type_of[c->type], to, (int)(step % 30000), MPI_COMM_WORLD);
    free_buffers(c);
    return;
  }
  struct pending* const p = find_place();
  MPI_Irecv(c->receive.data, c->count, type_of[c->type], c->root, (int)(step % 30000),
            MPI_COMM_WORLD, &p->request);
  p->call = *c;
  p->is_used = p->is_active = 1;
  p->name = -1;
}

#ifdef HAS_PERSISTENT
static int has_persistent = 1;
static void init(struct call const* c, MPI_Request* request) {
  MPI_Allreduce_init(sent(c), where(c), c->count, type_of[c->type], op_of[c->op], c->group.comm,
                     MPI_INFO_NULL, request);
}
#else
static int has_persistent = 0;
static void init(struct call const* c, MPI_Request* request) { (void)c, (void)request; }
#endif

static void free_named(int name) {
  struct pending* const p = find_named(name);
  if (!p) return;
  wait_for((int)(p - pending));
  MPI_Request_free(&p->request);
  free_buffers(&p->call);
  p->is_used = 0;
}
static void call_persistent(struct call* c) {
  int const name = all_draw(most_named);
  free_named(name);
  if (place_in(&c->group) < 0) return;
  struct pending* const p = find_place();
  make_buffers(c);
  init(c, &p->request);
  p->call = *c;
  p->is_used = 1;
  p->is_active = 0;
  p->name = name;
}
static void start_persistent(void) {
  int const first = all_draw(most_named), together = all_draw(2);
  uint64_t const vector = mix(common);
  MPI_Request requests[most_named];
  struct pending* started[most_named];
  int n = 0;
  for (int k = 0; k < (together ? most_named : 1); ++k) {
    struct pending* const p = find_named((first + k) % most_named);
    if (!p) continue;
    wait_for((int)(p - pending));
    p->call.vector = vector + (uint64_t)k;
    p->call.step = step;
    fill(&p->call);
    p->is_active = 1;
    started[n] = p;
    requests[n++] = p->request;
  }
  if (!together && n == 1) MPI_Start(&requests[0]);
  if (together && n > 0) MPI_Startall(n, requests);
  for (int k = 0; k < n; ++k) started[k]->request = requests[k];
}

/* ---- Creating and freeing communicators ------------------------------------------------------ */
/* Group 0 is MPI_COMM_WORLD and stays. */
static void change_groups(void) {
  int const number = 1 + all_draw(most_groups - 1), from = all_draw(most_groups);
  int const kind = all_draw(4), chosen = all_draw(1 << most_ranks);
  struct group* const g = &groups[number];
  if (g->size > 0) {
    for (int i = 0; i < most_pending; ++i) {
      struct pending* const p = &pending[i];
      if (!p->is_used || p->call.group.comm != g->comm || place_in(g) < 0) continue;
      wait_for(i);
      if (p->is_used) free_named(p->name);
    }
    if (place_in(g) >= 0) MPI_Comm_free(&g->comm);
    g->size = 0;
    return;
  }
  struct group const parent = groups[from];
  if (parent.size == 0) return;
  g->comm = MPI_COMM_NULL;
  int const place = place_in(&parent), reversed = kind == 1;
  for (int r = 0; r < parent.size; ++r) {
    int const who = reversed ? parent.size - 1 - r : r;
    if (kind < 2 || chosen >> who & 1) g->members[g->size++] = parent.members[who];
  }
  if (place < 0) return;
  if (kind == 0) MPI_Comm_dup(parent.comm, &g->comm);
  if (kind > 0)
    MPI_Comm_split(parent.comm, kind < 2 || chosen >> place & 1 ? 0 : MPI_UNDEFINED,
                   reversed ? -place : place, &g->comm);
  use_first(number);
}

static void hangs(int signal) {
  (void)signal;
  char text[128];
  int const n =
      snprintf(text, sizeof text, "rank %d hangs in step %ld, seed %llu\n", me, step, seed);
  if (write(2, text, (size_t)n) < 0) _exit(4);
  _exit(3);
}

int main(int argc, char** argv) {
  long const calls = argc > 1 ? atol(argv[1]) : 2000;
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  if (argc > 3) is_first_blocking = atoi(argv[3]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2 || ranks > most_ranks) {
    fprintf(stderr, "%d ranks; there must be 2 to %d\n", ranks, most_ranks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  signal(SIGALRM, hangs);
  common = mix(seed);
  own = mix(seed + 1000 + (unsigned)me);
  MPI_Op_create(our_sum, 1, &op_of[4]);
  groups[0].comm = MPI_COMM_WORLD;
  groups[0].size = ranks;
  for (int r = 0; r < ranks; ++r) groups[0].members[r] = r;

  use_first(0);
  for (step = 0; step < calls; ++step) {
    alarm(60);
    int const what = all_draw(functions + 3);
    if (what == functions) change_groups();
    if (what > functions) start_persistent();
    if (what < functions && (what != all_reduce_init || has_persistent)) {
      struct call c = draw_call((enum function)what);
      if (c.function < iall_reduce) call_now(&c);
      if (c.function == iall_reduce) call_with_request(&c);
      if (c.function == all_reduce_init) call_persistent(&c);
      if (c.function == message) call_message(&c);
    }
    if (i_draw(3) == 0) finish_some();
  }
  for (int i = 0; i < most_pending; ++i) wait_for(i);
  for (int name = 0; name < most_named; ++name) free_named(name);
  for (int g = 1; g < most_groups; ++g)
    if (groups[g].size > 0 && place_in(&groups[g]) >= 0) MPI_Comm_free(&groups[g].comm);
  MPI_Op_free(&op_of[4]);
  int all = 0;
  MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Bcast(&all, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (me == 0 && all == 0) printf("%ld calls of seed %llu: as it should be\n", calls, seed);
  MPI_Finalize();
  return all > 0;
}
