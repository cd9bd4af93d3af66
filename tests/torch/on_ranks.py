"""Runs the tests of a module that was started on every rank.

By torchrun, or where torchrun is broken, as in Debian 12: python on_ranks.py RANKS MODULE.py
"""

import os
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as dist


def alike(found, expected):
    assert found.dtype == expected.dtype and torch.equal(found, expected), (found, expected)


def raises(words, function, kind=Exception):
    try:
        function()
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"no error, '{words}' was expected")


def trained(model, optimizer, first, last):
    """The losses of steps on vectors of 256 values, which differ by rank and step."""
    device = next(model.parameters()).device
    losses = []
    for step in range(first, last):
        seed = 1000 * step + dist.get_rank()
        x = torch.randn(8, 256, generator=torch.Generator().manual_seed(seed)).to(device)
        loss = (model(x) - x.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def run_tests(names, what):
    """Runs functions whose names begin with test_; with HCOMP_TEST_ONLY, those whose names contain
    it."""
    rank = dist.get_rank()
    tests = [test for name, test in sorted(names.items()) if name.startswith("test_")]
    for test in tests:
        if os.environ.get("HCOMP_TEST_ONLY", "") in test.__name__:
            test()
            print(f"rank {rank}: {test.__name__}", file=sys.stderr)
    ranks = dist.get_world_size()
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(f"{len(tests)} tests of {what} on {ranks} ranks")


def start(ranks, module):
    """Ends when the first rank fails. Returns the exit status."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    told = {"WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = []
    for rank in range(ranks):
        environment = {**os.environ, **{key: str(value) for key, value in told.items()}}
        command = [sys.executable, module]
        processes.append(subprocess.Popen(command, env={**environment, "RANK": str(rank)}))
    while None in (ended := [process.poll() for process in processes]) and not any(ended):
        time.sleep(0.1)
    for process in processes:
        process.kill()
    return max(map(abs, filter(None, ended)), default=0)


if __name__ == "__main__":
    sys.exit(start(int(sys.argv[1]), sys.argv[2]))
