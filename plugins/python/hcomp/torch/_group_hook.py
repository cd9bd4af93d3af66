"""The gradient hook over a process group."""

# Annotations are not postponed, because DDP inspects those of the hook.

import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from ._group_state import GroupState, Prepared
from ._hooks import HookState

Tensor = torch.Tensor

Pieces = List[Tuple[str, Tensor]]


@dataclass
class Layout:
    """The gradients of a bucket, by parameter name."""

    key: Tuple[int, ...]  #: address of the bucket, and its parameters
    pieces: Pieces
    compressed: Pieces  #: of the pieces; the rest is exact
    exact: Pieces
    values: int
    prepared: Optional[Prepared] = None


class GroupHookState(GroupState, HookState):
    """A HookState whose reductions use a process group; HookState describes the arguments.

    The parameters of a DDP bucket share three collectives: their statistics, an all-to-all and an
    all-gather. On a CUDA device the future of a bucket orders the current stream after them. In
    host memory the hook returns when the reduction is done.
    """

    def _set_up(self, *arguments: Any) -> None:
        self._layouts: Dict[int, Layout] = {}  #: by the index of the bucket
        super()._set_up(*arguments)

    def close(self) -> None:
        self._layouts.clear()
        super().close()

    def put(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """Reduce a bucket: enqueue its average, or in host memory compute it."""
        buffer, is_last, began = bucket.buffer(), bucket.is_last(), time.monotonic()
        self._require_reducible(buffer)
        layout = self._layout(bucket)
        step = self.steps
        if is_last:
            self.steps += 1
        future = self._future()
        with self._beside():
            result = buffer
            if buffer.is_sparse:
                result = self._reduce_sparse(buffer)
            else:
                self._reduce(layout, step)
            future.set_result(result)
        self._values += layout.values
        self._seconds += time.monotonic() - began
        if is_last:
            self._end_report(2 * (self.size - 1) / self.size)
        return future

    def _layout(self, bucket: dist.GradBucket) -> Layout:
        """Kept from the second step on: DDP's buckets change after the first one only."""
        buffer, index = bucket.buffer(), bucket.index()
        # The first step's would live until backward of the second, whose buckets are other memory.
        if buffer.is_sparse or self._report.steps == 0:
            return self._new_layout((), self._pieces(bucket))
        # The kept gradients keep the memory, so that no other bucket gets its address.
        key = (buffer.data_ptr(), *map(id, bucket.parameters()))
        if (known := self._layouts.get(index)) is not None:
            if known.key == key:
                return known
            self._layouts.clear()
        self._layouts[index] = layout = self._new_layout(key, self._pieces(bucket))
        return layout

    def _new_layout(self, key: Tuple[int, ...], pieces: Pieces) -> Layout:
        compressed, exact = [], []
        for name, gradient in pieces:
            is_compressed = self._is_compressed(name, gradient.numel())
            (compressed if is_compressed else exact).append((name, gradient))
        return Layout(key, pieces, compressed, exact, sum(g.numel() for _, g in pieces))

    def _reduce(self, layout: Layout, step: int) -> None:
        """Average the gradients in place."""
        if self.is_full(step):
            self._reduce_exact(layout.pieces, True)
            return
        if layout.exact:
            self._reduce_exact(layout.exact, False)
        if layout.compressed:
            layout.prepared = self._reduce_compressed(
                layout.compressed, step, prepared=layout.prepared
            )

    def _reduce_sparse(self, gradient: Tensor) -> Tensor:
        """Average a sparse gradient in full precision. The result omits rows of zeros."""
        dtype = torch.float64 if gradient.dtype == torch.float64 else torch.float32
        dense = gradient.to_dense().to(dtype).contiguous()
        self._all_reduce(dense, dist.ReduceOp.SUM)
        dense /= self.size
        rows = dense.reshape(dense.shape[0], -1).any(1).nonzero().reshape(-1)
        values = dense[rows].to(gradient.dtype)
        return torch.sparse_coo_tensor(rows.unsqueeze(0), values, gradient.shape).coalesce()
