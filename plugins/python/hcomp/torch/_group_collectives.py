"""Compressed collectives of a process group, for hcomp.torch.compress."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future
from torch.distributed import ProcessGroup, ReduceOp

from ._group_state import GroupState, require_agreement, uncompressed

Tensor = torch.Tensor

_types = (torch.float32, torch.bfloat16, torch.float16)

#: By the name of the group
_compressed: dict[str, GroupCollectives] = {}


class GroupCollectives(GroupState):
    """Compresses all_reduce and reduce_scatter_tensor of one group on one device.

    ``report()`` counts calls as steps. ``compress(group, None)`` ends it.
    """

    _most_buckets = 64  #: each is for one size

    def __init__(
        self, group: ProcessGroup, device: torch.device, codec: Optional[str], min_bytes: int
    ) -> None:
        """Compare the arguments of all ranks. Collective.

        codec:  None: only compare
        """
        self._device = device
        self._min_bytes = min_bytes
        self._lock = threading.Lock()
        wrong = f"min_bytes is {min_bytes}; it is 0 or more" if min_bytes < 0 else ""
        if any(word.startswith("feedback=") for word in (codec or "").split() if word != "feedback=no"):
            wrong = f"'{codec}': a process group has error feedback by its hooks, HookState for example"
        refused = self._prepare(codec or "identity", group, wrong)
        self._has_feedback = False
        require_agreement(group, self._device, refused, (codec, min_bytes))

    def takes(self, x: Tensor, bytes: int, operation: ReduceOp) -> bool:
        """Whether a call is compressed. bytes: of the vector that is reduced."""
        return (
            (operation == ReduceOp.SUM or operation == ReduceOp.AVG)
            and x.dtype in _types
            and bytes >= max(1, self._min_bytes)
            and x.layout == torch.strided
            and x.device == self._device
            and x.is_contiguous()
        )

    def all_reduce(self, x: Tensor, operation: ReduceOp) -> Any:
        """Reduce in place. Returns the Work, boxed."""

        def reduce(name: str) -> None:
            self._reduce_compressed([(name, x)], self.steps, is_mean=operation == ReduceOp.AVG)

        name = f"{x.numel()} values"
        return self._run(reduce, name, [x], x.numel(), 2 * (self.size - 1) / self.size)

    def reduce_scatter(self, output: Tensor, whole: Tensor, operation: ReduceOp) -> Any:
        """Reduce, and give each rank its part. Returns the Work, boxed."""

        def reduce(name: str) -> None:
            mean = operation == ReduceOp.AVG
            self._scatter_compressed(name, output, whole, self.steps, mean)

        name = f"{whole.numel()} values, scattered"
        return self._run(reduce, name, [output, whole], whole.numel(), (self.size - 1) / self.size)

    def _run(
        self, reduce: Any, name: str, tensors: list[Tensor], values: int, ring: float
    ) -> Any:
        future, began = self._future(), time.monotonic()
        with self._lock, torch.no_grad():
            with self._beside():
                reduce(name)
                if self._stream is not None:
                    for x in tensors:
                        x.record_stream(self._stream)
                future.set_result(tensors[:1])
            self.steps += 1
            self._values += values
            self._seconds += time.monotonic() - began
            self._end_report(ring)
        return _create_work_from_future(future).boxed()


def compress_group(
    group: ProcessGroup, device: torch.device, codec: Optional[str], min_bytes: int
) -> Optional[GroupCollectives]:
    """Compress the group's collectives from now on; codec None: no longer. Collective."""
    if not hasattr(ReduceOp, "unbox"):
        raise RuntimeError(
            f"hcomp.torch: PyTorch {torch.__version__} has no ReduceOp.unbox, which compress needs; "
            "use a newer PyTorch, such as 2.15, or HookState"
        )
    made = GroupCollectives(group, device, codec, min_bytes)
    old = _compressed.pop(group.group_name, None)
    if codec is not None:
        _intercept()
        _compressed[group.group_name] = made
    if old is not None:  # it may raise on one rank alone
        old.close()
    return None if codec is None else made


def _compression_of(group: Any) -> Optional[GroupCollectives]:
    """The compression of a boxed group; None: its collectives stay in full precision."""
    unboxed = ProcessGroup.unbox(group)
    found = _compressed.get(unboxed.group_name)
    return found if found is not None and found._process_group is unboxed else None


@functools.lru_cache(maxsize=None)
def _intercept() -> torch.library.Library:
    """Route the operators of all_reduce and reduce_scatter_tensor through this module.

    PyTorch dispatches every call of torch.distributed and of DDP's reducer as an operator. It
    leaves the dispatch keys for autograd unused.
    """
    library = torch.library.Library("c10d", "IMPL")

    def all_reduce(tensors: list[Tensor], group: Any, operation: Any, *rest: Any) -> Any:
        found = _compression_of(group)
        if found is not None and len(tensors) == 1:
            x, op = tensors[0], ReduceOp.unbox(operation)
            if found.takes(x, x.nbytes, op):
                return tensors, found.all_reduce(x, op)
        with uncompressed():
            return torch.ops.c10d.allreduce_(tensors, group, operation, *rest)

    def reduce_scatter(
        output: Tensor, whole: Tensor, group: Any, operation: Any, *rest: Any
    ) -> Any:
        found = _compression_of(group)
        if found is not None:
            op = ReduceOp.unbox(operation)
            is_valid = output.dtype == whole.dtype and output.numel() * found.size == whole.numel()
            if is_valid and output.device == whole.device and found.takes(whole, whole.nbytes, op):
                return output, found.reduce_scatter(output, whole, op)
        with uncompressed():
            return torch.ops.c10d._reduce_scatter_base_(output, whole, group, operation, *rest)

    for key in ("AutogradCPU", "AutogradCUDA"):
        library.impl("allreduce_", all_reduce, key)
        library.impl("_reduce_scatter_base_", reduce_scatter, key)
    return library
