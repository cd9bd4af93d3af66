"""Collectives of the back end cpu:hcomp and of Gloo, in turn in one run.

    tests/bench/torch_collectives.sh --rate 1gbit --sizes 4096,1048576 --methods sign

starts it. Times are medians over the repetitions of the slowest rank's time. "link" is the time in
which the minimum number of bytes of a rank passes its link, "of link" its share of hcomp's time.
With --hooks it measures gradient hooks of DistributedDataParallel, for several numbers of
concurrent all-reduces. With --started it measures all_reduce with async_op=True, several at a time
and one by one.
"""

import argparse
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hcomp.torch

parser = argparse.ArgumentParser()
parser.add_argument("--sizes", default="4096,65536,1048576,16777216,67108864", help="bytes of a vector")
parser.add_argument("--methods", default="fp16;thc:bits=4,feedback=no;sign:feedback=no",
                    help="for the largest size, between ;")
parser.add_argument("--repetitions", type=int, default=7)
parser.add_argument("--hooks", type=int, default=0,
                    help="so many parameters of each size, in buckets of four, at_a_time 1, 2, 4 and 16")
parser.add_argument("--started", type=int, default=0,
                    help="so many all_reduces of each size, started before the first is waited for")
parser.add_argument("--mbit", type=float, default=0, help="rate of a link, Mbit/s; 0: not known")
options = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("cpu:hcomp")
rank, ranks = dist.get_rank(), dist.get_world_size()
gloo = dist.new_group(backend="gloo")


def medians(*calls, before=lambda: None):
    """Milliseconds of calls in turn; `before` runs untimed before each of them."""
    times = [[] for _ in calls]
    for turn in range(options.repetitions + 1):
        for call, mine in zip(calls, times):
            before()
            dist.barrier(gloo)
            begin = time.perf_counter()
            call()
            slowest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
            dist.all_reduce(slowest, dist.ReduceOp.MAX, group=gloo)
            if turn > 0:  # the first turn creates plans and connections
                mine.append(1e3 * slowest.item())
    return [statistics.median(mine) for mine in times]


def line(*columns):
    if rank == 0:
        print("{:>14}  {:>10}  {:<22}  {:>9}  {:>9}  {:>6}  {:>8}  {:>7}  {:>8}".format(*columns), flush=True)


def row(what, values, codec, times, share):
    """share: minimum of bytes to send, relative to the vector's"""
    hcomps, gloos = times[0], times[1]
    link = 4 * values * share * 8 / (options.mbit * 1e3) if options.mbit else 0
    limit = (f"{link:.2f}", f"{link / hcomps:.2f}") if link else ("-", "-")
    line(what, 4 * values, codec, f"{hcomps:.2f}", f"{gloos:.2f}", f"{gloos / hcomps:.2f}", *limit,
         f"{times[2]:.1e}" if len(times) > 2 else "-")


class Sums(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        ones = (torch.nn.Parameter(torch.ones(values)) for _ in range(options.hooks))
        self.all = torch.nn.ParameterList(ones)

    def forward(self):
        return sum(one.sum() for one in self.all)


def measure_hooks(values, codec):
    models, states = [], []
    for at_a_time in (None, 1, 2, 4, 16):  # None: Gloo's
        bucket = 4 * 4 * values / 2**20
        ddp = DistributedDataParallel(Sums(values), bucket_cap_mb=bucket, process_group=gloo)
        models.append(ddp)
        if at_a_time:
            states.append(hcomp.torch.HookState(ddp, codec, at_a_time=at_a_time, group=gloo))
            ddp.register_comm_hook(states[-1], hcomp.torch.hook)
    times = medians(*(lambda model=model: model().backward() for model in models))
    for state in states:
        state.close()
    if rank == 0:
        print(f"{options.hooks} parameters of {4 * values} bytes by {codec}, ms: at_a_time "
              f"1 {times[1]:.1f}, 2 {times[2]:.1f}, 4 {times[3]:.1f}, 16 {times[4]:.1f}; Gloo {times[0]:.1f}", flush=True)


def measure_started(values):
    x = [torch.ones(values) for _ in range(options.started)]

    def started(group):
        for work in [dist.all_reduce(one, group=group, async_op=True) for one in x]:
            work.wait()

    def one_by_one(group):
        for one in x:
            dist.all_reduce(one, group=group)

    times = medians(*(lambda call=call, group=group: call(group)
                      for group in (None, gloo) for call in (one_by_one, started)))
    if rank == 0:
        print(f"{options.started} all_reduces of {4 * values} bytes, ms: one by one {times[0]:.1f}, started "
              f"{times[1]:.1f}; Gloo {times[2]:.1f}, {times[3]:.1f}", flush=True)


if options.hooks:
    for size in options.sizes.split(","):
        for codec in options.methods.split(";"):
            measure_hooks(int(size) // 4, codec)
    dist.destroy_process_group()
    sys.exit()
if options.started:
    for size in options.sizes.split(","):
        measure_started(int(size) // 4)
    dist.destroy_process_group()
    sys.exit()

line("collective", "bytes", "codec", "hcomp ms", "Gloo ms", "ratio", "link ms", "of link", "error")
part_share = (ranks - 1) / ranks
sizes = [int(size) // 4 for size in options.sizes.split(",")]
for values in sizes:
    x = torch.ones(values)
    part, whole = torch.empty(values // ranks), torch.ones(values // ranks * ranks)
    for what, share, call in (
        ("all_reduce", 2 * part_share, lambda group: dist.all_reduce(x, group=group)),
        ("reduce_scatter", part_share, lambda group: dist.reduce_scatter_tensor(part, whole, group=group)),
        ("all_gather", part_share, lambda group: dist.all_gather_into_tensor(whole, part, group=group)),
    ):
        row(what, values, "fp32", medians(lambda: call(None), lambda: call(gloo)), share)

x = torch.randn(sizes[-1], generator=torch.Generator().manual_seed(rank))
exact = x.clone()
dist.all_reduce(exact, group=gloo)
for codec in filter(None, options.methods.split(";")):
    hcomp.torch.compress(None, codec)
    y = x.clone()
    dist.all_reduce(y)
    error = ((y - exact).norm() / exact.norm()).item()
    times = medians(
        lambda: dist.all_reduce(y), lambda: dist.all_reduce(y, group=gloo), before=lambda: y.copy_(x)
    )
    row("all_reduce", x.numel(), codec, [*times, error], 2 * part_share)
dist.destroy_process_group()
sys.stdout.flush()
