"""Hooks and collectives on a GPU have the bits of those in host memory. Started by on_ranks.py;
ranks share one GPU over NCCL. Exit status 77 without a GPU.

HCOMP_TEST_DEVICE=cpu runs the same over Gloo, which tests this file.
"""

import os
import sys

import torch
import torch.distributed as dist
from on_ranks import alike, run_tests, trained
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hcomp.torch

device = torch.device(os.environ.get("HCOMP_TEST_DEVICE", "cuda"))
if device.type == "cuda" and not torch.cuda.is_available():
    print("Skipped: no usable GPU")
    sys.exit(77)
# NCCL takes ranks on one GPU for nodes.
os.environ.update(
    NCCL_HOSTID=f"node{os.environ['RANK']}",
    NCCL_P2P_DISABLE="1",
    NCCL_SHM_DISABLE="1",
    NCCL_IB_DISABLE="1",
    NCCL_SOCKET_IFNAME="lo",
)
if device.type == "cuda":
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
codecs = ("thc:bits=4", "sign", "sign_count", "bf16", "reproducible")


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(96, 128), torch.nn.LayerNorm(128), torch.nn.Linear(128, 96, bias=False)
    )


def gradients_of(step, module):
    """Equal on all devices: the hook gets them instead of those of backward."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return [torch.randn(p.shape, generator=generator) for p in module.parameters()]


def reduced_by_hook(codec, on, dtype=torch.float32):
    """Averaged gradients of some steps, and the state at the end."""
    module = model().to(on, dtype)
    ddp = DistributedDataParallel(module)
    state = hcomp.torch.HookState(ddp, codec, full_every=3, transport="group")
    ddp.register_comm_hook(state, hcomp.torch.hook)
    found = []
    for step in range(4):
        module.zero_grad()
        wanted = [g.to(on, dtype) for g in gradients_of(step, module)]
        # The gradient of this sum is `wanted`; forward makes DDP's reducer ready.
        ddp(torch.zeros(1, 96, device=on, dtype=dtype)).sum().mul(0).add(
            sum((p * g).sum() for p, g in zip(module.parameters(), wanted))
        ).backward()
        found.append(torch.cat([p.grad.reshape(-1) for p in module.parameters()]).cpu())
    kept = state.state_dict()
    report = state.report()
    assert report.steps == 4 and report.ratio > 0.2, report
    state.close()
    return found, kept


def test_hooks():
    for codec in codecs:
        for dtype in (torch.float32, torch.bfloat16):
            found, kept = reduced_by_hook(codec, device, dtype)
            expected, known = reduced_by_hook(codec, torch.device("cpu"), dtype)
            for one, other in zip(found, expected):
                # Small parameters are summed by NCCL or Gloo, whose order of ranks may differ.
                assert torch.allclose(one.float(), other.float(), rtol=1e-2, atol=1e-6), (codec, dtype)
            assert kept["residuals"].keys() == known["residuals"].keys()
            for name, residual in kept["residuals"].items():
                alike(residual, known["residuals"][name])


def test_collectives():
    n = 50_000
    for codec in codecs:
        generator = torch.Generator().manual_seed(rank)
        values = torch.randn(ranks * n, generator=generator)
        results = {}
        for on in (device, torch.device("cpu")):
            group = dist.new_group(backend="nccl" if on.type == "cuda" else "gloo")
            hcomp.torch.compress(group, codec)
            whole, part = values.to(on), torch.empty(n, device=on)
            x = whole[:n].clone()
            work = dist.all_reduce(x, group=group, async_op=True)
            dist.reduce_scatter_tensor(part, whole, group=group)
            work.wait()
            results[on.type] = (x.cpu(), part.cpu())
            hcomp.torch.compress(group, None)
            dist.destroy_process_group(group)
        for one, other in zip(results[device.type], results["cpu"]):
            alike(one, other)


def test_shards_learn():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(256, 384), torch.nn.Linear(384, 256)).to(device)
    fully_shard(module, mesh=dist.device_mesh.init_device_mesh(device.type, (ranks,)))
    state = hcomp.torch.ShardState(module, "thc:bits=8", min_values=100, transport="group")
    losses = trained(module, torch.optim.SGD(module.parameters(), 0.5), 0, 20)
    assert sum(losses[-3:]) < sum(losses[:3]), losses
    assert state.report().steps == 20
    state.close()


run_tests(globals(), f"hooks on {device}")
