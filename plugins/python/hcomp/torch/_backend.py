"""The back end: which collectives hcomp runs, and which it forwards to Gloo."""

from __future__ import annotations

import functools
import os
import threading
import uuid
import zlib
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, Work
from torch.autograd.profiler import record_function
from torch.distributed import PrefixStore, ProcessGroupGloo, ReduceOp, Store

from .. import Group, HcompError
from ._queue import WorkQueue
from ._work import DoneWork, GlooWork, forward_to_python

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

#: Calls of Gloo that are not collective
_messages = ("send", "recv", "recv_anysource")

#: Back ends that are not shut down. PyTorch keeps only the C++ part of some.
_open: set[HcompBackend] = set()


class HcompBackend(Backend):
    """Collectives of one group of ranks, over one set of connections.

    Calls with async_op=True start in call order and overlap. A thread waits for them in order,
    unless a caller waits for a later one. Blocking calls run in the caller's thread after all
    started calls.
    """

    # PyTorch 2.15 recurses without end where a back end in Python inherits one of these.
    supports_splitting = True
    supports_coalescing = False
    supports_reconfigure = False
    supports_shrinking = False
    supports_window = False
    _supports_time_estimate = False

    @classmethod
    def create(cls, how: Any, _: Any) -> HcompBackend:
        """Create the back end. how: torch's DistributedBackendOptions."""
        try:
            return cls(
                how.store, how.group_rank, how.group_size, how.timeout, how.global_ranks_in_group
            )
        except TypeError as error:
            if "constructor" not in str(error):
                raise
            raise RuntimeError(
                "hcomp needs a PyTorch whose back ends can be written in Python, such as 2.15; this "
                f"is {torch.__version__}"
            ) from error

    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta, ranks: Sequence[int] = ()
    ) -> None:
        """Connect the ranks. Collective.

        ranks:  their numbers in the default group; none: all ranks
        """
        super().__init__(rank, size)
        forward_to_python()
        _leave_out_other_ranks()
        #: of the last reduction, like hcomp_report of the C API; None before
        self.last_report: Optional[Any] = None
        self._ranks = list(ranks)
        self._options = Backend.Options("hcomp", timeout)
        self._options.global_ranks_in_group = self._ranks
        with _unused_part(store, rank, timeout) as part:
            self._inner = ProcessGroupGloo(PrefixStore("gloo", part), rank, size, timeout)
            id = zlib.crc32(repr(self._ranks).encode()) if self._ranks else 0
            self._group = Group.from_store(part, rank, size, timeout.total_seconds(), id=id)
        self._collectives = 0  #: so far
        self._calling = threading.Lock()  #: one thread at a time may call the group
        self._queue = WorkQueue("hcomp")
        _open.add(self)
        if settings := os.environ.get("HCOMP_CONFIG"):
            self.configure(settings)
        self._wait_for_all()

    @property
    def options(self) -> Backend.Options:
        return self._options

    def split(
        self, store: Store, ranks: Sequence[int], options: Backend.Options
    ) -> HcompBackend:
        """Create the back end of some of the ranks, in that order. Only these ranks call it."""
        of_all = self._ranks or range(self.size())
        mine = ranks.index(self.rank())
        return HcompBackend(store, mine, len(ranks), options._timeout, [of_all[r] for r in ranks])

    def merge(self, store: Store, options: Backend.Options, rank: int, size: int) -> HcompBackend:
        """Create the back end of a larger group, in which this is ``rank`` of ``size``."""
        return HcompBackend(store, rank, size, options._timeout)

    def getBackendName(self) -> str:
        return "hcomp"

    def configure(self, settings: Optional[str]) -> None:
        """Set rules as in HCOMP_CONFIG; None: full precision. Collective."""
        with self._calling:
            self._group.configure(settings)

    # ---- Reductions ------------------------------------------------------------------------------

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        opts = opts or dist.AllreduceOptions()
        x = tensors[0]
        if len(tensors) > 1 or not _is_ours(x, opts.reduceOp):
            return self._by_gloo("allreduce", tensors, opts)
        flat, is_mean, divide = self._prepared(x, opts.reduceOp)
        arguments = (flat.data_ptr(), flat.numel(), _types[flat.dtype], is_mean)

        def finish() -> list[Tensor]:
            divide(flat)
            _copy_back_expanded(flat, x)
            return tensors

        return self._made("all_reduce", opts, _Call("all_reduce", arguments, (flat,)), finish)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        opts = opts or dist.ReduceScatterOptions()
        _require_parts("reduce_scatter", input, output, self.size())
        if not _is_ours(input, opts.reduceOp):
            return self._by_gloo("reduce_scatter_single", output, input, opts)
        whole, is_mean, divide = self._prepared(input, opts.reduceOp)
        part = output.contiguous().to(whole.dtype)
        arguments = (
            whole.data_ptr(), part.data_ptr(), part.numel(), _types[whole.dtype], is_mean
        )

        def finish() -> list[Tensor]:
            divide(part)
            _copy_back(part, output)
            return [output]

        call = _Call("reduce_scatter", arguments, (whole, part))
        return self._made("reduce_scatter", opts, call, finish)

    def _prepared(
        self, x: Tensor, operation: ReduceOp
    ) -> tuple[Tensor, bool, Callable[[Tensor], None]]:
        """Return x or a copy for the library, whether the library averages, and a function that
        completes the result in place."""
        if operation == ReduceOp.AVG and not x.is_floating_point():
            return x.to(torch.int64).contiguous(), False, self._divide
        return x.contiguous(), operation == ReduceOp.AVG, lambda result: None

    @torch.inference_mode()
    def _divide(self, sums: Tensor) -> None:
        sums.div_(self.size(), rounding_mode="trunc")  # as NCCL

    # ---- All-gather, broadcast, barrier ----------------------------------------------------------

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        _require_parts("all_gather", output, input, self.size())
        if not _is_plain(input):
            return self._by_gloo("all_gather_single", output, input)
        together = output.contiguous()

        def finish() -> list[Tensor]:
            _copy_back(together, output)
            return [output]

        return self._made("all_gather", opts, _gathering(input.contiguous(), together), finish)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        mine, parts = inputs[0], outputs[0]
        if len(inputs) > 1 or not _is_plain(mine):
            return self._by_gloo("allgather", outputs, inputs)
        _require_alike("all_gather", parts, mine, self.size())
        together = mine.new_empty((self.size(), *mine.shape))

        def finish() -> list[Tensor]:
            for one, part in zip(together, parts):
                _copy_back(one, part)
            return parts

        return self._made("all_gather", opts, _gathering(mine.contiguous(), together), finish)

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Work:
        opts = opts or dist.BroadcastOptions()
        x = tensors[0]
        if len(tensors) > 1 or not _is_plain(x):
            return self._by_gloo("broadcast", tensors, opts)
        flat = x.contiguous()

        def finish() -> list[Tensor]:
            _copy_back_expanded(flat, x)
            return tensors

        call = _Call("broadcast", (flat.data_ptr(), flat.nbytes, opts.rootRank), (flat,))
        return self._made("broadcast", opts, call, finish)

    def barrier(self, opts: Any = None) -> Work:
        marks = torch.zeros(self.size() + 1, dtype=torch.uint8)
        return self._made("barrier", opts, _gathering(marks[-1:], marks), lambda: [])

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        self._inner.monitored_barrier(opts.timeout, wait_all_ranks)

    # ---- Shutdown --------------------------------------------------------------------------------

    def shutdown(self) -> None:
        _open.discard(self)
        if self._queue.is_forked():
            return
        self._queue.close()
        self._group.close()
        self._inner.shutdown()

    # ---- Helpers, and collectives of Gloo --------------------------------------------------------

    def _made(self, title: str, opts: Any, call: _Call, finish: Callable[[], list[Tensor]]) -> Work:
        """Run or start the call.

        title:   in profiles
        opts:    of the collective: whether the caller waits at once
        finish:  returns the tensors after the call is done
        """
        self._queue.require_own_process()
        self._collectives += 1
        with _profiled(f"hcomp:{title}") as extend:
            if not getattr(opts, "asyncOp", True):
                with self._calling:
                    report = getattr(self._group, f"{call.name}_at")(*call.arguments)
                self._keep_report(report)
                return DoneWork(finish())
            with self._calling:
                begin = getattr(self._group, f"start_{call.name}_at")
                started = begin(*call.arguments, keep=call.keep)

            def operation() -> list[Tensor]:
                report = started.wait()
                self._keep_report(report if "reduce" in call.name else None)
                return finish()

            work = self._queue.put(operation, anywhere=True)
            extend(work.get_future())
            return work

    def _get_sequence_number_for_group(self) -> int:
        return self._collectives  # Gloo's number counts messages, too, so ranks differ

    def _keep_report(self, report: Optional[Any]) -> None:
        if report is not None:
            self.last_report = report

    def _wait_for_all(self) -> None:
        opts = dist.BarrierOptions()
        opts.asyncOp = False
        self.barrier(opts)

    def _by_gloo(self, name: str, *arguments: Any) -> Any:
        self._queue.require_own_process()
        self._collectives += name not in _messages
        result = getattr(self._inner, name)(*arguments)
        return GlooWork(result) if isinstance(result, Work) else result


def _pass_on(name: str) -> None:
    def call(self: HcompBackend, *arguments: Any) -> Any:
        return self._by_gloo(name, *arguments)

    call.__name__ = name
    setattr(HcompBackend, name, call)


for _name in (
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather_coalesced",
    "allreduce_coalesced",
    "allreduce_sparse",
    "alltoall",
    "alltoall_base",
    "gather",
    "gather_single",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single_coalesced",
    "scatter",
    *_messages,
):
    _pass_on(_name)
# Names before PyTorch 2.15
HcompBackend._allgather_base = HcompBackend.all_gather_single
HcompBackend._reduce_scatter_base = HcompBackend.reduce_scatter_single


def _gathering(mine: Tensor, together: Tensor) -> _Call:
    arguments = (mine.data_ptr(), mine.nbytes, together.data_ptr())
    return _Call("all_gather", arguments, (mine, together))


def backend_for(group: dist.ProcessGroup, device: torch.device) -> Backend:
    backend = group._get_backend(device)
    return getattr(backend, "wrapped_pg", backend)  # by TORCH_DISTRIBUTED_DEBUG=DETAIL


@functools.lru_cache(maxsize=None)
def _leave_out_other_ranks() -> None:
    """Make split_group leave out ranks that do not belong to the new group.

    PyTorch 2.15 calls split on them, too, and crashes if a back end in Python returns None.
    """
    native = dist.ProcessGroup.split_group

    @functools.wraps(native)
    def split_group(group: dist.ProcessGroup, ranks: list[int], *rest: Any, **named: Any) -> Any:
        kinds = {type(backend_for(group, device)) for device in group._device_types}
        if kinds == {HcompBackend} and group.rank() not in ranks:
            return None
        return native(group, ranks, *rest, **named)

    dist.ProcessGroup.split_group = split_group


@contextmanager
def _unused_part(store: Store, rank: int, timeout: timedelta) -> Iterator[Store]:
    """A part of the store without keys of earlier groups. The ranks meet in it within the context.
    """
    key = "part"
    if rank == 0:
        store.set(key, uuid.uuid4().hex)
    else:
        store.wait([key], timeout)
    try:
        yield PrefixStore(store.get(key).decode(), store)
    finally:
        if rank == 0:
            store.delete_key(key)  # the next group makes another


@contextmanager
def _profiled(title: str) -> Iterator[Callable[[torch.futures.Future], Any]]:
    """An entry in profiles. The function extends it until a future is done."""
    if not torch.autograd._profiler_enabled():
        yield lambda future: None
        return
    with record_function(title) as entry:
        yield entry._call_end_callbacks_on_future


def _copy_back(flat: Tensor, x: Tensor) -> None:
    """Copy a contiguous temporary back to its tensor, as if the library had written to it."""
    if flat is not x:
        # Any thread may write to inference tensors, and to leaves that require gradients.
        with torch.inference_mode():
            x.data.copy_(flat)  # leaves the version of x as it is


def _copy_back_expanded(flat: Tensor, x: Tensor) -> None:
    """The same for a tensor whose values may share memory after expand()."""
    for dimension, stride in enumerate(x.stride()):
        if stride == 0 and x.shape[dimension] > 1:
            x, flat = x.narrow(dimension, 0, 1), flat.narrow(dimension, 0, 1)
    _copy_back(flat, x)


def _is_plain(x: Tensor) -> bool:
    return x.layout == torch.strided and x.device.type == "cpu"


def _is_ours(x: Tensor, operation: ReduceOp) -> bool:
    if not _is_plain(x):
        return False
    is_integer = not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)
    return operation == ReduceOp.AVG and (x.dtype in _types or is_integer) or (
        operation == ReduceOp.SUM and x.dtype in _types
    )


def _require_parts(name: str, whole: Tensor, part: Tensor, size: int) -> None:
    if whole.numel() != size * part.numel() or whole.dtype != part.dtype:
        raise HcompError(
            HcompError.INVALID_ARGUMENT,
            f"{name}: {whole.numel()} values of {whole.dtype} are not {size} times "
            f"{part.numel()} of {part.dtype}",
        )


def _require_alike(name: str, parts: list[Tensor], mine: Tensor, size: int) -> None:
    if len(parts) != size:
        raise HcompError(
            HcompError.INVALID_ARGUMENT, f"{name}: {len(parts)} outputs, the group has {size} ranks"
        )
    for part in parts:
        if part.shape != mine.shape or part.dtype != mine.dtype:
            raise HcompError(
                HcompError.INVALID_ARGUMENT,
                f"{name}: an output has shape {tuple(part.shape)} and {part.dtype}, the input "
                f"{tuple(mine.shape)} and {mine.dtype}",
            )
