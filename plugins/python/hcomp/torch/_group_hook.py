"""The gradient hook over a process group."""

# Annotations are not postponed, because DDP inspects those of the hook.

import time
from typing import Any, List, Tuple

import torch
import torch.distributed as dist

from ._group_state import GroupState
from ._hooks import HookState

Tensor = torch.Tensor


class GroupHookState(GroupState, HookState):
    """A HookState whose reductions use a process group; HookState describes the arguments.

    The parameters of a DDP bucket share three collectives: their statistics, an all-to-all and an
    all-gather. On a CUDA device the future of a bucket orders the current stream after them. In
    host memory the hook returns when the reduction is done.
    """

    def put(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """Reduce a bucket: enqueue its average, or in host memory compute it."""
        buffer, is_last, began = bucket.buffer(), bucket.is_last(), time.monotonic()
        self._require_reducible(buffer)
        pieces = self._pieces(bucket)
        step = self.steps
        if is_last:
            self.steps += 1
        future: Any = torch.futures.Future(
            **({} if self._stream is None else {"devices": [self._device]})
        )
        with self._beside():
            result = buffer
            if buffer.is_sparse:
                result = self._reduce_sparse(buffer)
            else:
                self._reduce(pieces, step)
            future.set_result(result)
        self._values += sum(g.numel() for _, g in pieces)
        self._seconds += time.monotonic() - began
        if is_last:
            self._end_report(2 * (self.size - 1) / self.size)
        return future

    def _reduce(self, pieces: List[Tuple[str, Tensor]], step: int) -> None:
        """Average the gradients in place."""
        is_full = self.is_full(step)
        compressed, exact = [], []
        for name, gradient in pieces:
            is_compressed = self._is_compressed(name, gradient.numel())
            (compressed if is_compressed and not is_full else exact).append((name, gradient))
        if exact:
            self._reduce_exact(exact, is_full)
        if compressed:
            self._reduce_compressed(compressed, step)

    def _reduce_sparse(self, gradient: Tensor) -> Tensor:
        """Average a sparse gradient in full precision. The result omits rows of zeros."""
        dtype = torch.float64 if gradient.dtype == torch.float64 else torch.float32
        dense = gradient.to_dense().to(dtype).contiguous()
        self._all_reduce(dense, dist.ReduceOp.SUM)
        dense /= self.size
        rows = dense.reshape(dense.shape[0], -1).any(1).nonzero().reshape(-1)
        values = dense[rows].to(gradient.dtype)
        return torch.sparse_coo_tensor(rows.unsqueeze(0), values, gradient.shape).coalesce()
