"""hcomp.comm_set under a preloaded libhcomp_pmpi.so: its effect on mpi4py's own Allreduce."""

import numpy as np
from mpi4py import MPI

import hcomp

comm = MPI.COMM_WORLD.Dup()


def sum_of(comm, x):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total


x = np.full(100_000, 1 + 2.0**-20, dtype=np.float32)  # fp16 rounds it to 1
exact = np.full_like(x, comm.size * x[0])
assert np.array_equal(sum_of(comm, x), exact)

hcomp.comm_set(comm, "float: fp16")
assert np.array_equal(sum_of(comm, x), np.full_like(x, comm.size))
assert np.array_equal(sum_of(MPI.COMM_WORLD, x), exact)  # other communicators keep their settings
copy = comm.Dup()
assert np.array_equal(sum_of(copy, x), np.full_like(x, comm.size))

hcomp.comm_set(comm, None)
assert np.array_equal(sum_of(comm, x), exact)
assert np.array_equal(sum_of(copy, x), np.full_like(x, comm.size))

try:
    hcomp.comm_set(comm, "float: gzip" if comm.rank == 0 else "float: fp16")
except hcomp.HcompError as error:
    text = "no codec is called 'gzip'" if comm.rank == 0 else "ranks have different settings"
    assert str(error).startswith("hcomp_comm_set: ") and text in str(error), str(error)
else:
    raise AssertionError("ranks with different settings are not refused")
assert np.array_equal(sum_of(comm, x), exact)
copy.Free()
comm.Free()
if MPI.COMM_WORLD.rank == 0:
    print(f"comm_set does what it says on {MPI.COMM_WORLD.size} ranks")
