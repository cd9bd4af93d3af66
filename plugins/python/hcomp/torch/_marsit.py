"""Marsit: one bit per value in almost every round, full precision in every K-th."""

from __future__ import annotations

from typing import Callable, Iterable, Optional

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ._state import HookReport, SumState

_name = "update"  #: of the one vector that is summed


class Marsit(SumState):
    """Steps of an optimizer, of which ranks exchange one bit per value.

        ranks = hcomp.torch.Marsit(model.parameters(), optimizer, period=100)
        loss.backward()   # the gradients of this rank: no DistributedDataParallel
        ranks.step()      # in place of optimizer.step()

    Each rank makes its own step u, and all then make the common one g instead, the same bits on all:
    g has in every value the sign of one rank's u + c, drawn anew, times the mean of all magnitudes
    over all ranks; c, what this rank wanted and did not get, becomes u + c - g. In the first
    ``warm_up`` rounds and every ``period``-th one g is the mean of u + c, and c becomes 0. Models must
    be equal before the first step: ``broadcast``. The optimizer's own state (momentum) stays each
    rank's own. Creation is collective; other arguments as of HookState.

    Source: Wu et al., Marsit, DAC 2022, Algorithm 2; there the worth of a sign is a constant, the
    global step size, and there is no warm-up.
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
        """Gives all ranks the parameters of one. Collective."""
        flat = self._flat()
        self._queue.call(lambda: self._group.broadcast_at(flat.data_ptr(), flat.numpy().nbytes, root))
        vector_to_parameters(flat, self.parameters)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], float]] = None) -> Optional[float]:
        """One round. Collective. If it raises, parameters and c are as before."""
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
