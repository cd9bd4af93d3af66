"""Running the tests of a module that torchrun started on every rank."""

import os
import sys

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


def run_tests(names, what):
    """Those that begin with test_, or of them those that HCOMP_TEST_ONLY is part of."""
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
