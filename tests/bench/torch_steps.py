"""Training steps of DistributedDataParallel by several methods, in turn in one run.

    tests/bench/torch_collectives.sh --rate 1gbit --ranks 2 --steps --values 4000000

starts it on nodes of a lab. Times are medians over the repetitions of the slowest rank's time, for
one forward and backward of a perceptron. "no communication" is the step without
DistributedDataParallel, "link" the time in which the float32 gradients of a ring pass a rank's
link. With --device cuda every rank uses the same GPU, over NCCL.

The error is |result - exact mean| / |exact mean| of the gradients of the first step, without what
error feedback adds later; PowerSGD's is of its first compressed step.
"""

import argparse
import re
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import hcomp.torch

parser = argparse.ArgumentParser()
parser.add_argument("--values", type=int, default=4_000_000, help="parameters of the model, about")
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--methods", default="plain;fp16;powersgd:1;powersgd:4;hcomp thc:bits=4;group thc:bits=4;"
                    "group sign;group sign_count;group fp16",
                    help="between ; : plain, fp16 (PyTorch's hook), powersgd:RANK, TRANSPORT CODEC")
parser.add_argument("--repetitions", type=int, default=7)
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
parser.add_argument("--mbit", type=float, default=0, help="rate of a link, Mbit/s; 0: not known")
options = parser.parse_args()
methods = options.methods.split(";")
width = round((max(0, options.values) / max(1, options.layers)) ** 0.5 / 64) * 64
if min(width, options.layers, options.repetitions) < 1:
    parser.error(f"--values {options.values} --layers {options.layers} --repetitions "
                 f"{options.repetitions}: a layer has 4096 values or more, the rest is above 0")
for one in methods:
    if not re.fullmatch(r"plain|fp16|powersgd:[1-9]\d*|(hcomp|group) \S+", one):
        parser.error(f"--methods: '{one}' is none of plain, fp16, powersgd:RANK, hcomp CODEC, group CODEC")

torch.set_num_threads(1)
dist.init_process_group("cpu:gloo,cuda:nccl" if options.device == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
inputs = torch.randn(8, width, generator=torch.Generator().manual_seed(rank)).to(options.device)


def synchronize():
    if options.device == "cuda":
        torch.cuda.synchronize()


def model():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(width, width, bias=False) for _ in range(options.layers)]
    return torch.nn.Sequential(*layers).to(options.device)


def step(module):
    module.zero_grad(set_to_none=True)
    module(inputs).square().mean().backward()


class Method:
    """A model whose gradients are averaged by a method."""

    def __init__(self, name):
        self.name = name
        self.state = None
        self.module = model()
        if name == "no communication":
            return
        # With several buckets, PowerSGD's order of all-reduces differs between ranks; Gloo fails.
        cap = 1 << 10 if name.startswith("powersgd:") else 25
        self.module = ddp = DistributedDataParallel(self.module, bucket_cap_mb=cap)
        if name == "fp16":
            ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif name.startswith("powersgd:"):
            state = powerSGD_hook.PowerSGDState(None, int(name[9:]), start_powerSGD_iter=2)
            ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        elif name != "plain":
            transport, codec = name.split(" ", 1)
            self.state = hcomp.torch.HookState(ddp, codec, transport=transport)
            ddp.register_comm_hook(self.state, hcomp.torch.hook)

    def timed(self):
        """Milliseconds of a step, of the slowest rank."""
        synchronize()
        dist.barrier()
        begin = time.perf_counter()
        step(self.module)
        synchronize()
        slowest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        return 1e3 * slowest.item()

    def gradients(self):
        return torch.cat([p.grad.reshape(-1) for p in self.module.parameters()]).double()

    def close(self):
        if self.state:
            self.state.close()


def mean_gradients():
    module = model()
    step(module)
    exact = torch.cat([p.grad.reshape(-1) for p in module.parameters()]).double()
    dist.all_reduce(exact)
    return exact / ranks


def line(*columns):
    if rank == 0:
        print("{:<22}  {:>9}  {:>9}  {:>8}  {:>9}".format(*columns), flush=True)


exact = mean_gradients()
values = exact.numel()
line("method", "ms/step", "of plain", "MB/step", "error")
plain = None
for name in ["no communication", *methods]:
    method = Method(name)
    step(method.module)
    if name.startswith("powersgd:"):  # its first steps are uncompressed
        step(method.module)
        step(method.module)
    error = "-"
    if name != "no communication":
        error = f"{((method.gradients() - exact).norm() / exact.norm()).item():.2g}"
    method.timed()
    before = method.state.report().bytes_sent if method.state else 0
    times = [method.timed() for _ in range(options.repetitions)]
    sent = "-"
    if method.state:
        sent = f"{(method.state.report().bytes_sent - before) / options.repetitions / 1e6:.2f}"
    elif name == "plain":
        sent = f"{4 * values * 2 * (ranks - 1) / ranks / 1e6:.2f}"
    took = statistics.median(times)
    plain = took if name == "plain" else plain
    line(name, f"{took:.1f}", f"{plain / took:.2f}" if plain else "-", sent, error)
    method.close()
    del method
if options.mbit:
    link = 4 * values * 2 * (ranks - 1) / ranks * 8 / options.mbit / 1e3
    line("link", f"{link:.1f}", "-", "-", "-")
if rank == 0:
    print(f"{values} parameters, {ranks} ranks, PyTorch {torch.__version__}, {options.device}")
dist.destroy_process_group()
