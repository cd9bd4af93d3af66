"""Host time of the gradient hook over a process group, per bucket of DistributedDataParallel.

    PYTHONPATH=plugins/python build/torch/bin/python tests/bench/torch_host_time.py

One rank. With --device cuda everything is as in training: launches and NCCL's calls are included.
In host memory the calls of the library and of the group would do the work themselves, so they are
replaced by functions that do nothing: the time is that of the hook's Python.
"""

import argparse
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hcomp.torch

parser = argparse.ArgumentParser()
parser.add_argument("--parameters", type=int, nargs="+", default=[1, 10, 30], help="in the bucket")
parser.add_argument("--values", type=int, default=5000, help="per parameter")
parser.add_argument("--codec", default="thc:bits=4")
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
parser.add_argument("--repetitions", type=int, default=200)
options = parser.parse_args()
folder = tempfile.TemporaryDirectory()
dist.init_process_group(
    "nccl" if options.device == "cuda" else "gloo", f"file://{folder.name}/store", rank=0, world_size=1
)


class Sum(torch.nn.Module):
    def __init__(self, parameters):
        super().__init__()
        self.all = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(options.values)) for _ in range(parameters)
        )

    def forward(self, x):
        return sum((one * x).sum() for one in self.all)


class NoLibrary:
    def call(self, *_):
        pass


def without_work(state):
    for bucket in state._buckets.values():
        bucket._library = NoLibrary()
    for name in ("all_reduce", "all_gather", "all_to_all_single"):
        setattr(dist, name, lambda *_, **__: None)


kept = {name: getattr(dist, name) for name in ("all_reduce", "all_gather", "all_to_all_single")}
print("parameters  us per bucket, median and least")
for parameters in options.parameters:
    module = Sum(parameters).to(options.device)
    ddp = DistributedDataParallel(module, bucket_cap_mb=1 << 10)
    state = hcomp.torch.HookState(ddp, options.codec, transport="group")
    times = []

    def hook(state, bucket):
        begin = time.perf_counter()
        future = state.put(bucket)
        times.append(time.perf_counter() - begin)
        return future

    ddp.register_comm_hook(state, hook)
    x = torch.ones(options.values, device=options.device)
    for step in range(10 + options.repetitions):
        if step == 10:  # later buckets are those of step 2
            times.clear()
            if options.device == "cpu":
                libraries = [bucket._library for bucket in state._buckets.values()]
                without_work(state)
        ddp(x).backward()
        if options.device == "cuda":
            torch.cuda.synchronize()
    assert len(times) == options.repetitions, "more than one bucket"
    print(f"{parameters:10}  {1e6 * statistics.median(times):.0f}, {1e6 * min(times):.0f}")
    if options.device == "cpu":
        for name, function in kept.items():
            setattr(dist, name, function)
        for bucket, library in zip(state._buckets.values(), libraries):
            bucket._library = library
    state.close()
print(f"{options.codec}, {options.device}, PyTorch {torch.__version__}")
dist.destroy_process_group()
