"""The back end with TORCH_DISTRIBUTED_DEBUG=DETAIL, where PyTorch wraps it. Started by torchrun.

Without Gloo to compare with: PyTorch 2.15 crashes with it in DistributedDataParallel.
"""

import torch
import torch.distributed as dist
from on_ranks import alike, raises, run_tests
from torch.nn.parallel import DistributedDataParallel

import hcomp.torch

dist.init_process_group("cpu:hcomp")
rank, ranks = dist.get_rank(), dist.get_world_size()


def test_collectives():
    for is_async in (False, True):
        x, part, whole = torch.ones(1000), torch.empty(1000), torch.empty(1000 * ranks)
        for name, *arguments in (
            ("all_reduce", x),
            ("all_gather_into_tensor", whole, x),
            ("reduce_scatter_tensor", part, whole),
            ("broadcast", part, 0),
            ("reduce", torch.ones(3), 0),
            ("barrier",),
        ):
            work = getattr(dist, name)(*arguments, async_op=is_async)
            if is_async:
                work.wait()
                assert work.is_completed()
        assert (whole == ranks).all() and (part == ranks**2).all()
    dist.monitored_barrier()
    work = dist.isend(torch.ones(1), (rank + 1) % ranks)
    assert dist.recv(torch.empty(1)) == (rank - 1) % ranks
    work.wait()


def test_wrong_sizes_are_named():
    parts = [torch.zeros(4) for _ in range(ranks)]
    raises("the input (1,)", lambda: dist.all_gather(parts, torch.ones(1)), RuntimeError)
    if ranks > 1:
        raises("Detected mismatch", lambda: dist.all_reduce(torch.ones(3 + rank)))


def test_groups():
    for make in (lambda: dist.new_group([0, 1]), lambda: dist.split_group(split_ranks=[[0, 1]])):
        pair = make()
        if rank < 2:
            x = torch.ones(5)
            dist.all_reduce(x, group=pair)
            assert (x == min(2, ranks)).all()
            dist.destroy_process_group(pair)


def test_compress():
    hcomp.torch.compress(None, "thc:bits=4", min_bytes=1000)
    x = torch.randn(100_000)
    dist.all_reduce(x)
    assert ranks == 1 or 0 < hcomp.torch.backend_of().last_report.bytes_sent < x.nbytes
    hcomp.torch.compress(None, None)


def test_ddp():
    ddp = DistributedDataParallel(torch.nn.Linear(4, 1, bias=False))
    ddp(torch.full((1, 4), float(rank))).sum().backward()
    alike(ddp.module.weight.grad, torch.full((1, 4), (ranks - 1) / 2))


run_tests(globals(), "the back end, with details for debugging,")
