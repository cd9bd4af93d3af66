"""A rank of environments.sh: creates a group and compares reductions with exact sums.

    environments.py sums|suspended|fork RANK RANKS DIRECTORY

An HcompError is one line on stderr, and exit status 3. suspended: goes on until there is a file
`stop` in the directory. fork: a child process uses and closes the group that it inherited.
"""

import locale
import os
import sys
from pathlib import Path

import numpy as np

import hcomp

what, directory = sys.argv[1], sys.argv[4]
rank, ranks = int(sys.argv[2]), int(sys.argv[3])
codecs = ("", "float: error_bounded:1e-4 min=0", "float: fp16 min=0", "float: reproducible min=0")


def check(group):
    for n in (1000, 300_000):
        for codec in codecs:
            group.configure(codec or None)
            x = (np.arange(n) % 17 * (rank + 1)).astype(np.float32)
            group.all_reduce_at(x.ctypes.data, n, "float32")
            exact = np.arange(n) % 17 * (ranks * (ranks + 1) // 2)
            assert np.abs(x - exact).max() <= (1e-4 if "error" in codec else 0), (codec, n)


def suspended(group):
    Path(directory, f"ready{rank}").write_text(f"{os.getpid()}\n")
    wishes = np.zeros(1, np.float32)
    while wishes[0] == 0:
        check(group)
        group.configure(None)
        wishes[0] = Path(directory, "stop").exists()
        group.all_reduce_at(wishes.ctypes.data, 1, "float32")


def fork(group):
    child = os.fork()
    if child == 0:
        try:
            check(group)
        except hcomp.HcompError as error:
            group.close()
            os._exit(0 if "fork" in str(error) else 1)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status


locale.setlocale(locale.LC_ALL, "")
try:
    with hcomp.Group.from_directory(directory, rank, ranks, timeout=2 if what == "suspended" else 20) as group:
        check(group)
        if what != "sums":
            {"suspended": suspended, "fork": fork}[what](group)
            check(group)
except hcomp.HcompError as error:
    print(error, file=sys.stderr)
    sys.exit(3)
