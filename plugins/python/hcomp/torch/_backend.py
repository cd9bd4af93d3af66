"""The back end: which collectives are hcomp's, and which are passed on."""

from __future__ import annotations

import os
import zlib
from datetime import timedelta
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, Work
from torch.distributed import PrefixStore, ProcessGroupGloo, ReduceOp, Store

from .. import Group
from ._queue import WorkQueue

Tensor = torch.Tensor

#: Types that hcomp sums; others are summed by Gloo
_types = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int32: "int32",
    torch.int64: "int64",
}


class HcompBackend(Backend):
    """Collectives of one group of ranks. Each is done after those that were asked for before."""

    @classmethod
    def create(cls, how: Any, _: Any) -> HcompBackend:
        """how: torch's DistributedBackendOptions"""
        # no ranks: all of them
        ranks = list(how.global_ranks_in_group)
        id = zlib.crc32(repr(ranks).encode()) if ranks else 0
        try:
            return cls(how.store, how.group_rank, how.group_size, how.timeout, id)
        except TypeError as error:
            if "constructor" not in str(error):
                raise
            raise RuntimeError(
                "hcomp needs a PyTorch whose back ends can be written in Python, such as 2.15; this "
                f"is {torch.__version__}"
            ) from error

    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta, id: int = 0
    ) -> None:
        super().__init__(rank, size)
        #: of the last sum, as hcomp_report of the C API has them; None before
        self.last_report: Optional[Any] = None
        self._inner = ProcessGroupGloo(PrefixStore("gloo", store), rank, size, timeout)
        self._group = Group.from_store(store, rank, size, timeout.total_seconds(), id=id)
        self._queue = WorkQueue("hcomp")
        if settings := os.environ.get("HCOMP_CONFIG"):
            self.configure(settings)

    def getBackendName(self) -> str:
        return "hcomp"

    def configure(self, settings: Optional[str]) -> None:
        """Rules as in HCOMP_CONFIG; None: full precision. Collective."""

        def operation() -> list[Tensor]:
            self._group.configure(settings)
            return []

        self._queue.put(operation).wait()

    # ---- Sums ----------------------------------------------------------------------------------

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        opts = opts or dist.AllreduceOptions()
        if not _is_ours(tensors[0], opts.reduceOp):
            return self._inner.allreduce(tensors, opts)

        def operation() -> list[Tensor]:
            for x in tensors:
                with _contiguous(x) as flat:
                    self.last_report = self._group.all_reduce_at(
                        flat.data_ptr(), flat.numel(), _types[x.dtype], opts.reduceOp == ReduceOp.AVG
                    )
            return tensors

        return self._queue.put(operation)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        opts = opts or dist.ReduceScatterOptions()
        _require_parts("reduce_scatter", input, output, self.size())
        if not _is_ours(input, opts.reduceOp):
            return self._inner.reduce_scatter_single(output, input, opts)

        def operation() -> list[Tensor]:
            whole = input.contiguous()
            with _contiguous(output) as part:
                self.last_report = self._group.reduce_scatter_at(
                    whole.data_ptr(),
                    part.data_ptr(),
                    part.numel(),
                    _types[input.dtype],
                    opts.reduceOp == ReduceOp.AVG,
                )
            return [output]

        return self._queue.put(operation)

    # ---- Bytes ---------------------------------------------------------------------------------

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        _require_parts("all_gather", output, input, self.size())

        def operation() -> list[Tensor]:
            mine = input.contiguous()
            with _contiguous(output) as together:
                self._group.all_gather_at(mine.data_ptr(), mine.nbytes, together.data_ptr())
            return [output]

        return self._dense(operation, input, lambda: self._inner.all_gather_single(output, input))

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        mine, parts = inputs[0], outputs[0]

        def operation() -> list[Tensor]:
            together = mine.new_empty((self.size(), *mine.shape))
            flat = mine.contiguous()
            self._group.all_gather_at(flat.data_ptr(), flat.nbytes, together.data_ptr())
            for part, one in zip(parts, together):
                part.copy_(one)
            return parts

        return self._dense(operation, mine, lambda: self._inner.allgather(outputs, inputs))

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Work:
        opts = opts or dist.BroadcastOptions()
        x = tensors[opts.rootTensor]

        def operation() -> list[Tensor]:
            with _contiguous(x) as flat:
                self._group.broadcast_at(flat.data_ptr(), flat.nbytes, opts.rootRank)
            return tensors

        return self._dense(operation, x, lambda: self._inner.broadcast(tensors, opts))

    def barrier(self, opts: Any = None) -> Work:
        def operation() -> list[Tensor]:
            marks = torch.zeros(self.size() + 1, dtype=torch.uint8)
            self._group.all_gather_at(marks[-1:].data_ptr(), 1, marks.data_ptr())
            return []

        return self._queue.put(operation)

    # ---- The end -------------------------------------------------------------------------------

    def shutdown(self) -> None:
        self._queue.close()
        self._group.close()
        self._inner.shutdown()

    # ---- Everything else -----------------------------------------------------------------------

    def _dense(
        self, operation: Callable[[], list[Tensor]], x: Tensor, otherwise: Callable[[], Work]
    ) -> Work:
        return self._queue.put(operation) if _is_plain(x) else otherwise()


def _pass_on(name: str) -> None:
    def call(self: HcompBackend, *arguments: Any) -> Any:
        return getattr(self._inner, name)(*arguments)

    call.__name__ = name
    setattr(HcompBackend, name, call)


for _name in (
    "_get_sequence_number_for_group",
    "_set_sequence_number_for_group",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather_coalesced",
    "allreduce_coalesced",
    "allreduce_sparse",
    "alltoall",
    "alltoall_base",
    "gather",
    "gather_single",
    "monitored_barrier",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single_coalesced",
    "scatter",
    "send",
):
    _pass_on(_name)
# Before PyTorch 2.15
HcompBackend._allgather_base = HcompBackend.all_gather_single
HcompBackend._reduce_scatter_base = HcompBackend.reduce_scatter_single


class _contiguous:
    """The tensor, or a contiguous copy that is copied back at the end of the ``with`` block."""

    def __init__(self, x: Tensor) -> None:
        self._x = x
        self._flat = x.contiguous()

    def __enter__(self) -> Tensor:
        return self._flat

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and self._flat is not self._x:
            self._x.copy_(self._flat)


def _is_plain(x: Tensor) -> bool:
    return x.layout == torch.strided and x.device.type == "cpu"


def _is_ours(x: Tensor, operation: ReduceOp) -> bool:
    is_mean = operation == ReduceOp.AVG and x.is_floating_point()
    return (is_mean or operation == ReduceOp.SUM) and x.dtype in _types and _is_plain(x)


def _require_parts(name: str, whole: Tensor, part: Tensor, size: int) -> None:
    if whole.numel() != size * part.numel() or whole.dtype != part.dtype:
        raise ValueError(
            f"{name}: {whole.numel()} values of {whole.dtype} are not {size} times "
            f"{part.numel()} of {part.dtype}"
        )
