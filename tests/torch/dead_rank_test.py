"""Errors on the other ranks when a rank dies, or does not join, within the timeout: of the back
end, and of hooks of DistributedDataParallel over both transports.

Ranks are plain processes: torchrun would end all of them.
"""

import itertools
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hcomp.torch

ranks = 3
limit = 10  # seconds; includes the start of a rank on a busy machine
processes = multiprocessing.get_context("fork")


def plans_of_the_back_end():
    while True:
        dist.all_reduce(torch.ones(10_000))
        yield
        works = [dist.all_reduce(torch.ones(10_000), async_op=True) for _ in range(8)]
        for work in reversed(works):
            work.wait()
        yield


def plans_of_a_hook(**keys):
    ddp = DistributedDataParallel(torch.nn.Linear(100, 100))
    state = hcomp.torch.HookState(
        ddp, "thc:bits=4", **(keys or {"timeout": limit, "at_a_time": 2})
    )
    ddp.register_comm_hook(state, hcomp.torch.hook)
    while True:
        ddp(torch.ones(1, 100)).sum().backward()
        yield


def hook_over_a_group():
    """Its errors and its timeout are those of the process group, which names no rank."""
    return plans_of_a_hook(transport="group")


def run(rank, file, sums, leave, answers):
    dist.init_process_group(
        "cpu:hcomp",
        init_method=f"file://{file}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=limit),
    )
    begin = time.monotonic()
    try:
        # rank 1 may leave before a call is done on all ranks; DDP's first calls are uncompressed,
        # too
        for step, _ in enumerate(sums()):
            begin = time.monotonic()
            if rank == 1 and step == 3:
                leave()
    except Exception as error:
        answers.put((rank, type(error).__name__, str(error), time.monotonic() - begin))
    dist.destroy_process_group()  # does not wait for ranks that have ended


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def stays_away():
    os.kill(os.getpid(), signal.SIGSTOP)


for sums, leave in itertools.product(
    (plans_of_the_back_end, plans_of_a_hook, hook_over_a_group), (dies, stays_away)
):
    answers = processes.Queue()
    with tempfile.TemporaryDirectory() as directory:
        started = [
            processes.Process(
                target=run, args=(rank, f"{directory}/store", sums, leave, answers)
            )
            for rank in range(ranks)
        ]
        for one in started:
            one.start()
        try:
            for _ in range(ranks - 1):
                rank, kind, said, seconds = answers.get(timeout=60)
                print(f"rank {rank}, where rank 1 {leave.__name__}: {kind}: {said}", file=sys.stderr)
                # DDP rethrows an exception of a hook as a RuntimeError with its text
                is_ours = kind == "HcompError" or "HcompError: " in said
                names_it = is_ours and "rank 1" in said
                assert rank != 1 and (names_it or sums is hook_over_a_group), (rank, kind, said)
                assert seconds < limit + 5, seconds
            for rank in (0, 2):
                started[rank].join(20)
                assert started[rank].exitcode == 0, (rank, started[rank].exitcode)
        finally:
            for one in started:
                one.kill()
                one.join()
print("a rank that dies or stays away is named by the others")
