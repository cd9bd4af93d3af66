"""Compressed gradients for FSDP2: hcomp's reduce-scatter replaces PyTorch's."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Sequence, Union

import numpy
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from .. import Plan
from ._hooks import device_of, of_group, uses_group
from ._state import HookReport, SumState, require_host

Tensor = torch.Tensor


class BackwardSteps:
    """Steps of a state whose modules reduce their gradients one by one."""

    def _begin_steps(self) -> None:
        self._reduced: set[str] = set()  #: modules with gradients so far in this step
        self._backward = -1  #: number of the backward pass that ends this step; -1: none

    def _begin_step(self, name: str) -> None:
        """Begin a step, unless the module belongs to the present one."""
        backward = torch._C._current_graph_task_id()
        if backward >= 0:
            if backward != self._backward:
                torch.autograd.Variable._execution_engine.queue_callback(self._end_step)
        elif name in self._reduced:  # a pipeline reduces between backward passes
            self._end_step()
        self._backward = backward
        self._reduced.add(name)

    def _forget_step(self) -> None:
        self._backward = -1
        self._reduced.clear()
        self.steps += 1


class ShardState(BackwardSteps, SumState):
    """Codec settings, connections and residuals for a model under fully_shard (FSDP2).

        model = fully_shard(model)
        state = hcomp.torch.ShardState(model, "thc:bits=4")

    From then on hcomp reduces the gradients of every module with fully_shard as one vector, named
    after the module. PyTorch reduces a module's gradients if they have less than ``min_values``
    values per rank, or if padding to complete blocks would add more than 25 %. Reductions run one
    after the other, because FSDP2 uses each result at once.

    Over a process group, nothing is padded.

    A step is one backward pass that reduces gradients. A checkpoint can only be resumed with the
    same number of ranks and transport. Arguments and creation as in HookState.
    """

    def __new__(
        cls, model: torch.nn.Module, *arguments: Any, transport: Optional[str] = None, **keys: Any
    ) -> ShardState:
        if not uses_group(model, transport):
            return super().__new__(cls)
        from ._group_shards import GroupShardState

        return super().__new__(of_group(cls, ShardState, GroupShardState))

    def __init__(
        self,
        model: torch.nn.Module,
        codec: str = "thc:bits=4",
        *,
        group: Optional[dist.ProcessGroup] = None,
        min_values: int = 4096,
        warm_up: int = 0,
        full_every: int = 0,
        timeout: float = 30.0,
        callback: Optional[Callable[[HookReport], None]] = None,
        transport: Optional[str] = None,
    ) -> None:
        modules = sharded_modules(model)
        self._min_values = min_values
        self._device = device_of(model)
        self._agreed = (min_values,)
        super().__init__(modules, codec, group, warm_up, full_every, timeout, callback)
        self._begin_steps()
        for name, module in modules.items():
            module.set_custom_reduce_scatter(_ReduceScatter(self, name))

    def _set_up(self, *arguments: Any) -> None:
        super()._set_up(*arguments)
        # Parts must be complete blocks in full-precision steps, too.
        with Plan(self._group, 0, numpy.float32, "identity") as exact:
            self._shard_alignment = math.lcm(self._shard_alignment, exact.shard_alignment)
        self._slots: dict[tuple[str, str], Tensor] = {}

    def load_state_dict(self, state: Union[dict[str, Any], Sequence[dict[str, Any]]]) -> None:
        """Restore this rank's state. The number of ranks must be the same."""
        self._require_ranks_of(state)
        super().load_state_dict(state)

    def _require_ranks_of(self, state: Union[dict[str, Any], Sequence[dict[str, Any]]]) -> None:
        for one in [state] if isinstance(state, dict) else state:
            if one.get("ranks", self.size) != self.size:
                raise ValueError(
                    f"hcomp.torch: the state was saved on {one['ranks']} ranks, this job has {self.size}; "
                    "residuals of shards cannot be loaded on another number of ranks"
                )

    def reduce_scatter(
        self, name: str, output: Tensor, whole: Tensor, group: Any, operation: Any
    ) -> None:
        require_host(whole)
        self._begin_step(name)
        part = output.numel()
        unit = self._shard_alignment
        padded = -(-part // unit) * unit if unit else 0
        is_ours = (
            (operation == ReduceOp.AVG or operation == ReduceOp.SUM)
            and part >= self._min_values
            and 0 < padded <= 1.25 * part
        )
        step = self.steps

        def ours() -> None:
            with self._busy():
                self._scatter(name, output, whole, padded, operation == ReduceOp.AVG, step)

        if is_ours:
            self._queue.call(ours)
        else:
            dist.reduce_scatter_tensor(output, whole, op=operation, group=group)
        self._now.values += whole.numel() if is_ours else 0

    def _end_step(self) -> None:
        self._forget_step()
        self._finish(self._now.busy, (self.size - 1) / self.size)

    def _scatter(
        self, name: str, output: Tensor, whole: Tensor, padded: int, mean: bool, step: int
    ) -> None:
        part = output.numel()
        words = "identity" if self.is_full(step) else self._words
        slots = self._slots_of(self._sum(name, self.size * padded, words), name, words, padded)
        x = torch.zeros(self.size, padded)
        x[slots, :part] = whole.view(self.size, part).to(torch.float32)
        flat = x.view(-1)
        used, given = self._prepared(name, flat, step)
        self._finished(lambda: used.reduce_scatter(flat.numpy(), mean), flat, given)
        output.copy_(flat[used.shard][:part].view_as(output))

    def _slots_of(self, total: Plan, name: str, words: str, padded: int) -> Tensor:
        """Index of each rank's part."""
        if (name, words) not in self._slots:
            mine = torch.tensor([total.shard.start // padded])
            slots = torch.empty(self.size, dtype=mine.dtype)
            self._group.all_gather_at(mine.data_ptr(), mine.nbytes, slots.data_ptr())
            self._slots[name, words] = slots
        return self._slots[name, words]


def sharded_modules(model: torch.nn.Module) -> dict[str, Any]:
    modules = {
        name or "model": module
        for name, module in model.named_modules()
        if hasattr(module, "set_custom_reduce_scatter")
    }
    if not modules:
        raise TypeError("hcomp.torch: fully_shard was not called on the model or any part of it")
    return modules


class _ReduceScatter:
    """Reduce-scatter object for FSDP2."""

    def __init__(self, state: ShardState, name: str) -> None:
        self._state = state
        self._name = name

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: Any, op: Any, async_op: bool = False
    ) -> None:
        self._state.reduce_scatter(self._name, output_tensor, input_tensor, group, op)
