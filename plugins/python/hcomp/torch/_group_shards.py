"""Compressed gradients for FSDP2 and HSDP over a process group."""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, Optional, Sequence, Union

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from ._group_state import GroupState, uncompressed
from ._hooks import device_of, require_real
from ._shards import BackwardSteps, ShardState, sharded_modules
from ._state import HookReport

Tensor = torch.Tensor


class GroupShardState(GroupState, ShardState):
    """A ShardState whose reductions use a process group; ShardState describes the arguments.

    ``group`` is the one that shards the model.
    """

    def load_state_dict(self, state: Union[dict[str, Any], Sequence[dict[str, Any]]]) -> None:
        """Restore this rank's state. The number of ranks must be the same."""
        self._require_ranks_of(state)
        super().load_state_dict(state)

    def reduce_scatter(
        self, name: str, output: Tensor, whole: Tensor, group: Any, operation: Any
    ) -> None:
        began = time.monotonic()
        self._require_reducible(whole)
        require_real(whole)
        self._begin_step(name)
        if dist.get_world_size(group) != self.size:
            raise ValueError(
                f"hcomp.torch: {name} is sharded over {dist.get_world_size(group)} ranks, the state "
                f"was made for {self.size}; its group is the one that shards the model"
            )
        is_mean = operation == ReduceOp.AVG
        is_ours = (is_mean or operation == ReduceOp.SUM) and output.numel() >= self._min_values
        if not is_ours:
            with uncompressed():
                dist.reduce_scatter_tensor(output, whole, op=operation, group=group)
            return
        with self._beside():
            if self.is_full(self.steps):
                self._scatter_exact(name, output, whole, is_mean)
            else:
                self._scatter_compressed(name, output, whole, self.steps, is_mean)
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        self._values += whole.numel()
        self._seconds += time.monotonic() - began

    def _scatter_exact(self, name: str, output: Tensor, whole: Tensor, is_mean: bool) -> None:
        """In full precision, with the residual."""
        flat = whole.detach().view(-1).to(torch.float32, copy=True)
        residual = self._known_residual(name, whole.numel())
        if residual is not None:
            flat += residual
        part = torch.empty(output.numel(), dtype=torch.float32, device=self._device)
        with uncompressed():
            dist.reduce_scatter_tensor(part, flat, op=ReduceOp.SUM, group=self._process_group)
        self._bytes += (self.size - 1) * part.numel() * part.element_size()
        if is_mean:
            part /= self.size
        output.copy_(part.view_as(output))
        if residual is not None:  # NaN keeps it
            residual.masked_fill_(flat.isfinite().all(), 0.0)

    def _end_step(self) -> None:
        self._forget_step()
        self._end_report((self.size - 1) / self.size)


class ReplicaState(BackwardSteps, GroupState):
    """Compressed gradients between the replicas of a sharded model (HSDP).

        mesh = init_device_mesh("cuda", (nodes, ranks_per_node), mesh_dim_names=("node", "inside"))
        model = fully_shard(model, mesh=mesh["inside"])
        state = hcomp.torch.ReplicaState(model, "thc:bits=4", group=mesh["node"].get_group())

    PyTorch reduces gradients inside a node in full precision. Each rank's shard is then averaged
    over ``group``, the ranks that hold the same shard, with the codec. The hook is FSDP2's
    ``set_all_reduce_hook``.

    A step is one backward pass that reduces gradients. A checkpoint can only be resumed with the
    same shards. Creation is collective over all ranks. Arguments as in HookState; ``min_values`` is
    of a shard.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        codec: str = "thc:bits=4",
        *,
        group: dist.ProcessGroup,
        min_values: int = 4096,
        warm_up: int = 0,
        full_every: int = 0,
        timeout: float = 30.0,
        callback: Optional[Callable[[HookReport], None]] = None,
    ) -> None:
        modules = sharded_modules(model)
        self._min_values = min_values
        self._device = device_of(model)
        self._agreed = (min_values,)
        self._set_up(modules, codec, group, warm_up, full_every, timeout, callback)
        self._begin_steps()
        # Shards draw different numbers.
        self._shard = dist.get_process_group_ranks(group)[0]
        for name, module in modules.items():
            module.set_all_reduce_hook(functools.partial(self.all_reduce, name))

    def all_reduce(self, name: str, shard: Tensor) -> None:
        """Average a module's shard in place."""
        began = time.monotonic()
        self._require_reducible(shard)
        require_real(shard)
        self._begin_step(name)
        pieces = [(name, shard)]
        with self._beside():
            if self.is_full(self.steps) or shard.numel() < max(1, self._min_values):
                self._reduce_exact(pieces, self.is_full(self.steps))
            else:
                self._reduce_compressed(pieces, self.steps, f"@{self._shard}")
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        self._values += shard.numel()
        self._seconds += time.monotonic() - began

    def _end_step(self) -> None:
        self._forget_step()
        self._end_report(2 * (self.size - 1) / self.size)
