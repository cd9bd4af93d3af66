"""hcomp.torch.compress for a group whose back end is not hcomp's. Started by torchrun."""

import tempfile
import zlib

import numpy
import torch
import torch.distributed as dist
from on_ranks import alike, raises, run_tests, trained
from torch.distributed import ReduceOp
from torch.distributed import fsdp
from torch.nn.parallel import DistributedDataParallel

import hcomp
import hcomp.torch

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
some = dist.new_group([0, 2])
n = 50_000


def vector(seed, values=n, of=None):
    generator = torch.Generator().manual_seed(100 * seed + (rank if of is None else of))
    return torch.randn(values, generator=generator)


def exact(seed, values=n):
    return sum(vector(seed, values, r) for r in range(ranks))


def off(found, expected):
    return float((found - expected).norm() / expected.norm())


class Compressed:
    """Compression of a group within a context."""

    def __init__(self, codec, group=None, **keys):
        self.arguments, self.keys = (group, codec), keys

    def __enter__(self):
        return hcomp.torch.compress(*self.arguments, **self.keys)

    def __exit__(self, *_):
        hcomp.torch.compress(self.arguments[0], None)


def test_all_reduces_have_the_bits_of_a_plan():
    for codec in ("thc:bits=4 feedback=no", "sign feedback=no", "bf16", "reproducible"):
        with hcomp.torch._state.connect(None, 30.0) as group, Compressed(codec) as state:
            with hcomp.Plan(group, n, numpy.float32, f"{codec} algorithm=aggregator") as plan:
                for step, mean in enumerate((False, True, False)):
                    x = vector(step)
                    plan.set_draws(zlib.crc32(f"{n} values".encode()), step)
                    expected = x.clone()
                    plan.all_reduce(expected.numpy(), mean)
                    dist.all_reduce(x, op=ReduceOp.AVG if mean else ReduceOp.SUM)
                    alike(x, expected)
            report = state.report()
            assert report.steps == 3 and report.values == n and report.seconds > 0, report
            assert report.ratio > (0.3 if codec == "reproducible" else 1.9), (codec, report)


def test_requests_overlap_and_every_type_is_near():
    with Compressed("thc:bits=8") as state:
        many = [vector(seed).to(t) for seed, t in enumerate((torch.float32, torch.bfloat16, torch.float16))]
        works = [dist.all_reduce(x, async_op=True) for x in many]
        for work in works:
            assert work.wait() and work.is_completed()
        for seed, x in enumerate(many):
            assert 0 < off(x.float(), exact(seed)) < 0.03, (x.dtype, off(x.float(), exact(seed)))
        assert state.report().steps == 3
        assert all(torch.equal(a, b) for a, b in zip(many, (work.get_future().value()[0] for work in works)))


def test_reduce_scatter():
    with Compressed("thc:bits=8") as state:
        for op in (ReduceOp.SUM, ReduceOp.AVG):
            whole = vector(1, ranks * n)
            kept = whole.clone()
            part = torch.empty(n)
            work = dist.reduce_scatter_tensor(part, whole, op=op, async_op=True)
            work.wait()
            alike(whole, kept)
            expected = exact(1, ranks * n).view(ranks, n)[rank]
            assert 0 < off(part * (ranks if op == ReduceOp.AVG else 1), expected) < 0.03
        assert state.report().steps == 2


def test_the_rest_is_exact():
    with Compressed("sign", min_bytes=4 * n) as state:
        for x, op in (
            (torch.arange(n), ReduceOp.SUM),
            (torch.arange(n, dtype=torch.float64), ReduceOp.SUM),
            (torch.arange(n - 1, dtype=torch.float32), ReduceOp.SUM),
            (torch.arange(n, dtype=torch.float32) + rank, ReduceOp.MAX),
        ):
            expected = x * ranks if op == ReduceOp.SUM else x - rank + ranks - 1
            dist.all_reduce(x, op=op)
            alike(x, expected)
        part, whole = torch.empty(10), torch.arange(10.0 * ranks)
        dist.reduce_scatter_tensor(part, whole)
        alike(part, ranks * torch.arange(10.0 * ranks).view(ranks, 10)[rank])
        both = [torch.ones(n), torch.ones(n)]
        dist.all_reduce_coalesced(both)
        alike(both[1], torch.full((n,), float(ranks)))
        assert state.report().steps == 0
    x = torch.arange(float(n))
    dist.all_reduce(x)  # no longer compressed
    alike(x, ranks * torch.arange(float(n)))


def test_groups_are_apart():
    if rank in (0, 2):
        with Compressed("sign", some) as state:
            x = torch.full((n,), float(rank))
            dist.all_reduce(x, group=some)
            assert state.report().steps == 1
    x = torch.arange(float(n))
    dist.all_reduce(x)
    alike(x, ranks * torch.arange(float(n)))


def test_nan_and_infinity_reach_all_ranks():
    with Compressed("fp16"):
        x = torch.ones(n)
        if rank == 1:
            x[7], x[9] = float("nan"), float("inf")
        dist.all_reduce(x)
        assert x[7].isnan() and x[9] == float("inf") and x.isfinite().sum() == n - 2
    with Compressed("thc:bits=4"):
        x = torch.ones(n)
        x[7] = float("inf") if rank == 1 else 1.0
        dist.all_reduce(x)
        assert x[:4096].isnan().all() and x[-4096:].isfinite().all()


def test_models_without_a_hook():
    def losses(codec, shard):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(256, 384), torch.nn.Tanh(), torch.nn.Linear(384, 256))
        if shard:
            fsdp.fully_shard(model)
        else:
            model = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        with Compressed(codec, min_bytes=1000) as state:
            found = trained(model, optimizer, 0, 10)
            calls = state.report().steps if state else 0
        return found, calls

    for shard in (False, True) if hasattr(fsdp, "fully_shard") else (False,):  # since 2.6
        plain, none = losses(None, shard)
        found, calls = losses("thc:bits=8", shard)
        assert none == 0 and calls >= 10, calls
        assert not torch.equal(found, plain) and torch.allclose(found, plain, rtol=0.02), (found, plain)


def test_full_steps_of_a_hook_stay_exact():
    model = torch.nn.Linear(256, 256, bias=False)
    ddp = DistributedDataParallel(model)
    state = hcomp.torch.HookState(ddp, "thc:bits=8", warm_up=1, transport="group")
    ddp.register_comm_hook(state, hcomp.torch.hook)
    with Compressed("sign", min_bytes=1000):
        ddp(vector(1, 256 * 8).view(8, 256)).sum().backward()
    mean = exact(1, 256 * 8).view(8, 256).sum(0) / ranks
    assert torch.allclose(model.weight.grad, mean.expand(256, 256), rtol=1e-4, atol=1e-5)
    state.close()


def test_sizes_come_and_go():
    with Compressed("bf16", min_bytes=0) as state:
        for values in range(1, 200):
            x = torch.full((values,), 0.5)
            dist.all_reduce(x)
            alike(x, torch.full((values,), 0.5 * ranks))
        assert state.report().steps == 199
        assert len(state._buckets) <= 64
        nothing = torch.empty(0)
        dist.all_reduce(nothing)


def test_a_library_that_cannot_be_loaded_is_an_error_on_all_ranks():
    def broken(*_):
        raise OSError("libhcomp is broken")

    kept = hcomp.torch._group_state.Bucket
    if rank == 1:
        hcomp.torch._group_state.Bucket = broken
    raises("libhcomp is broken", lambda: hcomp.torch.compress(None, "sign"))
    hcomp.torch._group_state.Bucket = kept


def test_what_is_wrong_is_said_on_all_ranks():
    compress = hcomp.torch.compress
    if rank == 1:
        raises("rank 1 is not in the group", lambda: compress(some, "sign"), ValueError)
    raises("differ between ranks", lambda: compress(None, "sign" if rank else "bf16"), ValueError)
    raises("differ between ranks", lambda: compress(None, "sign" if rank else None), ValueError)
    raises("no codec", lambda: compress(None, "nonsense"))
    raises("min_bytes is -1", lambda: compress(None, "sign", -1), ValueError)
    raises("HookState", lambda: compress(None, "sign feedback=yes"), ValueError)
    raises("fixed rate", lambda: compress(None, "error_bounded:1e-3"))
    raises("rank 1: " if rank != 1 else "min_bytes is -1", lambda: compress(None, "sign", 4 - 5 * (rank == 1)), ValueError)
    x = torch.arange(float(n))
    dist.all_reduce(x)
    alike(x, ranks * torch.arange(float(n)))


def test_when_the_default_group_is_made_anew_it_is_exact():
    hcomp.torch.compress(None, "sign")
    folders = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folders)
    dist.destroy_process_group()
    # A store of its own: Gloo would find the addresses of the first group in the old one.
    dist.init_process_group("gloo", f"file://{folders[0]}/store", rank=rank, world_size=ranks)
    x = torch.arange(float(n))
    dist.all_reduce(x)
    alike(x, ranks * torch.arange(float(n)))


run_tests(globals(), "compressed collectives")
