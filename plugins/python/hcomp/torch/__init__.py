"""hcomp as a back end of torch.distributed, for tensors in host memory.

    torch.distributed.init_process_group("cpu:hcomp")

Works with torchrun. hcomp runs all_reduce (sum and average), reduce_scatter_tensor, all_gather,
broadcast and barrier, by default in full precision. An inner Gloo group runs everything else.
Averages of integers are rounded towards zero. This call compresses gradients:

    hcomp.torch.compress(None, "thc:bits=4", min_bytes=1 << 20)

HCOMP_CONFIG does the same, with the rules of the drop-in library. Error feedback identifies a
tensor by address and size, because DistributedDataParallel reuses its buckets.

ElasticTraining is fault-tolerant: ranks may fail, and new ranks may join. It does not need
torch.distributed.

The gradient hooks (HookState) work with PyTorch 1.13 and newer, the back end with 2.15. ``import
hcomp.torch`` registers the back end if hcomp was not installed by pip.
"""

from __future__ import annotations

from typing import Optional

import torch
import torch.distributed as dist

from ._elastic import ElasticTraining
from ._group_shards import ReplicaState
from ._hooks import HookState, hook
from ._marsit import Marsit
from ._shards import ShardState
from ._state import HookReport

#: PyTorch 1 has hooks, but no external back ends
_has_back_ends = hasattr(torch._C._distributed_c10d, "Backend")
if _has_back_ends:
    from ._backend import HcompBackend, backend_for
    from ._group_collectives import GroupCollectives, compress_group

__all__ = [
    "ElasticTraining",
    "HcompBackend",
    "HookReport",
    "HookState",
    "Marsit",
    "ReplicaState",
    "ShardState",
    "backend_of",
    "compress",
    "hook",
    "register",
]


def register() -> None:
    """Register the back end with torch.distributed. PyTorch calls this through an entry point."""
    if _has_back_ends and not hasattr(dist.Backend, "HCOMP"):
        dist.Backend.register_backend(
            "hcomp", HcompBackend.create, extended_api=True, devices=["cpu"]
        )


def backend_of(group: Optional[dist.ProcessGroup] = None) -> HcompBackend:
    """The back end of a group. None: of the default group."""
    group = _group_or_default(group)
    backend = backend_for(group, torch.device("cpu"))
    if not isinstance(backend, HcompBackend):
        raise TypeError(
            f"hcomp.torch: the group's CPU back end is {backend.name()}, not hcomp; call "
            'init_process_group("cpu:hcomp")'
        )
    return backend


def compress(
    group: Optional[dist.ProcessGroup], codec: Optional[str], min_bytes: int = 64 * 1024
) -> Optional[GroupCollectives]:
    """Compress all_reduce and reduce_scatter_tensor (sum and average) of a group.

    Collective, equal on all ranks. Smaller and other tensors stay in full precision.

    group:      None: the default group. With hcomp as CPU back end: float32, and float64 if the
                codec supports it, in host memory. With every other back end, such as NCCL: float32,
                bfloat16 and float16, contiguous, on the current CUDA device, or in host memory if
                the group has no back end for devices
    codec:      codec and keys, "thc:bits=4", or as in HCOMP_CONFIG "thc:bits=4 feedback=no"; None:
                full precision for all tensors. Back ends but hcomp's: of fixed rate, without error
                feedback, which HookState has
    min_bytes:  smallest vector that is compressed

    Returns an object whose ``report()`` counts calls as steps; None with hcomp as back end, which
    has ``backend_of(group).last_report``, and for full precision.

    On a CUDA device nothing waits on the host after the first call of each size. Damaged messages
    leave the tensor unchanged, and a later call of its size or ``report()`` raises an HcompError.
    Collectives that torch.compile generates, and coalesced ones, stay in full precision.
    """
    group = _group_or_default(group)
    devices = [d for d in group._device_types if not _is_ours(group, d)]
    if len(devices) < len(group._device_types):
        rule = None
        if codec is not None:
            rule = f"all: {codec} min={min_bytes}"
        backend_of(group).configure(rule)
    if torch.device("cuda") in devices and torch.cuda.is_available():
        return compress_group(
            group, torch.device("cuda", torch.cuda.current_device()), codec, min_bytes
        )
    if torch.device("cpu") in devices:
        return compress_group(group, torch.device("cpu"), codec, min_bytes)
    return None


def _group_or_default(group: Optional[dist.ProcessGroup]) -> dist.ProcessGroup:
    if not _has_back_ends:
        raise RuntimeError(
            f"hcomp.torch: PyTorch {torch.__version__} has no back ends but its own; hcomp has hooks "
            "for it: hcomp.torch.HookState"
        )
    group = group or dist.group.WORLD
    if group is None:
        raise RuntimeError("hcomp.torch: torch.distributed.init_process_group was not called")
    return group


def _is_ours(group: dist.ProcessGroup, device: torch.device) -> bool:
    return isinstance(backend_for(group, device), HcompBackend)


register()
