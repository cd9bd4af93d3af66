"""Compressed gradients for DistributedDataParallel, with residuals keyed by parameter name."""

# Annotations are not postponed, because DDP inspects those of the hook.

import time
import zlib
from fnmatch import fnmatchcase
from typing import Any, Callable, Iterable, List, Optional, Tuple

import torch
import torch.distributed as dist

from ._state import HookReport, SumState, require_host
from ._work import HcompWork

Tensor = torch.Tensor


class HookState(SumState):
    """Codec settings, connections and residuals of the gradient hook.

        state = hcomp.torch.HookState(model, "thc:bits=4")
        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(state, hcomp.torch.hook)

    Parameters are in host memory, or in that of one CUDA device. Gradients on a device stay there:
    the hook enqueues all work on a stream of its own, and encoded gradients travel by all-to-all
    and all-gather of ``group``, for example NCCL. It needs libhcomp_cuda.so.

    Every parameter of at least ``min_values`` values is reduced by a Plan of its own, so results do
    not depend on DDP's buckets. Smaller parameters, for example norms and biases, stay in full
    precision. So do sparse gradients, whose zeros are not sent. Reductions start in the order of
    the buckets and overlap with backward, over separate connections.

    If a gradient contains NaN or infinity, it becomes NaN on all ranks, and its residual is
    unchanged. Over a process group this concerns the block around it, of up to 16384 values. With
    "fp16", "bf16", "reproducible" and "identity" the value alone becomes NaN or infinity.

    Creation is collective, with equal arguments on all ranks.

    module:      module with the trained parameters, or DDP around it
    codec:       codec and keys: "thc:bits=4", "sign", "bf16", or as in HCOMP_CONFIG. Error feedback
                 follows the codec's default; "feedback=no" turns it off. A process group needs a
                 codec of fixed rate
    group:       of torch.distributed, with any back end; None: all ranks
    transport:   "hcomp": connections of its own, for host memory; "group": the process group;
                 None: "group" for a device, otherwise "hcomp"
    min_values:  smallest number of values of a compressed parameter

    exclude:     patterns of parameter names that stay in full precision, for example "*.bias"
    warm_up:     number of first steps in full precision
    full_every:  every n-th step runs in full precision and includes the residuals; 0: none

    timeout:     limit in seconds for connecting and for one message. If a rank is silent for
                 longer, all other ranks raise an HcompError that names it. A process group has its
                 own
    callback:    called with the report after every step, in the thread that waits for reductions
    at_a_time:   largest number of overlapping reductions on the same connections. Results do not
                 depend on it. Values over 1 save time for many parameters of about 100 kB on
                 networks with latency. 1 over a process group

    Memory: 8 bytes per compressed value for residuals, and the codec's own buffers; over a process
    group 4 bytes, and 4 more in the largest bucket. A sparse gradient temporarily becomes dense.
    """

    def __new__(
        cls,
        module: torch.nn.Module,
        *arguments: Any,
        transport: Optional[str] = None,
        **keys: Any,
    ) -> "HookState":
        if not uses_group(module, transport):
            return super().__new__(cls)
        from ._group_hook import GroupHookState

        return super().__new__(of_group(cls, HookState, GroupHookState))

    def __init__(
        self,
        module: torch.nn.Module,
        codec: str = "thc:bits=4",
        *,
        group: Optional[dist.ProcessGroup] = None,
        min_values: int = 4096,
        exclude: Iterable[str] = (),
        warm_up: int = 0,
        full_every: int = 0,
        timeout: float = 30.0,
        callback: Optional[Callable[[HookReport], None]] = None,
        at_a_time: int = 1,
        transport: Optional[str] = None,
    ) -> None:
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            module = module.module
        self._name_of = {id(p): name for name, p in module.named_parameters()}
        if isinstance(exclude, str):
            raise TypeError(f"exclude is {exclude!r}; it is a list of patterns")
        self._exclude = tuple(exclude)
        self._min_values = min_values
        self._device = device_of(module)
        self._agreed = (min_values, self._exclude)
        names = self._name_of.values()
        super().__init__(names, codec, group, warm_up, full_every, timeout, callback, at_a_time)

    def put(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """Start the average of a bucket."""
        buffer, is_last, called = bucket.buffer(), bucket.is_last(), time.monotonic()
        require_host(buffer)
        pieces = self._pieces(bucket)
        step = self.steps
        if is_last:
            self.steps += 1

        errors: List[BaseException] = []
        sparse: List[Tensor] = []  # replaces the bucket

        def finish() -> Tensor:
            if errors:
                raise errors[0]
            if is_last:  # the previous step is completely done, too
                self._finish(time.monotonic() - called, 2 * (self.size - 1) / self.size)
            return sparse[0] if sparse else buffer

        work = HcompWork(finish)

        def start() -> None:
            try:
                self._start_pieces(pieces, step, errors, sparse)
            except BaseException as error:
                errors.append(error)
            self._finishing.put_work(work)

        self._queue.put(start)
        return work.get_future()

    def _pieces(self, bucket: dist.GradBucket) -> List[Tuple[str, Tensor]]:
        """Names and gradients of a bucket's parameters."""
        # a sparse gradient has a bucket of its own, without pieces
        buffer = bucket.buffer()
        gradients = [buffer] if buffer.is_sparse else bucket.gradients()
        for parameter in bucket.parameters():
            require_real(parameter)
        return [(self._name(p), g) for p, g in zip(bucket.parameters(), gradients)]

    def _name(self, parameter: Tensor) -> str:
        try:
            return self._name_of[id(parameter)]
        except KeyError:
            raise ValueError(
                f"hcomp.torch: a parameter of shape {tuple(parameter.shape)} is not of the module that "
                "the HookState was made for"
            ) from None

    def _is_compressed(self, name: str, values: int) -> bool:
        return values >= max(1, self._min_values) and not any(fnmatchcase(name, p) for p in self._exclude)

    def _start_pieces(
        self,
        pieces: List[Tuple[str, Tensor]],
        step: int,
        errors: List[BaseException],
        sparse: List[Tensor],
    ) -> None:
        """Reduce the pieces in place. For a sparse gradient, append its replacement to `sparse`."""
        with self._lock:
            self._now.values += sum(g.numel() for _, g in pieces)
        if pieces and pieces[0][1].is_sparse:
            self._start_sparse(*pieces[0], step, errors, sparse)
            return
        rest = []
        for name, gradient in pieces:
            if self._is_compressed(name, gradient.numel()):
                self._start_one(name, gradient, step, errors)
            else:
                rest.append(gradient)
        if rest:
            self._start_exact(rest, errors)

    def _start_one(
        self, name: str, gradient: Tensor, step: int, errors: List[BaseException]
    ) -> None:
        flat = gradient.detach().to(torch.float32).reshape(-1).contiguous()
        used, given = self._prepared(name, flat, step)

        def finish(report: Callable) -> None:
            self._finished(report, flat, given)
            if flat.data_ptr() != gradient.data_ptr():
                gradient.copy_(flat.view_as(gradient))

        self._start(used, "all_reduce", (flat.numpy(), True), finish, errors)

    def _start_exact(self, gradients: List[Tensor], errors: List[BaseException]) -> None:
        flat = torch.cat([g.detach().reshape(-1) for g in gradients]).to(torch.float32)

        def finish(report: Callable) -> None:
            self._add(report())
            for g, averaged in zip(gradients, flat.split([g.numel() for g in gradients])):
                g.copy_(averaged.view_as(g))

        # `finish` keeps `flat` in memory.
        arguments = (flat.data_ptr(), flat.numel(), "float32", True)
        self._start(self._group, "all_reduce_at", arguments, finish, errors)

    def _start_sparse(
        self,
        name: str,
        gradient: Tensor,
        step: int,
        errors: List[BaseException],
        sparse: List[Tensor],
    ) -> None:
        """Reduce a sparse gradient. The result omits rows of zeros."""
        dense = gradient.to_dense().to(torch.float32).contiguous()
        flat = dense.view(-1)
        total = self._sum(name, flat.numel(), "lossless_sparse")
        total.set_draws(zlib.crc32(name.encode()), step)

        def finish(report: Callable) -> None:
            self._finished(report, flat)
            rows = dense.reshape(dense.shape[0], -1).any(1).nonzero().reshape(-1)
            values = dense[rows].to(gradient.dtype)
            made = torch.sparse_coo_tensor(rows.unsqueeze(0), values, gradient.shape)
            sparse.append(made.coalesce())

        self._start(total, "all_reduce", (flat.numpy(), True), finish, errors)


def device_of(module: torch.nn.Module) -> torch.device:
    """The device of all parameters. Raise ValueError if they are on several."""
    devices = {p.device for p in module.parameters()} or {torch.device("cpu")}
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise ValueError(f"hcomp.torch: parameters are on {names}; a state is for one device")
    return devices.pop()


def uses_group(module: torch.nn.Module, transport: Optional[str]) -> bool:
    """Whether a state uses the process group; raise ValueError for wrong arguments."""
    if transport not in (None, "hcomp", "group"):
        raise ValueError(f"transport is {transport!r}; it is 'hcomp', 'group' or None")
    device = device_of(module)
    if transport == "hcomp" and device.type == "cuda":
        raise ValueError(f"transport 'hcomp' is for host memory; parameters are on {device}")
    return transport == "group" or device.type == "cuda"


def of_group(cls: type, base: type, over_group: type) -> type:
    """The class to instantiate for `cls` over a process group."""
    if cls is base:
        return over_group
    if issubclass(cls, over_group):
        return cls
    raise TypeError(
        f"{cls.__name__} is a {base.__name__} with connections of its own; over a process group, "
        f"subclass {over_group.__module__}.{over_group.__name__}"
    )


def require_real(gradient: Tensor) -> None:
    if gradient.is_complex():
        raise TypeError(
            f"hcomp.torch: gradients are {gradient.dtype}; use real parameters (torch.view_as_real)"
        )


def hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """For DistributedDataParallel.register_comm_hook."""
    return state.put(bucket)
