"""An mpi4py program that does not use hcomp.

    python3 program.py exact        results must equal those of adding in rank order: float32 bit
                                    for bit; float64, which MPI adds in its own order, within 1e-14
    python3 program.py within B     no value of a result may be off by more than B
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
tolerance = float(sys.argv[2]) if sys.argv[1] == "within" else None
failures = 0


def vector(of, n, number, dtype):
    """The vector of rank `of`: mostly 0."""
    random = np.random.default_rng([of, n, number])
    return (random.normal(size=n) * (random.random(n) < 0.3)).astype(dtype)


def sum_of(n, number, dtype):
    total = vector(0, n, number, dtype)
    for of in range(1, ranks):
        total += vector(of, n, number, dtype)
    return total


def check(what, got, should_be):
    global failures
    allowed = tolerance
    if allowed is None:
        allowed = 0 if got.dtype == np.float32 else 1e-14
    worst = np.max(np.abs(got - should_be), initial=0)
    if not worst <= allowed:
        print(f"rank {rank}, {what} of {got.size} {got.dtype}: off by {worst}, allowed are {allowed}",
              file=sys.stderr, flush=True)
        failures += 1


def reduce_everywhere(n, dtype):
    x, y = vector(rank, n, 1, dtype), np.empty(n, dtype)
    comm.Allreduce(x, y)
    check("Allreduce", y, sum_of(n, 1, dtype))
    comm.Allreduce(MPI.IN_PLACE, x)
    check("Allreduce in place", x, sum_of(n, 1, dtype))

    x = vector(rank, n, 2, dtype)
    comm.Reduce(x, y if rank == ranks - 1 else None, root=ranks - 1)
    if rank == ranks - 1:
        check("Reduce", y, sum_of(n, 2, dtype))

    each = n // ranks
    mine = slice(rank * each, (rank + 1) * each)
    part = np.empty(each, dtype)
    x = vector(rank, each * ranks, 3, dtype)
    comm.Reduce_scatter_block(x, part)
    check("Reduce_scatter_block", part, sum_of(each * ranks, 3, dtype)[mine])
    part[:] = 0
    comm.Reduce_scatter(x, part, [each] * ranks)
    check("Reduce_scatter", part, sum_of(each * ranks, 3, dtype)[mine])

    vectors = [vector(rank, n, 4 + i, dtype) for i in range(3)]
    requests = [comm.Iallreduce(vectors[0], y)]
    requests += [comm.Iallreduce(MPI.IN_PLACE, one) for one in vectors[1:]]
    requests[0].Wait()
    check("Iallreduce", y, sum_of(n, 4, dtype))
    MPI.Request.Waitall(requests)
    for i in (1, 2):
        check("Iallreduce in place", vectors[i], sum_of(n, 4 + i, dtype))


for n in (0, 1, 1000, 50021):
    for dtype in (np.float32, np.float64):
        reduce_everywhere(n, dtype)
lists = comm.allreduce([rank])  # an all-reduce of objects, which the library leaves to MPI
failures += sorted(lists) != list(range(ranks))
failed = comm.allreduce(failures)
if rank == 0 and failed == 0:
    print("as it should be")
sys.exit(failed > 0)
