"""States whose reductions use a process group: encoded gradients travel by its own collectives."""

# Annotations are not postponed, because DDP inspects those of the hook.

import math
import warnings
import zlib
from contextlib import contextmanager, nullcontext
from typing import (
    Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union,
)

import torch
import torch.distributed as dist

from .. import HcompError
from .._bucket import Bucket, Vector
from ._state import HookReport, Steps, restored, wrong_steps

Tensor = torch.Tensor

#: Of the vectors of a bucket
Names = Tuple[str, ...]


class Range:
    """An NVTX range. A class, because contextmanager costs more host time."""

    __slots__ = ("title",)

    def __init__(self, title: str) -> None:
        self.title = title

    def __enter__(self) -> None:
        torch.cuda.nvtx.range_push(self.title)

    def __exit__(self, *_: Any) -> None:
        torch.cuda.nvtx.range_pop()


_no_range = nullcontext()


class Prepared(NamedTuple):
    """Gradients as vectors of a bucket, valid for one generation of the state."""

    bucket: Bucket
    vectors: List[Vector]
    copied: List[Tuple[Tensor, Tensor]]  #: gradients and the copies that are their vectors
    generation: int


class GroupState(Steps):
    """Buckets and residuals by name, over one process group. Arguments as in HookState.

    On a CUDA device nothing waits on the host after the first use of a bucket: a stream of this
    object does the work. A part that arrives damaged leaves its gradient and residual as they are.
    Then a later step, ``report`` or ``close`` raises an HcompError, on some ranks earlier than on
    the rest.
    """

    _device: torch.device  #: of the parameters; set before _set_up
    _agreed: Tuple[Any, ...]  #: further arguments that are equal on all ranks; set before _set_up
    _callback: Optional[Callable[[HookReport], None]] = None
    _most_buckets = -1  #: the oldest is dropped for a further one; -1: none

    def _set_up(
        self,
        names: Iterable[str],
        codec: str,
        group: Optional[dist.ProcessGroup],
        warm_up: int,
        full_every: int,
        timeout: float,
        callback: Optional[Callable[[HookReport], None]],
        at_a_time: int = 1,
    ) -> None:
        """Compare the arguments of all ranks. Collective."""
        if dist.get_rank(group) < 0:
            raise ValueError(f"hcomp.torch: rank {dist.get_rank()} is not in the group of the state")
        wrong = wrong_steps(warm_up, full_every)
        if timeout != 30.0:
            wrong = f"timeout is {timeout}; a process group has a time limit of its own"
        if at_a_time != 1:
            wrong = f"at_a_time is {at_a_time}; a process group reduces one bucket at a time"
        device = self._device
        if device.type not in ("cpu", "cuda"):
            wrong = f"parameters are on {device}; a process group reduces those on cpu and cuda"
        self.warm_up = warm_up
        self.full_every = full_every
        self._names = set(names)
        self._callback = callback
        refused = self._prepare(codec, group, wrong)
        names_code = zlib.crc32(repr(sorted(self._names)).encode())
        require_agreement(
            group, device, refused, (codec, warm_up, full_every, *self._agreed, names_code)
        )

    def _prepare(
        self, codec: str, group: Optional[dist.ProcessGroup], wrong: str = ""
    ) -> Optional[Exception]:
        """Set all but what only training needs. Not collective.

        Returns this rank's error, of the codec or ``wrong``, for require_agreement.
        """
        self.codec = codec
        self.steps = 0  #: submitted
        self.size = dist.get_world_size(group)
        self._rank = dist.get_rank(group)
        self._process_group = group
        self._stream: Any = None
        self._lost: Dict[str, Tensor] = {}  #: from a checkpoint, until the first use of the name
        self._residuals: Dict[str, Tensor] = {}
        self._buckets: Dict[Tuple[Names, Tuple[int, ...]], Bucket] = {}
        self._scratch: Dict[str, Tensor] = {}  #: of the largest bucket, by purpose
        self._generation = 0  #: of everything that a Prepared refers to
        self._values = 0  #: of this step
        self._bytes = 0
        self._float_bytes = 0.0
        self._seconds = 0.0
        self._error = 0.0
        self._report = HookReport(0, 0, 0, 1.0, 0.0, 0.0, 0.0, 0.0, -1, 0.0)
        self._is_closed = False
        if wrong:
            return ValueError(wrong)
        # The codec, and libhcomp_cuda.so, are tried before ranks compare: an error reaches all.
        try:
            if self._device.type == "cuda":
                self._stream = torch.cuda.Stream(self._device)
            with self._new_bucket(()) as nothing:
                self._has_feedback = nothing.has_feedback
            with self._beside():
                self._withheld = torch.zeros(1, dtype=torch.int64, device=self._device)
        except Exception as error:
            return error
        return None

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
        self._generation += 1
        self._lost = lost
        self.steps = step

    def close(self) -> None:
        """Free the buckets after all enqueued work. Not collective."""
        self._is_closed = True
        try:
            self._check(True)
        finally:
            for one in self._buckets.values():
                one.close()
            self._buckets.clear()

    # ---- Reductions ------------------------------------------------------------------------------

    def _reduce_exact(self, pieces: List[Tuple[str, Tensor]], adds_residuals: bool) -> None:
        dtype = torch.float64 if any(g.dtype == torch.float64 for _, g in pieces) else torch.float32
        flat = torch.cat([g.detach().reshape(-1).to(dtype) for _, g in pieces])
        parts = flat.split([g.numel() for _, g in pieces])
        residuals = [
            self._known_residual(name, g.numel()) if adds_residuals else None for name, g in pieces
        ]
        for part, residual in zip(parts, residuals):
            if residual is not None:
                part += residual
        self._all_reduce(flat, dist.ReduceOp.SUM)
        flat /= self.size
        for (_, gradient), part, residual in zip(pieces, parts, residuals):
            gradient.copy_(part.view_as(gradient))
            if residual is not None:  # NaN keeps it, on all ranks alike
                residual.masked_fill_(part.isfinite().all(), 0.0)

    def _reduce_compressed(
        self,
        pieces: List[Tuple[str, Tensor]],
        step: int,
        place: str = "",
        is_mean: bool = True,
        prepared: Optional[Prepared] = None,
    ) -> Prepared:
        """Average, or sum, gradients in place with the codec.

        place:     appended to the names in random draws
        prepared:  result of the last call with these pieces, which are at the same addresses
        """
        if prepared is None or prepared.generation != self._generation:
            prepared = self._prepared(pieces, place)
        bucket = prepared.bucket
        bucket.check()
        for gradient, x in prepared.copied:
            x.copy_(gradient.detach().reshape(-1))
        bucket.set_vectors(prepared.vectors)
        mine = self._start(bucket, step)
        reduced = self._space("all reduced", self.size * bucket.reduced_bytes, torch.uint8)
        with self._range("hcomp:all_gather"):
            self._all_gather(reduced, mine)
        with self._range("hcomp:decode"):
            bucket.decode(reduced.data_ptr(), step, is_mean)
        for gradient, x in prepared.copied:
            gradient.copy_(x.view_as(gradient))
        return prepared

    def _prepared(self, pieces: List[Tuple[str, Tensor]], place: str = "") -> Prepared:
        bucket = self._bucket_of(
            tuple(name for name, _ in pieces), tuple(g.numel() for _, g in pieces)
        )
        vectors, copied = self._vectors_of(
            [
                (g, self._residual(name, g.numel()), zlib.crc32((name + place).encode()))
                for name, g in pieces
            ]
        )
        return Prepared(bucket, vectors, copied, self._generation)

    def _scatter_compressed(
        self, name: str, output: Tensor, whole: Tensor, step: int, is_mean: bool
    ) -> None:
        """Reduce-scatter with the codec; ``whole`` stays as it is.

        Every rank's part is a vector of a bucket. An all-to-all gives each rank all encodings of
        its part.
        """
        part = output.numel()
        bucket = self._bucket_of((name,), (part,) * self.size)
        bucket.check()
        residual = self._residual(name, whole.numel())
        residuals = [None] * self.size if residual is None else residual.split(part)
        shards = whole.detach().view(-1).split(part)
        vectors, copied = self._vectors_of(
            [
                (shard, its, zlib.crc32(f"{name}:{rank}".encode()))
                for rank, (shard, its) in enumerate(zip(shards, residuals))
            ]
        )
        for shard, x in copied:
            x.copy_(shard)
        bucket.set_vectors(vectors)
        mine = self._start(bucket, step)
        in_place = output.dtype == torch.float32 and output.is_contiguous()
        result = output.view(-1) if in_place else self._space("result", part, torch.float32)
        result.copy_(shards[self._rank])  # remains if a message is damaged
        own = vectors[self._rank]._replace(x=result.data_ptr())
        bucket.set_vectors([*vectors[: self._rank], own, *vectors[self._rank + 1 :]])
        with self._range("hcomp:decode"):
            bucket.decode_part(mine.data_ptr(), step, is_mean)
        if not in_place:
            output.copy_(result.view_as(output))

    def _start(self, bucket: Bucket, step: int) -> Tensor:
        """Encode the bucket's vectors, and add this rank's part of all ranks; return the sum."""
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
        with self._range("hcomp:encode"):
            bucket.encode(step, statistics.data_ptr(), out.data_ptr())
        with self._range("hcomp:all_to_all"):
            dist.all_to_all_single(parts, out, group=self._process_group)
            self._bytes += (ranks - 1) * bucket.part_bytes
        with self._range("hcomp:merge"):
            bucket.merge(parts.data_ptr(), mine.data_ptr())
        if not self.codec.startswith("identity"):
            self._error = math.nan
        return mine

    def _vectors_of(
        self, pieces: Sequence[Tuple[Tensor, Optional[Tensor], int]]
    ) -> Tuple[List[Vector], List[Tuple[Tensor, Tensor]]]:
        """Vectors for a bucket, and gradients with the float32 copies that the caller fills.

        pieces:  gradient, residual and number for random draws of each. A gradient that is
                 contiguous and float32 is used itself
        """
        gradients = [g for g, _, _ in pieces]
        sizes = [g.numel() for g in gradients]
        in_place = [g.dtype == torch.float32 and g.is_contiguous() for g in gradients]
        copies = self._space("copies", 0 if all(in_place) else sum(sizes), torch.float32)
        pending = self._space("pending", sum(sizes) if self._has_feedback else 0, torch.float32)
        vectors, copied, first = [], [], 0
        for (gradient, residual, number), size, is_ready in zip(pieces, sizes, in_place):
            end = first + size
            x = gradient if is_ready else copies[first:end]
            if not is_ready:
                copied.append((gradient, x))
            there = (0, 0, 0)
            if residual is not None:
                there = (
                    residual.data_ptr(), pending[first:end].data_ptr(), self._withheld.data_ptr()
                )
            vectors.append(Vector(x.data_ptr(), number, *there))
            first = end
        return vectors, copied

    def _all_reduce(self, x: Tensor, operation: Any) -> None:
        with uncompressed():
            dist.all_reduce(x, op=operation, group=self._process_group)
        self._bytes += round(2 * (self.size - 1) / self.size * x.numel() * x.element_size())

    def _all_gather(self, out: Tensor, mine: Tensor) -> None:
        if self._stream is None:  # Gloo of PyTorch 1 has no other
            dist.all_gather(list(out.chunk(self.size)), mine, group=self._process_group)
        else:
            dist.all_gather_into_tensor(out, mine, group=self._process_group)
        self._bytes += (self.size - 1) * mine.numel() * mine.element_size()

    # ---- State -----------------------------------------------------------------------------------

    def _bucket_of(self, names: Names, values: Tuple[int, ...]) -> Bucket:
        if (names, values) not in self._buckets:
            # DDP makes new buckets after the first step.
            for old in [key for key in self._buckets if set(key[0]) & set(names)]:
                self._drop(old)
            if len(self._buckets) == self._most_buckets:
                self._drop(next(iter(self._buckets)))
            self._buckets[names, values] = self._new_bucket(values)
        return self._buckets[names, values]

    def _drop(self, key: Tuple[Names, Tuple[int, ...]]) -> None:
        self._generation += 1
        self._buckets[key].check(wait=True)
        self._buckets.pop(key).close()

    def _new_bucket(self, values: Tuple[int, ...]) -> Bucket:
        device, stream = None, 0
        if self._stream is not None:
            device, stream = self._device.index, self._stream.cuda_stream
        return Bucket(self.codec, self.size, self._rank, values, device, stream)

    def _known_residual(self, name: str, values: int) -> Optional[Tensor]:
        """The residual of a vector; None if it has none so far, or without error feedback."""
        if not self._has_feedback:
            return None
        if (lost := self._lost.pop(name, None)) is not None:
            if lost.numel() == values:
                self._residuals[name] = lost.to(self._device, torch.float32, copy=True)
            else:
                warnings.warn(
                    f"hcomp.torch: {name} has {values} values, the saved residual has "
                    f"{lost.numel()}; the residual is dropped"
                )
        return self._residuals.get(name)

    def _residual(self, name: str, values: int) -> Optional[Tensor]:
        """The residual of a vector; None without error feedback."""
        found = self._known_residual(name, values)
        if found is None and self._has_feedback:
            found = torch.zeros(values, dtype=torch.float32, device=self._device)
            self._residuals[name] = found
        return found

    def _space(self, purpose: str, count: int, dtype: torch.dtype) -> Tensor:
        """Memory for one step of one bucket, in the order of the stream."""
        found = self._scratch.get(purpose)
        if found is None or found.numel() < count:
            found = torch.empty(count, dtype=dtype, device=self._device)
            self._scratch[purpose] = found
            self._generation += 1
        return found[:count]

    def _future(self) -> Any:
        """A future whose result is set in the order of this object's stream."""
        devices = {} if self._stream is None else {"devices": [self._device]}
        return torch.futures.Future(**devices)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """On this object's stream, after the work of the current one. In host memory: at once."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield

    def _range(self, title: str) -> Any:
        """A range in profiles of CUDA."""
        return _no_range if self._stream is None else Range(title)

    def _check(self, wait: bool) -> None:
        for one in self._buckets.values():
            one.check(wait)

    def _end_report(self, ring: float) -> None:
        """Complete the report of a step.

        ring:  how often float32 values travel, per rank
        """
        self._float_bytes += 4 * self._values * ring
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

    def _require_reducible(self, x: Tensor) -> None:
        if self._is_closed:
            raise HcompError(HcompError.INVALID_ARGUMENT, "hcomp.torch: the state is closed")
        if x.device != self._device:
            raise ValueError(
                f"hcomp.torch: gradients are on {x.device}, the state was made for {self._device}"
            )


def uncompressed() -> Any:
    """A context for calls that hcomp.torch.compress must not reach."""
    if not hasattr(dist.ReduceOp, "unbox"):  # before compress, and no context in PyTorch 1
        return nullcontext()
    return torch._C._AutoDispatchBelowAutograd()


def require_agreement(
    group: Optional[dist.ProcessGroup],
    device: torch.device,
    refused: Optional[Exception],
    arguments: Tuple[Any, ...],
) -> None:
    """Raise on all ranks alike if their arguments are wrong or differ. Collective.

    device:   of the tensors of the group
    refused:  this rank's error
    """
    mine = ("hcomp.torch", "" if refused is None else str(refused), *arguments)
    records: List[Any] = [None] * dist.get_world_size(group)
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        dist.all_gather_object(records, mine, group)
    if refused is not None:
        raise refused
    if not all(isinstance(one, tuple) and one[:1] == ("hcomp.torch",) for one in records):
        raise ValueError(
            "hcomp.torch: the transport is not 'group' on all ranks, or they make different calls"
        )
    if errors := [f"rank {r}: {one[1]}" for r, one in enumerate(records) if one[1]]:
        raise ValueError("; ".join(errors))
    if any(one != records[0] for one in records):
        raise ValueError(
            "hcomp.torch: the arguments, or the names of parameters (the last number), differ "
            f"between ranks: {[one[2:] for one in records]}"
        )
