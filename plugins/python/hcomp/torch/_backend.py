"""The back end: which collectives hcomp runs, and which it forwards to Gloo."""

from __future__ import annotations

import os
import zlib
from datetime import timedelta
from typing import Any, Callable, NamedTuple, Optional

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, Work
from torch.distributed import PrefixStore, ProcessGroupGloo, ReduceOp, Store

from .. import Group
from ._queue import DoneWork, WorkQueue

Tensor = torch.Tensor


class _Call(NamedTuple):
    """A call of a Group, for example all_reduce_at."""

    name: str
    arguments: tuple[Any, ...]
    keep: tuple[Tensor, ...]  #: tensors that the call uses


#: Types that hcomp reduces; Gloo reduces all other types
_types = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int32: "int32",
    torch.int64: "int64",
}


class HcompBackend(Backend):
    """Collectives of one group of ranks, over one set of connections.

    Calls with async_op=True start in call order and overlap. A thread waits for them in order,
    unless a caller waits for a later one. Blocking calls run in the caller's thread after all
    started calls.
    """

    @classmethod
    def create(cls, how: Any, _: Any) -> HcompBackend:
        """Create the back end. how: torch's DistributedBackendOptions."""
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
        #: of the last reduction, like hcomp_report of the C API; None before
        self.last_report: Optional[Any] = None
        self._inner = ProcessGroupGloo(PrefixStore("gloo", store), rank, size, timeout)
        self._group = Group.from_store(store, rank, size, timeout.total_seconds(), id=id)
        self._queue = WorkQueue("hcomp")
        if settings := os.environ.get("HCOMP_CONFIG"):
            self.configure(settings)

    def getBackendName(self) -> str:
        return "hcomp"

    def configure(self, settings: Optional[str]) -> None:
        """Set rules as in HCOMP_CONFIG; None: full precision. Collective."""
        self._group.configure(settings)

    # ---- Reductions ------------------------------------------------------------------------------

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        opts = opts or dist.AllreduceOptions()
        if not _is_ours(tensors[0], opts.reduceOp):
            return self._inner.allreduce(tensors, opts)

        flats = [x.contiguous() for x in tensors]
        is_mean = opts.reduceOp == ReduceOp.AVG
        calls = [
            _Call("all_reduce", (x.data_ptr(), x.numel(), _types[x.dtype], is_mean), (x,))
            for x in flats
        ]
        return self._made(opts, calls, lambda: _copied_back(flats, tensors))

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        opts = opts or dist.ReduceScatterOptions()
        _require_parts("reduce_scatter", input, output, self.size())
        if not _is_ours(input, opts.reduceOp):
            return self._inner.reduce_scatter_single(output, input, opts)
        whole, part = input.contiguous(), output.contiguous()
        is_mean = opts.reduceOp == ReduceOp.AVG
        arguments = (
            whole.data_ptr(), part.data_ptr(), part.numel(), _types[input.dtype], is_mean
        )
        call = _Call("reduce_scatter", arguments, (whole, part))
        return self._made(opts, [call], lambda: _copied_back([part], [output]))

    # ---- All-gather, broadcast, barrier ----------------------------------------------------------

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        _require_parts("all_gather", output, input, self.size())
        if not _is_plain(input):
            return self._inner.all_gather_single(output, input)
        together = output.contiguous()
        call = _gathering(input.contiguous(), together)
        return self._made(opts, [call], lambda: _copied_back([together], [output]))

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        mine, parts = inputs[0], outputs[0]
        if not _is_plain(mine):
            return self._inner.allgather(outputs, inputs)
        together = mine.new_empty((self.size(), *mine.shape))
        call = _gathering(mine.contiguous(), together)
        return self._made(opts, [call], lambda: _copied_back(list(together), parts))

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Work:
        opts = opts or dist.BroadcastOptions()
        x = tensors[opts.rootTensor]
        if not _is_plain(x):
            return self._inner.broadcast(tensors, opts)
        flat = x.contiguous()
        call = _Call("broadcast", (flat.data_ptr(), flat.nbytes, opts.rootRank), (flat,))

        def finish() -> list[Tensor]:
            _copied_back([flat], [x])
            return tensors

        return self._made(opts, [call], finish)

    def barrier(self, opts: Any = None) -> Work:
        marks = torch.zeros(self.size() + 1, dtype=torch.uint8)
        return self._made(opts, [_gathering(marks[-1:], marks)], lambda: [])

    # ---- Shutdown --------------------------------------------------------------------------------

    def shutdown(self) -> None:
        self._queue.close()
        self._group.close()
        self._inner.shutdown()

    # ---- Helpers, and collectives of Gloo --------------------------------------------------------

    def _made(self, opts: Any, calls: list[_Call], finish: Callable[[], list[Tensor]]) -> Work:
        """Run or start the calls.

        opts:    of the collective: whether the caller waits at once
        finish:  returns the tensors after all calls are done
        """
        if not getattr(opts, "asyncOp", True):
            for call in calls:
                self._keep_report(getattr(self._group, f"{call.name}_at")(*call.arguments))
            return DoneWork(finish())
        started = [
            getattr(self._group, f"start_{call.name}_at")(*call.arguments, keep=call.keep)
            for call in calls
        ]

        def operation() -> list[Tensor]:
            for call, one in zip(calls, started):
                report = one.wait()
                self._keep_report(report if "reduce" in call.name else None)
            return finish()

        return self._queue.put(operation, anywhere=True)

    def _keep_report(self, report: Optional[Any]) -> None:
        if report is not None:
            self.last_report = report


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
# Names before PyTorch 2.15
HcompBackend._allgather_base = HcompBackend.all_gather_single
HcompBackend._reduce_scatter_base = HcompBackend.reduce_scatter_single


def _gathering(mine: Tensor, together: Tensor) -> _Call:
    arguments = (mine.data_ptr(), mine.nbytes, together.data_ptr())
    return _Call("all_gather", arguments, (mine, together))


def _copied_back(flats: list[Tensor], tensors: list[Tensor]) -> list[Tensor]:
    """Copy contiguous temporaries back to their tensors, and return the tensors."""
    for flat, x in zip(flats, tensors):
        if flat is not x:
            x.copy_(flat)
    return tensors


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
