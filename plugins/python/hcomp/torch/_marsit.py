"""Marsit: one bit per value in most rounds, full precision in every K-th."""

from __future__ import annotations

from typing import Callable, Iterable, Optional

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ._state import HookReport, SumState

_name = "update"  #: of the one reduced vector


class Marsit(SumState):
    """Optimizer steps that ranks exchange with one bit per value.

        ranks = hcomp.torch.Marsit(model.parameters(), optimizer, period=100)
        loss.backward()   # the gradients of this rank: no DistributedDataParallel
        ranks.step()      # in place of optimizer.step()

    Each rank computes its own step u. All ranks then apply a common step g, bit-identical on all
    ranks. The sign of each value of g is the sign of u + c on one rank, drawn anew for each value.
    Its magnitude is the mean magnitude over all values and ranks. Each rank keeps its residual c,
    which becomes u + c - g.

    In the first ``warm_up`` rounds and in every ``period``-th round, g is the mean of u + c, and c
    becomes 0. Models must be equal before the first step: call ``broadcast``. The optimizer's
    state, for example momentum, stays local. Creation is collective; further arguments as in
    HookState.

    Source: Wu et al., Marsit, DAC 2022, Algorithm 2. There the magnitude is a constant, the global
    step size, and no warm-up exists.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        optimizer: torch.optim.Optimizer,
        *,
        period: int = 100,
        warm_up: int = 0,
        group: Optional[dist.ProcessGroup] = None,
        timeout: float = 30.0,
        callback: Optional[Callable[[HookReport], None]] = None,
    ) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        self.optimizer = optimizer
        values = sum(p.numel() for p in self.parameters)
        super().__init__([_name], "sign:feedback=no", group, warm_up, period, timeout, callback)
        self._lost[_name] = torch.zeros(values)

    @torch.no_grad()
    def broadcast(self, root: int = 0) -> None:
        """Broadcast the parameters of rank ``root``. Collective."""
        flat = self._flat()
        self._queue.call(lambda: self._group.broadcast_at(flat.data_ptr(), flat.numpy().nbytes, root))
        vector_to_parameters(flat, self.parameters)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], float]] = None) -> Optional[float]:
        """Run one round. Collective. If it raises, parameters and residual are unchanged."""
        before = self._flat()
        loss = self.optimizer.step(closure)
        wanted = before - self._flat() + self._lost[_name]
        common = wanted.clone()
        words = "identity" if self.is_full(self.steps) else self._words

        def operation() -> None:
            with self._busy():
                total = self._sum(_name, common.numel(), words)
                total.set_draws(0, self.steps)
                self._add(total.all_reduce(common.numpy(), mean=True))

        try:
            self._queue.call(operation)
        except Exception:
            vector_to_parameters(before, self.parameters)
            raise
        self._lost[_name] = torch.zeros_like(wanted) if self.is_full(self.steps) else wanted - common
        vector_to_parameters(before - common, self.parameters)
        self.steps += 1
        self._now.values = common.numel()
        self._finish(self._now.busy, 2 * (self.size - 1) / self.size)
        return loss

    def _flat(self) -> torch.Tensor:
        return parameters_to_vector(self.parameters).detach().to(torch.float32)
