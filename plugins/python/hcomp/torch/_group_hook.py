"""The gradient hook over a process group: encoded gradients travel by its own collectives."""

# Annotations are not postponed, because DDP inspects those of the hook.

import math
import time
import warnings
import zlib
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist

from .._bucket import Bucket, Vector
from ._hooks import HookState, device_of
from ._state import HookReport, restored

Tensor = torch.Tensor


class GroupHookState(HookState):
    """A HookState whose reductions use a process group; HookState describes the arguments.

    The parameters of a DDP bucket share three collectives: their statistics, an all-to-all and an
    all-gather. On a CUDA device nothing waits on the host: a stream of this object does the work,
    and the future of a bucket orders the current stream after it. In host memory the hook returns
    when the reduction is done.

    A part that arrives damaged leaves its gradient and residual as they are on this rank. The next
    step, ``report`` or ``close`` then raises an HcompError.
    """

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
        if min(warm_up, full_every) < 0:
            raise ValueError(f"warm_up is {warm_up}, full_every {full_every}; they are 0 or more")
        if at_a_time != 1 or timeout != 30.0:
            raise ValueError(
                f"at_a_time is {at_a_time}, timeout {timeout}; a process group has a time limit of "
                "its own, and reduces one bucket at a time"
            )
        self.codec = codec
        self.warm_up = warm_up
        self.full_every = full_every
        self.steps = 0  #: submitted
        self.size = dist.get_world_size(group)
        self._set_parameters(module, min_values, exclude)
        self._names = set(self._name_of.values())
        self._process_group = group
        self._rank = dist.get_rank(group)
        self._device = device_of(module)
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        self._callback = callback
        self._lost: Dict[str, Tensor] = {}  #: from a checkpoint, until the first use of the name
        self._residuals: Dict[str, Tensor] = {}
        self._buckets: Dict[Tuple[str, ...], Bucket] = {}  #: by the names of their parameters
        self._scratch: Dict[str, Tensor] = {}  #: of the largest bucket, by purpose
        self._withheld = torch.zeros(1, dtype=torch.int64, device=self._device)
        self._values = 0  #: of this step
        self._bytes = 0
        self._float_bytes = 0.0
        self._seconds = 0.0
        self._error = 0.0
        self._report = HookReport(0, 0, 0, 1.0, 0.0, 0.0, 0.0, 0.0, -1, 0.0)
        self._require_agreement(tuple(exclude))
        with self._bucket_of((), ()) as nothing:  # refuses invalid codecs now, on all ranks
            self._has_feedback = nothing.has_feedback
        self._buckets.clear()

    def put(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """Reduce a bucket: enqueue its average, or in host memory compute it."""
        buffer, is_last, began = bucket.buffer(), bucket.is_last(), time.monotonic()
        gradients = [buffer] if buffer.is_sparse else bucket.gradients()
        pieces = [(self._name(p), g) for p, g in zip(bucket.parameters(), gradients)]
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
            self._end_step()
        return future

    def report(self) -> HookReport:
        self._check(False)
        return self._report

    def state_dict(self) -> Dict[str, Any]:
        """State of this rank: the step, and the residuals by name, in host memory."""
        if self._stream is not None:
            self._stream.synchronize()
        residuals = {name: one.to("cpu", copy=True) for name, one in self._residuals.items()}
        return {"step": self.steps, "ranks": self.size, "residuals": {**self._lost, **residuals}}

    def load_state_dict(self, state: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        step, lost = restored(state, self.size, self._rank, self._names)
        self._residuals.clear()
        self._lost = lost
        self.steps = step

    def close(self) -> None:
        """Free the buckets after all enqueued work. Not collective."""
        try:
            self._check(True)
        finally:
            for one in self._buckets.values():
                one.close()
            self._buckets.clear()

    # ---- Reductions ------------------------------------------------------------------------------

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

    def _reduce_exact(self, pieces: List[Tuple[str, Tensor]], adds_residuals: bool) -> None:
        flat = torch.cat([g.detach().reshape(-1).to(torch.float32) for _, g in pieces])
        parts = flat.split([g.numel() for _, g in pieces])
        residuals = [self._known_residual(name) if adds_residuals else None for name, _ in pieces]
        for part, residual in zip(parts, residuals):
            if residual is not None:
                part += residual
        self._all_reduce(flat, dist.ReduceOp.SUM)
        flat /= self.size
        for (_, gradient), part, residual in zip(pieces, parts, residuals):
            gradient.copy_(part.view_as(gradient))
            if residual is not None:  # NaN keeps it, on all ranks alike
                residual.masked_fill_(part.isfinite().all(), 0.0)

    def _reduce_compressed(self, pieces: List[Tuple[str, Tensor]], step: int) -> None:
        bucket = self._bucket_of(
            tuple(name for name, _ in pieces), tuple(g.numel() for _, g in pieces)
        )
        bucket.check()
        values = sum(g.numel() for _, g in pieces)
        in_place = [g.dtype == torch.float32 and g.is_contiguous() for _, g in pieces]
        copies = self._space("copies", 0 if all(in_place) else values, torch.float32)
        pending = self._space("pending", values if self._has_feedback else 0, torch.float32)
        flat, vectors, first = [], [], 0
        for (name, gradient), is_ready in zip(pieces, in_place):
            end = first + gradient.numel()
            x = gradient.detach().view(-1) if is_ready else copies[first:end]
            if not is_ready:
                x.copy_(gradient.detach().reshape(-1))
            flat.append(x)
            number, there = zlib.crc32(name.encode()), (0, 0, 0)
            if self._has_feedback:
                residual = self._residual(name, gradient.numel())
                there = (
                    residual.data_ptr(), pending[first:end].data_ptr(), self._withheld.data_ptr()
                )
            vectors.append(Vector(x.data_ptr(), number, *there))
            first = end
        bucket.set_vectors(vectors)
        self._exchange(bucket, step)
        for (_, gradient), x, is_ready in zip(pieces, flat, in_place):
            if not is_ready:
                gradient.copy_(x.view_as(gradient))

    def _exchange(self, bucket: Bucket, step: int) -> None:
        ranks, words = self.size, bucket.statistics_words
        statistics = self._space("statistics", words, torch.int32)
        if words:
            with self._range("hcomp:measure"):
                bucket.measure(statistics.data_ptr())
            with self._range("hcomp:agree"):
                if bucket.gathers:
                    together = self._space("all statistics", ranks * words, torch.int32)
                    self._all_gather(together, statistics)
                    statistics = together
                else:
                    self._all_reduce(statistics, dist.ReduceOp.MAX)
        out = self._space("out", ranks * bucket.part_bytes, torch.uint8)
        parts = self._space("parts", ranks * bucket.part_bytes, torch.uint8)
        mine = self._space("reduced", bucket.reduced_bytes, torch.uint8)
        reduced = self._space("all reduced", ranks * bucket.reduced_bytes, torch.uint8)
        with self._range("hcomp:encode"):
            bucket.encode(step, statistics.data_ptr(), out.data_ptr())
        with self._range("hcomp:all_to_all"):
            dist.all_to_all_single(parts, out, group=self._process_group)
            self._bytes += (ranks - 1) * bucket.part_bytes
        with self._range("hcomp:merge"):
            bucket.merge(parts.data_ptr(), mine.data_ptr())
        with self._range("hcomp:all_gather"):
            self._all_gather(reduced, mine)
        with self._range("hcomp:decode"):
            bucket.decode(reduced.data_ptr(), step, True)
        if not self.codec.startswith("identity"):
            self._error = math.nan

    def _reduce_sparse(self, gradient: Tensor) -> Tensor:
        """Average a sparse gradient in full precision. The result omits rows of zeros."""
        dense = gradient.to_dense().to(torch.float32).contiguous()
        self._all_reduce(dense, dist.ReduceOp.SUM)
        dense /= self.size
        rows = dense.reshape(dense.shape[0], -1).any(1).nonzero().reshape(-1)
        values = dense[rows].to(gradient.dtype)
        return torch.sparse_coo_tensor(rows.unsqueeze(0), values, gradient.shape).coalesce()

    def _all_reduce(self, x: Tensor, operation: Any) -> None:
        dist.all_reduce(x, op=operation, group=self._process_group)
        self._bytes += round(2 * (self.size - 1) / self.size * x.numel() * x.element_size())

    def _all_gather(self, out: Tensor, mine: Tensor) -> None:
        if self._stream is None:  # Gloo of PyTorch 1 has no other
            dist.all_gather(list(out.chunk(self.size)), mine, group=self._process_group)
        else:
            dist.all_gather_into_tensor(out, mine, group=self._process_group)
        self._bytes += (self.size - 1) * mine.numel() * mine.element_size()

    # ---- State -----------------------------------------------------------------------------------

    def _bucket_of(self, names: Tuple[str, ...], values: Tuple[int, ...]) -> Bucket:
        if names not in self._buckets:
            device, stream = None, 0
            if self._stream is not None:
                device, stream = self._device.index, self._stream.cuda_stream
            self._buckets[names] = Bucket(
                self.codec, self.size, self._rank, values, device, stream
            )
        return self._buckets[names]

    def _known_residual(self, name: str) -> Optional[Tensor]:
        if name in self._lost:
            self._residuals[name] = self._lost.pop(name).to(self._device, torch.float32, copy=True)
        return self._residuals.get(name)

    def _residual(self, name: str, values: int) -> Tensor:
        found = self._known_residual(name)
        if found is not None and found.numel() != values:
            warnings.warn(
                f"hcomp.torch: {name} has {values} values, the saved residual has "
                f"{found.numel()}; the residual is dropped"
            )
            found = None
        if found is None:
            found = torch.zeros(values, dtype=torch.float32, device=self._device)
            self._residuals[name] = found
        return found

    def _space(self, purpose: str, count: int, dtype: torch.dtype) -> Tensor:
        """Memory for one step of one bucket, in the order of the stream."""
        found = self._scratch.get(purpose)
        if found is None or found.numel() < count:
            found = torch.empty(count, dtype=dtype, device=self._device)
            self._scratch[purpose] = found
        return found[:count]

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """On this object's stream, after the work of the current one. In host memory: at once."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield

    @contextmanager
    def _range(self, title: str) -> Iterator[None]:
        """A range in profiles."""
        if self._stream is None:
            yield
            return
        torch.cuda.nvtx.range_push(title)
        try:
            yield
        finally:
            torch.cuda.nvtx.range_pop()

    def _check(self, wait: bool) -> None:
        for one in self._buckets.values():
            one.check(wait)

    def _end_step(self) -> None:
        self._float_bytes += 4 * self._values * 2 * (self.size - 1) / self.size
        seconds = self._seconds if self._stream is None else math.nan
        self._report = HookReport(
            self._report.steps + 1,
            self._values,
            self._bytes,
            self._float_bytes / self._bytes if self._bytes else 1.0,
            seconds,
            0.0 if self._stream is None else math.nan,
            self._error,
            math.nan,
            -1,
            math.nan,
        )
        self._values, self._error = 0, 0.0
        if self._callback:
            self._callback(self._report)

    def _require_agreement(self, exclude: Tuple[str, ...]) -> None:
        """Raise on all ranks alike if their arguments differ."""
        names = zlib.crc32(repr(sorted(self._names)).encode())
        mine = (self.codec, self._min_values, exclude, self.warm_up, self.full_every, names)
        all: List[Any] = [None] * self.size
        dist.all_gather_object(all, mine, self._process_group)
        if any(one != all[0] for one in all):
            raise ValueError(
                f"hcomp.torch: codec, min_values, exclude, warm_up, full_every and the names of "
                f"parameters (as a number) differ between ranks: {all}"
            )
