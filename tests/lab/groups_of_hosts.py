"""A rank of groups_of_hosts_test.sh.

    groups_of_hosts.py sums|codecs|blocks|death RANK RANKS DIRECTORY
"""

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
    carriers = ranks // 2  # per node: the number of ranks on the node with fewer ranks
    for dtype in (np.float32, np.float64, np.int64):
        for n in (0, 1, 1000, 4097, 100_003, 1_000_000):
            x = (np.arange(n) % 17 * (rank + 1)).astype(dtype)
            report = all_reduce(group, x)
            exact = (np.arange(n) % 17 * (ranks * (ranks + 1) // 2)).astype(dtype)
            assert np.array_equal(x, exact), (rank, dtype, n)
            if x.nbytes < 1 << 20:
                continue
            # Each of two ranks that carry a share sends half of it twice, plus call records.
            wanted = x.nbytes / carriers if rank < 2 * carriers else 0
            assert abs(report.bytes_sent - wanted) < 4096, (rank, report.bytes_sent, wanted)
    x = np.full(100_000, float(rank), np.float32)
    all_reduce(group, x, mean=True)
    assert (x == (ranks - 1) / 2).all()


def codecs(group):
    """Ranks on two nodes: 300,000 values are two shares, and results are equal on all ranks."""
    n = 300_000
    x = np.random.default_rng(rank).uniform(-1, 1, n).astype(np.float32)
    all_x = np.stack([np.random.default_rng(r).uniform(-1, 1, n).astype(np.float32) for r in range(ranks)])
    exact = all_x.sum(axis=0, dtype=np.float64)
    for codec, most, bits in (
        ("error_bounded 1e-3 algorithm=hierarchical", 1.0001e-3, None),
        # results are below 8: both nodes' halves and the total are rounded by half a unit each
        ("fp16 algorithm=hierarchical:direct", 3 * 8 * 2**-11, 16),
        ("thc bits=8 algorithm=hierarchical", 1, None),
    ):
        with hcomp.Plan(group, n, np.float32, codec) as total:
            y = x.copy()
            report = total.all_reduce(y)
            assert np.abs(y - exact).max() <= most, (codec, np.abs(y - exact).max())
            if bits:  # of half the values, half of them twice
                sent = n / 2 * bits / 8 if rank < 4 else 0
                assert abs(report.bytes_sent - sent) < 4096, (rank, report.bytes_sent, sent)
            everywhere = np.empty((ranks, n), np.float32)
            group.all_gather_at(y.ctypes.data, y.nbytes, everywhere.ctypes.data)
            assert (everywhere == y).all(), codec
            if codec.startswith("thc"):  # only the carriers of this share have a residual for it
                share = 150_016  # full words
                lost = total.residual
                mine = slice(0, share) if rank < 2 else slice(share, n) if rank < 4 else slice(0, 0)
                assert np.count_nonzero(lost) == np.count_nonzero(lost[mine])
                assert (np.count_nonzero(lost) > 0) == (rank < 4)
                total.residual = lost * 2
                assert (total.residual == lost * 2).all()
            z = x.copy()
            total.reduce_scatter(z)
            everywhere = np.empty((ranks, n), np.float32)
            padded = np.full(n, np.nan, np.float32)
            padded[total.shard] = z[total.shard]
            group.all_gather_at(padded.ctypes.data, padded.nbytes, everywhere.ctypes.data)
            parts = ~np.isnan(everywhere)
            assert (parts.sum(axis=0) == 1).all(), codec  # every value is in exactly one shard
            assert np.abs(np.nansum(everywhere, axis=0) - exact).max() <= most, codec


def blocks(group):
    """Ranks 0 and 1 are on one node, 2 and 3 on another: a node's link carries the bytes of one
    rank."""
    n = 100_000
    x = (np.arange(ranks * n) % 17 * (rank + 1)).astype(np.float32)
    exact = (np.arange(ranks * n) % 17 * (ranks * (ranks + 1) // 2)).astype(np.float32)
    part = np.empty(n, np.float32)
    report = group.reduce_scatter_at(x.ctypes.data, part.ctypes.data, n, "float32")
    assert np.array_equal(part, exact[rank * n : (rank + 1) * n]), rank
    # one shard to the rank's peer on the other node; a ring of all ranks would send three
    assert abs(report.bytes_sent - part.nbytes) < 4096, report.bytes_sent
    everywhere = np.empty(ranks * n, np.float32)
    group.all_gather_at(part.ctypes.data, part.nbytes, everywhere.ctypes.data)
    assert np.array_equal(everywhere, exact), rank


def death(group):
    """All ranks on both nodes get the error at once, and not only at the timeout."""
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


# A child process dies, so that the status of lab.sh is that of this program.
if what == "death" and rank == 3:
    child = os.fork()
    if child > 0:
        _, status = os.waitpid(child, 0)
        sys.exit(0 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else 1)
try:
    with hcomp.Group.from_directory(directory, rank, ranks, timeout=20) as group:
        {"sums": sums, "codecs": codecs, "blocks": blocks, "death": death}[what](group)
except hcomp.HcompError as error:  # closing fails without rank 3
    assert what == "death", error
