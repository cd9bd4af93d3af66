"""hcomp as a back end of torch.distributed, for tensors in the memory of the host.

    torch.distributed.init_process_group("cpu:hcomp")

started by torchrun. all_reduce (sum and average), reduce_scatter_tensor, all_gather, broadcast and
barrier are hcomp's, in full precision; the rest is an inner Gloo group's. Gradients in few bits:

    hcomp.torch.compress(None, "thc:bits=4", min_bytes=1 << 20)

or HCOMP_CONFIG, with the rules of the drop-in library. What is lost of a tensor in one sum is added
to the next tensor of the same size at the same address, as buckets of DistributedDataParallel are.

ElasticTraining is for ranks of which some may be lost meanwhile, and others come; it needs no
torch.distributed.

Hooks for gradients, HookState, work with PyTorch from 1.13 on, the back end with 2.15. Where hcomp
was not installed by pip, ``import hcomp.torch`` makes the back end known.
"""

from __future__ import annotations

from typing import Optional

import torch
import torch.distributed as dist

from ._elastic import ElasticTraining
from ._hooks import HookState, hook
from ._marsit import Marsit
from ._shards import ShardState
from ._state import HookReport

#: PyTorch 1 has hooks, and no back ends but its own
_has_back_ends = hasattr(torch._C._distributed_c10d, "Backend")
if _has_back_ends:
    from ._backend import HcompBackend

__all__ = [
    "ElasticTraining",
    "HcompBackend",
    "HookReport",
    "HookState",
    "Marsit",
    "ShardState",
    "backend_of",
    "compress",
    "hook",
    "register",
]


def register() -> None:
    """Make the back end known to torch.distributed, which calls it by an entry point."""
    if _has_back_ends and not hasattr(dist.Backend, "HCOMP"):
        dist.Backend.register_backend(
            "hcomp", HcompBackend.create, extended_api=True, devices=["cpu"]
        )


def backend_of(group: Optional[dist.ProcessGroup] = None) -> HcompBackend:
    """The back end of a group, or of all ranks."""
    if not _has_back_ends:
        raise RuntimeError(
            f"hcomp.torch: PyTorch {torch.__version__} has no back ends but its own; hcomp has hooks "
            "for it: hcomp.torch.HookState"
        )
    group = group or dist.group.WORLD
    if group is None:
        raise RuntimeError("hcomp.torch: torch.distributed.init_process_group was not called")
    backend = group._get_backend(torch.device("cpu"))
    if not isinstance(backend, HcompBackend):
        raise TypeError(
            f"hcomp.torch: the group sums tensors of the CPU by {backend.name()}, not by hcomp; call "
            'init_process_group("cpu:hcomp")'
        )
    return backend


def compress(
    group: Optional[dist.ProcessGroup], codec: Optional[str], min_bytes: int = 64 * 1024
) -> None:
    """How the group sums float32 tensors, and float64 where the codec can, from now on.

    Collective, equal on all ranks. Other tensors and smaller ones are summed in full precision.
    group:   None for that of all ranks
    codec:  codec and keys, "thc:bits=4" or as in HCOMP_CONFIG "thc:bits=4 feedback=no"; None: full
             precision for all
    """
    rule = None
    if codec is not None:
        rule = f"all: {codec} min={min_bytes}"
    backend_of(group).configure(rule)


register()
