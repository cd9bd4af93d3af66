"""All-reduce with a codec from outside the tree. Started as `python3 -m mpi4py`."""

import numpy as np
from mpi4py import MPI

import hcomp

comm = MPI.COMM_WORLD
for dtype in (np.float32, np.float64):
    with hcomp.Plan(comm, 5000, dtype, "steps 0.25") as total:
        x = np.full(5000, 0.3, dtype)
        total.all_reduce(x)
        assert (x == 0.25 * comm.size).all(), x
if comm.rank == 0:
    print(f"a codec from outside sums on {comm.size} ranks")
