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
    if not _has_back_ends:
        raise RuntimeError(
            f"hcomp.torch: PyTorch {torch.__version__} has no back ends but its own; hcomp has hooks "
            "for it: hcomp.torch.HookState"
        )
    group = group or dist.group.WORLD
    if group is None:
        raise RuntimeError("hcomp.torch: torch.distributed.init_process_group was not called")
    backend = backend_for(group, torch.device("cpu"))
    if not isinstance(backend, HcompBackend):
        raise TypeError(
            f"hcomp.torch: the group's CPU back end is {backend.name()}, not hcomp; call "
            'init_process_group("cpu:hcomp")'
        )
    return backend


def compress(
    group: Optional[dist.ProcessGroup], codec: Optional[str], min_bytes: int = 64 * 1024
) -> None:
    """Compress the group's reductions of float32, and of float64 if the codec supports it.

    Collective, equal on all ranks. Other and smaller tensors stay in full precision.

    group:   None: the default group
    codec:   codec and keys, "thc:bits=4", or as in HCOMP_CONFIG "thc:bits=4 feedback=no"; None:
             full precision for all tensors
    """
    rule = None
    if codec is not None:
        rule = f"all: {codec} min={min_bytes}"
    backend_of(group).configure(rule)


register()
