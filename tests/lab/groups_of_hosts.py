"""A rank of groups_of_hosts_test.sh: groups_of_hosts.py sums|death RANK RANKS DIRECTORY"""

import os
import signal
import sys
import time

import numpy as np

import hcomp

what, directory = sys.argv[1], sys.argv[4]
rank, ranks = int(sys.argv[2]), int(sys.argv[3])


def all_reduce(group, x, mean=False):
    return group.all_reduce_at(x.ctypes.data, x.size, str(x.dtype), mean)


def sums(group):
    carriers = ranks // 2  # of each of both hosts: the one with fewer ranks has so many
    for dtype in (np.float32, np.float64, np.int64):
        for n in (0, 1, 1000, 4097, 100_003, 1_000_000):
            x = (np.arange(n) % 17 * (rank + 1)).astype(dtype)
            report = all_reduce(group, x)
            exact = (np.arange(n) % 17 * (ranks * (ranks + 1) // 2)).astype(dtype)
            assert np.array_equal(x, exact), (rank, dtype, n)
            if x.nbytes < 1 << 20:
                continue
            # Of two ranks that carry a share each sends half of it twice; there are call records, too.
            wanted = x.nbytes / carriers if rank < 2 * carriers else 0
            assert abs(report.bytes_sent - wanted) < 4096, (rank, report.bytes_sent, wanted)
    x = np.full(100_000, float(rank), np.float32)
    all_reduce(group, x, mean=True)
    assert (x == (ranks - 1) / 2).all()


def death(group):
    """On both hosts all ranks hear of it, at once, and not only when their time is up."""
    x = np.ones(300_000, np.float32)
    begin = time.monotonic()
    try:
        for step in range(1_000_000):
            all_reduce(group, x, mean=True)
            begin = time.monotonic()
            if rank == 3 and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
    except hcomp.HcompError as error:
        assert "rank 3" in str(error), error
        assert time.monotonic() - begin < 10
        return
    raise AssertionError("no error")


# The one that dies is a child, so that lab.sh's status is that of this program.
if what == "death" and rank == 3:
    child = os.fork()
    if child > 0:
        _, status = os.waitpid(child, 0)
        sys.exit(0 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else 1)
try:
    with hcomp.Group.from_directory(directory, rank, ranks, timeout=20) as group:
        {"sums": sums, "death": death}[what](group)
except hcomp.HcompError as error:  # of the goodbyes, without rank 3
    assert what == "death", error
